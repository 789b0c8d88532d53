/* attractor_weights: what attractors learn, their weights, and what they complete. */
#include <string.h>

#include "client/calls/calls.h"

/* ---- learn ---- */

static ea_status build_learn(ea_client *c, const ea_learn_question *question,
                             struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, learn_question, q, question);
    if (q.collection ? q.rows != NULL : q.ids != NULL)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "patterns: ids are of a collection, rows are sent along without one");
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_ATTRACTOR_LEARN);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false; /* a repetition would learn twice */
    engram_accel_v1_AttractorLearnRequest m = {0};
    ea_status st = ea_check_name(c, "attractor", q.attractor, m.attractor);
    if (!st && q.collection) {
        st = ea_check_name(c, "collection", q.collection, m.collection);
        if (!st) st = TENSOR(m, ids, U64, q.ids, q.count, 1);
    } else if (!st) {
        st = ea_check_dimension(c, q.dimension);
        if (!st) st = TENSOR(m, rows, F32, q.rows, q.count, q.dimension);
    }
    return ea_build_write(c, r, st, engram_accel_v1_AttractorLearnRequest_fields, &m, q.write, out);
}

ea_status ea_attractor_learn(ea_client *c, const ea_learn_question *question, ea_learned *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_learn(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_attractor_learn_send(ea_client *c, const ea_learn_question *question,
                                  const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_learn(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- fetch, set ---- */

static ea_status build_fetch(ea_client *c, const char *name, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_ATTRACTOR_FETCH);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_AttractorFetchRequest m = {0};
    ea_status st = ea_check_name(c, "attractor", name, m.attractor);
    return ea_build_end(c, r, st, engram_accel_v1_AttractorFetchRequest_fields, &m, out);
}

ea_status ea_attractor_fetch(ea_client *c, const char *name, ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_result_free(out);
    struct client_request *r;
    ea_status st = build_fetch(c, name, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_attractor_fetch_send(ea_client *c, const char *name, const ea_send_options *how,
                                  uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_fetch(c, name, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_set(ea_client *c, const char *name, const float *weights, uint32_t dimension,
                           struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_ATTRACTOR_SET);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_AttractorSetRequest m = {0};
    ea_status st = ea_check_name(c, "attractor", name, m.attractor);
    if (!st) st = ea_check_dimension(c, dimension);
    if (!st) st = TENSOR(m, weights, F32, weights, dimension, dimension);
    return ea_build_change(c, r, st, engram_accel_v1_AttractorSetRequest_fields, &m, out);
}

ea_status ea_attractor_set(ea_client *c, const char *name, const float *weights, uint32_t dimension,
                           ea_learned *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_set(c, name, weights, dimension, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_attractor_set_send(ea_client *c, const char *name, const float *weights,
                                uint32_t dimension, const ea_send_options *how,
                                uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_set(c, name, weights, dimension, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- complete ---- */

static ea_status build_complete(ea_client *c, const ea_engine_question *question,
                                struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, engine_question, q, question);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_COMPLETE_ENGINE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_CompleteEngineRequest m = {0};
    r->expect = (struct expectation){
        .rows = q.count, .dimension = q.dimension, .stored = q.collection != NULL};
    ea_status st = ea_check_name(c, "attractor", q.attractor, m.attractor);
    if (!st && q.collection) st = ea_check_name(c, "collection", q.collection, m.collection);
    if (!st) st = ea_check_dimension(c, q.dimension);
    if (!st) st = TENSOR(m, cues, F32, q.cues, q.count, q.dimension);
    if (!st && q.mask) st = TENSOR(m, mask, U8, q.mask, q.mask_rows, q.dimension);
    return ea_build_end(c, r, st, engram_accel_v1_CompleteEngineRequest_fields, &m, out);
}

ea_status ea_complete_engine(ea_client *c, const ea_engine_question *question,
                             ea_engine_completed *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_engine_completed_free(out);
    struct client_request *r;
    ea_status st = build_complete(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_complete_engine_send(ea_client *c, const ea_engine_question *question,
                                  const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_complete(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
