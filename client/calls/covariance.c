/* covariance: mean and covariance of rows. */
#include "client/calls/calls.h"

static ea_status check_form(ea_client *c, const ea_covariance_question *q)
{
    if (q->collection ? q->rows != NULL : q->ids != NULL)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "ids are of a collection, rows are inline without one");
    if (q->collection && !q->ids && !q->weights && q->count)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "count: of all rows of a collection it is the number of weights");
    return EA_OK;
}

static ea_status build_covariance(ea_client *c, const ea_covariance_question *question,
                                  struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, covariance_question, q, question);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_COVARIANCE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_CovarianceRequest m = {.dry_run = q.dry_run};
    ea_status st =
        q.collection ? ea_check_name(c, "collection", q.collection, m.collection) : EA_OK;
    if (!st) st = check_form(c, &q);
    if (!st && !q.collection) st = ea_check_dimension(c, q.dimension);
    if (!st && !q.collection) st = TENSOR(m, rows, F32, q.rows, q.count, q.dimension);
    if (!st && q.ids) st = TENSOR(m, ids, U64, q.ids, q.count, 1);
    if (!st && q.weights) st = TENSOR(m, weights, F32, q.weights, q.count, 1);
    r->expect = (struct expectation){.dimension = q.collection ? 0 : q.dimension, .dry = q.dry_run};
    return ea_build_end(c, r, st, engram_accel_v1_CovarianceRequest_fields, &m, out);
}

ea_status ea_covariance(ea_client *c, const ea_covariance_question *question,
                        ea_covariance_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_covariance_result_free(out);
    struct client_request *r;
    ea_status st = build_covariance(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_covariance_send(ea_client *c, const ea_covariance_question *question,
                             const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_covariance(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
