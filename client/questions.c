/* questions: kNN, similarity, candidates, norms, averages. */
#include "client/client.h"

#include <inttypes.h>
#include <string.h>

#define F32 engram_accel_v1_Dtype_DTYPE_FLOAT32
#define U64 engram_accel_v1_Dtype_DTYPE_UINT64
#define TENSOR(message, member, dtype, data, rows, columns)                                       \
    ea_request_tensor(c, r, #member, &(message).has_##member, &(message).member, (dtype), (data), \
                      (rows), (columns))

/* Ends a builder: the request goes to *out, or back. */
static ea_status built(ea_client *c, struct client_request *r, ea_status st,
                       struct client_request **out)
{
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    *out = r;
    return EA_OK;
}

ea_status ea_build_knn(ea_client *c, const char *collection, const float *queries, uint64_t q,
                       uint32_t dimension, uint32_t k, const ea_filter *filter,
                       const float *threshold, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_KNN);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_KnnRequest m = {.k = k, .has_threshold = threshold != NULL};
    if (threshold) m.threshold = *threshold;
    uint64_t allowed;
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    if (!st) st = ea_check_dimension(c, dimension);
    if (!st) st = TENSOR(m, queries, F32, queries, q, dimension);
    if (!st) st = ea_request_filter(c, r, "filter", filter, &m.has_filter, &m.filter, &allowed);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_KnnRequest_fields, &m);
    r->expect = (struct expectation){.queries = q, .columns_max = k};
    return built(c, r, st, out);
}

ea_status ea_knn(ea_client *c, const char *collection, const float *queries, uint64_t q,
                 uint32_t dimension, uint32_t k, const ea_filter *filter, const float *threshold,
                 ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    ea_result_free(out);
    struct client_request *r;
    ea_status st = ea_build_knn(c, collection, queries, q, dimension, k, filter, threshold, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_build_similarity(ea_client *c, const char *collection, const float *queries,
                              uint64_t q, uint32_t dimension, const ea_filter *filter,
                              const float *threshold, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SIMILARITY);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_SimilarityRequest m = {.has_threshold = threshold != NULL};
    if (threshold) m.threshold = *threshold;
    uint64_t allowed;
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    if (!st) st = ea_check_dimension(c, dimension);
    if (!st) st = TENSOR(m, queries, F32, queries, q, dimension);
    if (!st) st = ea_request_filter(c, r, "filter", filter, &m.has_filter, &m.filter, &allowed);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_SimilarityRequest_fields, &m);
    if (!st)
        r->expect = (struct expectation){
            .queries = q, .columns_max = allowed, .threshold = threshold != NULL};
    return built(c, r, st, out);
}

ea_status ea_similarity(ea_client *c, const char *collection, const float *queries, uint64_t q,
                        uint32_t dimension, const ea_filter *filter, const float *threshold,
                        ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    ea_result_free(out);
    struct client_request *r;
    ea_status st = ea_build_similarity(c, collection, queries, q, dimension, filter, threshold, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_similarity_inline(ea_client *c, ea_metric metric, const float *queries, uint64_t q,
                               const float *rows, uint64_t n, uint32_t dimension,
                               const float *threshold, ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    ea_result_free(out);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SIMILARITY);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_SimilarityRequest m = {.metric = (engram_accel_v1_Metric)metric,
                                           .has_threshold = threshold != NULL};
    if (threshold) m.threshold = *threshold;
    ea_status st = ea_check_dimension(c, dimension);
    if (!st) st = TENSOR(m, queries, F32, queries, q, dimension);
    if (!st) st = TENSOR(m, rows, F32, rows, n, dimension);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_SimilarityRequest_fields, &m);
    r->expect = (struct expectation){.queries = q,
                                     .rows = n,
                                     .columns_max = n,
                                     .threshold = threshold != NULL,
                                     .inline_rows = true};
    st = built(c, r, st, &r);
    return st ? st : ea_call(c, r, out);
}

/* ---- candidates: a target filled in by the caller, then queries, offsets and the target's own
 * tensor in body order ---- */

