/* vectors: kNN, similarity, candidates. */
#include <inttypes.h>

#include "client/calls/calls.h"
#include "client/calls/parts.h"

/* ---- kNN ---- */

static ea_status build_knn(ea_client *c, const ea_knn_question *question,
                           struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, knn_question, q, question);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_KNN);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_KnnRequest m = {.k = q.k, .has_threshold = q.threshold != NULL};
    if (q.threshold) m.threshold = *q.threshold;
    uint64_t allowed;
    ea_status st = ea_check_name(c, "collection", q.collection, m.collection);
    if (!st) st = ea_check_dimension(c, q.dimension);
    if (!st) st = TENSOR(m, queries, F32, q.queries, q.query_count, q.dimension);
    if (!st) st = ea_request_filter(c, r, "filter", q.filter, &m.has_filter, &m.filter, &allowed);
    r->expect = (struct expectation){.queries = q.query_count, .columns_max = q.k};
    return ea_build_end(c, r, st, engram_accel_v1_KnnRequest_fields, &m, out);
}

ea_status ea_knn(ea_client *c, const ea_knn_question *question, ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_result_free(out);
    struct client_request *r;
    ea_status st = build_knn(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_knn_send(ea_client *c, const ea_knn_question *question, const ea_send_options *how,
                      uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_knn(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- similarity ---- */

static ea_status similarity_target(ea_client *c, struct client_request *r,
                                   const ea_similarity_question *q,
                                   engram_accel_v1_SimilarityRequest *m)
{
    if (!q->collection) {
        m->metric = (engram_accel_v1_Metric)q->metric;
        if (q->filter)
            return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_FILTER,
                           "filter: not with inline rows");
        r->expect.inline_rows = true;
        r->expect.rows = r->expect.columns_max = q->row_count;
        return TENSOR(*m, rows, F32, q->rows, q->row_count, q->dimension);
    }
    if (q->rows || q->row_count)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "collection and inline rows exclude each other");
    return ea_request_filter(c, r, "filter", q->filter, &m->has_filter, &m->filter,
                             &r->expect.columns_max);
}

ea_status ea_build_similarity(ea_client *c, const ea_similarity_question *q,
                              struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SIMILARITY);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_SimilarityRequest m = {.has_threshold = q->threshold != NULL};
    if (q->threshold) m.threshold = *q->threshold;
    r->expect = (struct expectation){.queries = q->query_count, .threshold = q->threshold != NULL};
    ea_status st =
        q->collection ? ea_check_name(c, "collection", q->collection, m.collection) : EA_OK;
    if (!st) st = ea_check_dimension(c, q->dimension);
    if (!st) st = TENSOR(m, queries, F32, q->queries, q->query_count, q->dimension);
    if (!st) st = similarity_target(c, r, q, &m);
    return ea_build_end(c, r, st, engram_accel_v1_SimilarityRequest_fields, &m, out);
}

ea_status ea_similarity(ea_client *c, const ea_similarity_question *question, ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_result_free(out);
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, similarity_question, q, question);
    struct client_request *r;
    ea_status st = ea_build_similarity(c, &q, &r);
    uint64_t rows = 0, row_bytes = (uint64_t)q.dimension * sizeof(float);
    if (!st && !q.collection)
        st = ea_parts_needed(c, &r, q.query_count * row_bytes, row_bytes, &rows);
    if (st || !rows) return st ? st : ea_call(c, r, out);
    ea_result joined = {0};
    st = ea_parts_similarity(c, &q, rows, &joined);
    if (!st) ea_copy_struct(out, c->sizes.result, &joined, sizeof joined);
    return st;
}

ea_status ea_similarity_send(ea_client *c, const ea_similarity_question *question,
                             const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, similarity_question, q, question);
    struct client_request *r;
    ea_status st = ea_build_similarity(c, &q, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- candidates ---- */

ea_status ea_build_score(ea_client *c, const ea_score_question *q, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SCORE_CANDIDATES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_ScoreCandidatesRequest m = {.metric = (engram_accel_v1_Metric)q->metric,
                                                .k = q->k};
    uint64_t queries = q->query_count;
    ea_status st =
        q->collection ? ea_check_name(c, "collection", q->collection, m.collection) : EA_OK;
    if (!st) st = ea_check_dimension(c, q->dimension);
    if (!st && !q->offsets && queries != 1 && (queries || q->count))
        st = ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                     "offsets: NULL for %" PRIu64 " queries", queries);
    if (!st && (q->collection ? q->rows != NULL : q->ids != NULL))
        st = ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                     "ids are of a collection, rows are inline without one");
    if (!st) st = TENSOR(m, queries, F32, q->queries, queries, q->dimension);
    if (!st && queries == UINT64_MAX) st = EA_INVALID_ARGUMENT; /* queries + 1 must not overflow */
    if (!st && q->offsets) st = TENSOR(m, offsets, U64, q->offsets, queries + 1, 1);
    if (!st && q->collection) st = TENSOR(m, ids, U64, q->ids, q->count, 1);
    if (!st && !q->collection) st = TENSOR(m, rows, F32, q->rows, q->count, q->dimension);
    r->expect = (struct expectation){
        .queries = queries, .rows = q->count, .columns_max = q->k, .all_scores = q->k == 0};
    return ea_build_end(c, r, st, engram_accel_v1_ScoreCandidatesRequest_fields, &m, out);
}

ea_status ea_score(ea_client *c, const ea_score_question *question, ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_result_free(out);
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, score_question, q, question);
    struct client_request *r;
    ea_status st = ea_build_score(c, &q, &r);
    uint64_t rows = 0, row_bytes = (uint64_t)q.dimension * sizeof(float);
    if (!st && !q.collection)
        st = ea_parts_needed(c, &r, q.query_count * (row_bytes + 8), row_bytes, &rows);
    if (st || !rows) return st ? st : ea_call(c, r, out);
    ea_result joined = {0};
    st = ea_parts_score(c, &q, rows, &joined);
    if (!st) ea_copy_struct(out, c->sizes.result, &joined, sizeof joined);
    return st;
}

ea_status ea_score_send(ea_client *c, const ea_score_question *question, const ea_send_options *how,
                        uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, score_question, q, question);
    struct client_request *r;
    ea_status st = ea_build_score(c, &q, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
