/* complete: completion of partial vectors by the modern rule. */
#include "client/calls/calls.h"

static ea_status build_complete(ea_client *c, const ea_complete_question *question,
                                struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, complete_question, q, question);
    if (!q.mask && q.mask_rows) return ea_fail_null(c, "mask");
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_COMPLETE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_CompleteRequest m = {.beta = q.beta, .rounds = q.rounds, .unit = q.unit};
    ea_status st = ea_check_name(c, "collection", q.collection, m.collection);
    if (!st) st = ea_check_dimension(c, q.dimension);
    if (!st) st = TENSOR(m, states, F32, q.states, q.state_count, q.dimension);
    if (!st && q.mask) st = TENSOR(m, mask, U8, q.mask, q.mask_rows, q.dimension);
    r->expect = (struct expectation){.rows = q.state_count, .dimension = q.dimension};
    return ea_build_end(c, r, st, engram_accel_v1_CompleteRequest_fields, &m, out);
}

ea_status ea_complete(ea_client *c, const ea_complete_question *question, ea_completed *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_completed_free(out);
    struct client_request *r;
    ea_status st = build_complete(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_complete_send(ea_client *c, const ea_complete_question *question,
                           const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_complete(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
