/* sums: norms and weighted averages, whose results are written to the caller's memory. */
#include <inttypes.h>
#include <string.h>

#include "client/calls/calls.h"
#include "client/calls/parts.h"

static ea_status call_into(ea_client *c, struct client_request *r, uint64_t columns, float *out)
{
    ea_status st = ea_run(c, r, ea_deadline_after(c->timeout_us), 0);
    const ea_result *result = &r->result;
    if (!st && result->columns != columns)
        st = ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                     "dimension: %" PRIu64 ", the collection has %" PRIu64, columns,
                     result->columns);
    if (!st && out && result->vectors)
        memcpy(out, result->vectors, result->rows * result->columns * sizeof *out);
    ea_request_release(c, r);
    return st;
}

/* ---- norms ---- */

ea_status ea_build_norms(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                         struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_NORMS);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_NormsRequest m = {0};
    ea_status st = ea_check_dimension(c, dimension);
    if (!st) st = TENSOR(m, rows, F32, rows, n, dimension);
    r->expect = (struct expectation){.rows = n};
    return ea_build_end(c, r, st, engram_accel_v1_NormsRequest_fields, &m, out);
}

ea_status ea_norms(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                   float *norms_out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!norms_out && n) return ea_fail_null(c, "norms_out");
    struct client_request *r;
    ea_status st = ea_build_norms(c, rows, n, dimension, &r);
    uint64_t part = 0;
    if (!st) st = ea_parts_needed(c, &r, 0, (uint64_t)dimension * sizeof(float), &part);
    if (!st && part) return ea_parts_norms(c, rows, n, dimension, part, norms_out);
    return st ? st : call_into(c, r, 1, norms_out);
}

ea_status ea_norms_send(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                        const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = ea_build_norms(c, rows, n, dimension, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- weighted average ---- */

ea_status ea_build_average(ea_client *c, const ea_average_question *q, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_WEIGHTED_AVERAGE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_WeightedAverageRequest m = {0};
    ea_status st =
        q->collection ? ea_check_name(c, "collection", q->collection, m.collection) : EA_OK;
    if (!st) st = ea_check_dimension(c, q->dimension);
    if (!st && (q->collection ? q->rows != NULL : q->ids != NULL))
        st = ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                     "ids are of a collection, rows are inline without one");
    if (!st) st = TENSOR(m, weights, F32, q->weights, q->count, 1);
    if (!st && q->collection) st = TENSOR(m, ids, U64, q->ids, q->count, 1);
    if (!st && !q->collection) st = TENSOR(m, rows, F32, q->rows, q->count, q->dimension);
    /* A collection's dimension is compared when the average has come. */
    r->expect = (struct expectation){.dimension = q->collection ? 0 : q->dimension};
    return ea_build_end(c, r, st, engram_accel_v1_WeightedAverageRequest_fields, &m, out);
}

ea_status ea_weighted_average(ea_client *c, const ea_average_question *question, float *average_out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!question) return ea_fail_null(c, "question");
    if (!average_out) return ea_fail_null(c, "average_out");
    EA_TAKE(c, average_question, q, question);
    struct client_request *r;
    ea_status st = ea_build_average(c, &q, &r);
    uint64_t part = 0;
    if (!st && !q.collection)
        st = ea_parts_needed(c, &r, 0, ((uint64_t)q.dimension + 1) * sizeof(float), &part);
    if (!st && part) return ea_parts_average(c, &q, part, average_out);
    return st ? st : call_into(c, r, q.dimension, average_out);
}

ea_status ea_weighted_average_send(ea_client *c, const ea_average_question *question,
                                   const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, average_question, q, question);
    struct client_request *r;
    ea_status st = ea_build_average(c, &q, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