static ea_status build_score(ea_client *c, engram_accel_v1_ScoreCandidatesRequest *m,
                             const float *queries, uint64_t q, uint32_t dimension,
                             const uint64_t *offsets, const uint64_t *candidates, const float *rows,
                             bool inline_rows, uint64_t n, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SCORE_CANDIDATES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    ea_status st = ea_check_dimension(c, dimension);
    if (!st && !offsets && q != 1 && (q || n))
        st = ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                     "offsets: NULL for %" PRIu64 " queries", q);
    if (!st) st = TENSOR(*m, queries, F32, queries, q, dimension);
    if (!st && q == UINT64_MAX) st = EA_INVALID_ARGUMENT; /* no queries fit; q + 1 must not wrap */
    if (!st && offsets) st = TENSOR(*m, offsets, U64, offsets, q + 1, 1);
    if (!st && inline_rows) st = TENSOR(*m, rows, F32, rows, n, dimension);
    if (!st && !inline_rows) st = TENSOR(*m, ids, U64, candidates, n, 1);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_ScoreCandidatesRequest_fields, m);
    r->expect =
        (struct expectation){.queries = q, .rows = n, .columns_max = m->k, .all_scores = m->k == 0};
    return built(c, r, st, out);
}

ea_status ea_build_score(ea_client *c, const char *collection, ea_metric metric,
                         const float *queries, uint64_t q, uint32_t dimension,
                         const uint64_t *offsets, const uint64_t *candidates, uint64_t n,
                         uint32_t k, struct client_request **out)
{
    engram_accel_v1_ScoreCandidatesRequest m = {.metric = (engram_accel_v1_Metric)metric, .k = k};
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    if (st) return st;
    return build_score(c, &m, queries, q, dimension, offsets, candidates, NULL, false, n, out);
}

ea_status ea_score(ea_client *c, const char *collection, ea_metric metric, const float *queries,
                   uint64_t q, uint32_t dimension, const uint64_t *offsets,
                   const uint64_t *candidates, uint64_t n, uint32_t k, ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    ea_result_free(out);
    struct client_request *r;
    ea_status st =
        ea_build_score(c, collection, metric, queries, q, dimension, offsets, candidates, n, k, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_score_inline(ea_client *c, ea_metric metric, const float *queries, uint64_t q,
                          uint32_t dimension, const uint64_t *offsets, const float *rows,
                          uint64_t n, uint32_t k, ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    ea_result_free(out);
    engram_accel_v1_ScoreCandidatesRequest m = {.metric = (engram_accel_v1_Metric)metric, .k = k};
    struct client_request *r;
    ea_status st = build_score(c, &m, queries, q, dimension, offsets, NULL, rows, true, n, &r);
    return st ? st : ea_call(c, r, out);
}

/* ---- norms and averages: their results go into the caller's memory ---- */

static ea_status call_into(ea_client *c, struct client_request *r, uint64_t columns, float *out)
{
    ea_result result = {0};
    ea_status st = ea_call(c, r, &result);
    if (!st && result.columns != columns)
        st =
            ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                    "dimension: %" PRIu64 ", the collection has %" PRIu64, columns, result.columns);
    if (!st && out && result.vectors)
        memcpy(out, result.vectors, result.rows * result.columns * sizeof *out);
    ea_result_free(&result);
    return st;
}

ea_status ea_norms(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                   float *norms_out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!norms_out && n) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "norms_out: NULL");
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_NORMS);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_NormsRequest m = {0};
    ea_status st = ea_check_dimension(c, dimension);
    if (!st) st = TENSOR(m, rows, F32, rows, n, dimension);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_NormsRequest_fields, &m);
    r->expect = (struct expectation){.rows = n};
    st = built(c, r, st, &r);
    return st ? st : call_into(c, r, 1, norms_out);
}

ea_status ea_weighted_average(ea_client *c, const float *rows, const float *weights, uint64_t n,
                              uint32_t dimension, float *average_out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!average_out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "average_out: NULL");
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_WEIGHTED_AVERAGE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_WeightedAverageRequest m = {0};
    ea_status st = ea_check_dimension(c, dimension);
    if (!st) st = TENSOR(m, weights, F32, weights, n, 1);
    if (!st) st = TENSOR(m, rows, F32, rows, n, dimension);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_WeightedAverageRequest_fields, &m);
    r->expect = (struct expectation){.dimension = dimension};
    st = built(c, r, st, &r);
    return st ? st : call_into(c, r, dimension, average_out);
}

ea_status ea_weighted_average_ids(ea_client *c, const char *collection, const uint64_t *ids,
                                  const float *weights, uint64_t n, uint32_t dimension,
                                  float *average_out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!average_out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "average_out: NULL");
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_WEIGHTED_AVERAGE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_WeightedAverageRequest m = {0};
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    if (!st) st = ea_check_dimension(c, dimension);
    if (!st) st = TENSOR(m, weights, F32, weights, n, 1);
    if (!st) st = TENSOR(m, ids, U64, ids, n, 1);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_WeightedAverageRequest_fields, &m);
    r->expect = (struct expectation){.dimension = 0}; /* the collection's, compared afterwards */
    st = built(c, r, st, &r);
    return st ? st : call_into(c, r, dimension, average_out);
}
