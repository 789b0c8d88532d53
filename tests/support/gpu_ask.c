#include "tests/support/gpu_ask.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_bind.h"
#include "tests/support/gpu_sums.h"
#include "tests/support/gpu_complete.h"
#include "tests/support/gpu_cluster.h"
#include "tests/support/gpu_covariance.h"
#include "tests/support/reference.h"
#include "tests/support/sweep.h"

enum {
    LOOKED_AT_MAX = 1000, /* scores of a query that are computed again */
    SWEPT_ABOVE = 64      /* queries, of which make check looks at a part */
};

struct ask_rows ask_make(uint32_t space, uint64_t replica, uint64_t version, uint32_t dimension,
                         uint64_t count, uint64_t seed)
{
    struct ask_rows r = {.space = space,
                         .dimension = dimension,
                         .replica = replica,
                         .version = version,
                         .count = count,
                         .plain = malloc(count * dimension * sizeof(float) + 1),
                         .ids = malloc(count * sizeof(uint64_t) + 1)};
    cr_assert(r.plain && r.ids);
    reference_fill(seed, r.plain, count * dimension);
    for (uint64_t i = 0; i < count; i++)
        r.ids[i] = i * 7 + seed % 1000 * 1000003;
    return r;
}

void ask_free(struct ask_rows *r)
{
    free(r->plain);
    free(r->ids);
    *r = (struct ask_rows){0};
}

/* Lays rows first .. first + count - 1 into the heap, padded, and returns their place. */
static uint64_t lay_rows(struct gpu_peer *p, const struct ask_rows *r, uint64_t first,
                         uint64_t count)
{
    size_t stride = vector_stride(r->dimension);
    uint64_t rows = peer_take(p, count * stride * sizeof(float));
    for (uint64_t i = 0; i < count; i++) {
        float *to = (float *)peer_at(p, rows) + i * stride;
        memset(to, 0, stride * sizeof *to);
        memcpy(to, r->plain + (first + i) * r->dimension, r->dimension * sizeof *to);
    }
    return rows;
}

struct order ask_upload(struct gpu_peer *p, const struct ask_rows *r, bool fresh, uint64_t first,
                        uint64_t count)
{
    uint64_t rows = lay_rows(p, r, first, count), ids = peer_take(p, count * 8);
    if (count) memcpy(peer_at(p, ids), r->ids + first, count * sizeof *r->ids);
    return (struct order){.kind = ORDER_UPLOAD,
                          .space = r->space,
                          .replica = r->replica,
                          .version = r->version,
                          .upload = {.dimension = r->dimension,
                                     .fresh = fresh,
                                     .row_count = r->count,
                                     .first = first,
                                     .count = count,
                                     .rows = rows,
                                     .ids = ids}};
}

struct order ask_upload_codes(struct gpu_peer *p, const struct ask_rows *r, bool fresh,
                              uint64_t first, uint64_t count)
{
    struct order o = ask_upload(p, r, fresh, first, count);
    o.upload.shadow_only = 1;
    return o;
}

struct ask_host ask_lay(struct gpu_peer *p, const struct ask_rows *r, uint64_t each)
{
    uint64_t segments = (r->count + each - 1) / each;
    struct ask_host host = {peer_take(p, segments * sizeof(uint64_t)), each};
    for (uint64_t i = segments; i-- > 0;) {
        uint64_t left = r->count - i * each;
        ((uint64_t *)peer_at(p, host.places))[i] =
            lay_rows(p, r, i * each, left < each ? left : each);
    }
    return host;
}

void ask_from(struct order *o, struct ask_host host)
{
    o->run.host_rows = host.places;
    o->run.host_segment_rows = host.each;
}

struct order ask_forget(const struct ask_rows *r)
{
    return (struct order){.kind = ORDER_FORGET, .space = r->space, .replica = r->replica};
}

/* ---- requests ---- */

/* Room for a result, filled with what is none. */
static uint64_t take_result(struct gpu_peer *p, uint64_t bytes)
{
    uint64_t place = peer_take(p, bytes);
    memset(peer_at(p, place), 0xee, bytes);
    return place;
}

static struct order request(struct gpu_peer *p, const struct ask_rows *r, uint32_t operation,
                            enum metric metric, uint64_t queries, uint64_t seed)
{
    uint64_t place = peer_take(p, queries * r->dimension * sizeof(float));
    reference_fill(seed, peer_at(p, place), queries * r->dimension);
    struct order o = {.kind = ORDER_RUN,
                      .space = r->space,
                      .replica = r->replica,
                      .version = r->version,
                      .run = order_run_of((enum run_operation)operation)};
    o.run.metric = metric;
    o.run.dimension = r->dimension;
    o.run.query_count = queries;
    o.run.queries = place;
    o.run.row_count = r->count;
    return o;
}

struct order ask_knn(struct gpu_peer *p, const struct ask_rows *r, enum metric metric,
                     uint64_t queries, uint32_t k, uint64_t seed)
{
    struct order o = request(p, r, RUN_KNN, metric, queries, seed);
    o.run.k = k;
    o.run.out_ids = take_result(p, queries * k * sizeof(uint64_t));
    o.run.out_scores = take_result(p, queries * k * sizeof(float));
    o.run.out_counts = take_result(p, queries * sizeof(uint32_t));
    return o;
}

struct order ask_scores(struct gpu_peer *p, const struct ask_rows *r, enum metric metric,
                        uint64_t queries, bool ids, uint64_t seed)
{
    struct order o = request(p, r, RUN_SCORES, metric, queries, seed);
    if (ids) o.run.out_ids = take_result(p, r->count * sizeof(uint64_t));
    o.run.out_scores = take_result(p, queries * r->count * sizeof(float));
    return o;
}

static void add_positions(struct gpu_peer *p, struct order *o, uint64_t listed, uint64_t seed)
{
    o->run.list_count = listed;
    o->run.positions = peer_take(p, listed * sizeof(uint32_t));
    uint32_t *positions = peer_at(p, o->run.positions);
    for (uint64_t i = 0; i < listed; i++)
        positions[i] = (uint32_t)((i * 37 + seed) % o->run.row_count);
}

struct order ask_listed(struct gpu_peer *p, const struct ask_rows *r, enum metric metric,
                        uint64_t queries, uint64_t listed, bool own_lists, uint64_t seed)
{
    struct order o = request(p, r, own_lists ? RUN_LISTS : RUN_SCORES, metric, queries, seed);
    add_positions(p, &o, listed, seed);
    o.run.out_scores = take_result(p, (own_lists ? 1 : queries) * listed * sizeof(float));
    if (!own_lists) return o;
    o.run.offsets = peer_take(p, (queries + 1) * sizeof(uint64_t));
    for (uint64_t q = 0; q <= queries; q++)
        ((uint64_t *)peer_at(p, o.run.offsets))[q] = q == queries ? listed : q * listed / queries;
    return o;
}

struct order ask_average(struct gpu_peer *p, const struct ask_rows *r, uint64_t listed,
                         uint64_t seed)
{
    struct order o = request(p, r, RUN_AVERAGE, METRIC_DOT, 0, seed);
    add_positions(p, &o, listed, seed);
    o.run.weights = peer_take(p, listed * sizeof(float));
    reference_fill(seed + 1, peer_at(p, o.run.weights), listed);
    for (uint64_t i = 0; i < listed; i++)
        o.run.total += ((float *)peer_at(p, o.run.weights))[i];
    o.run.out_scores = take_result(p, r->dimension * sizeof(float));
    return o;
}

struct order ask_bring(struct gpu_peer *p, const struct ask_rows *r, struct order o)
{
    uint64_t bytes = r->count * r->dimension * sizeof(float);
    o.run.rows = peer_take(p, bytes);
    memcpy(peer_at(p, o.run.rows), r->plain, bytes);
    o.replica = o.version = 0;
    o.run.positions = PLACE_NONE;
    o.run.list_count = o.run.operation == RUN_SCORES ? 0 : r->count;
    return o;
}

struct order ask_norms(struct gpu_peer *p, const struct ask_rows *r)
{
    struct order o = request(p, r, RUN_NORMS, METRIC_DOT, 0, 1);
    o.run.out_scores = take_result(p, r->count * sizeof(float));
    return ask_bring(p, r, o);
}

/* ---- answers ---- */

static float score_of(struct gpu_peer *p, const struct order *o, const struct ask_rows *r,
                      uint64_t query, uint64_t row)
{
    const float *queries = peer_at(p, o->run.queries);
    return reference_score((int)o->run.metric, r->dimension, queries + query * r->dimension,
                           r->plain + row * r->dimension);
}

/* By row, what a request's bitmap says; NULL: it has none. */
static bool *allowed_of(struct gpu_peer *p, const struct order_run *run)
{
    if (run->allowed == PLACE_NONE) return NULL;
    const uint64_t *words = peer_at(p, run->allowed);
    bool *allowed = malloc(run->row_count * sizeof *allowed + 1);
    cr_assert(allowed);
    for (uint64_t r = 0; r < run->row_count; r++)
        allowed[r] = words[r / 64] >> r % 64 & 1;
    return allowed;
}

static bool knn_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    const struct order_run *run = &o->run;
    struct reference_rows all = {r->dimension, (int)run->metric, r->count, r->plain, r->ids};
    uint64_t *ids = malloc(run->k * sizeof *ids);
    float *scores = malloc(run->k * sizeof *scores);
    bool *allowed = allowed_of(p, run);
    static const uint32_t no_score = 0x7fc00000;
    bool right = true;
    uint64_t step = run->query_count > SWEPT_ABOVE ? sweep_stride(9) : 1;
    for (uint64_t q = 0; q < run->query_count && right; q += step) {
        const float *query = (const float *)peer_at(p, run->queries) + q * r->dimension;
        const uint64_t *out_ids = (const uint64_t *)peer_at(p, run->out_ids) + q * run->k;
        const float *out_scores = (const float *)peer_at(p, run->out_scores) + q * run->k;
        uint64_t n = reference_knn(&all, query, run->k, allowed,
                                   run->has_threshold ? &run->threshold : NULL, ids, scores);
        right = ((const uint32_t *)peer_at(p, run->out_counts))[q] == n &&
                memcmp(out_ids, ids, n * sizeof *ids) == 0 &&
                memcmp(out_scores, scores, n * sizeof *scores) == 0;
        for (uint64_t i = n; i < run->k && right; i++)
            right = out_ids[i] == UINT64_MAX && memcmp(&out_scores[i], &no_score, 4) == 0;
    }
    free(ids);
    free(scores);
    free(allowed);
    return right;
}

static bool scores_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    const struct order_run *run = &o->run;
    bool listed = run->positions != PLACE_NONE;
    const uint32_t *positions = listed ? peer_at(p, run->positions) : NULL;
    const float *scores = peer_at(p, run->out_scores);
    uint64_t columns = listed ? run->list_count : r->count;
    if (run->out_ids != PLACE_NONE &&
        memcmp(peer_at(p, run->out_ids), r->ids, r->count * sizeof *r->ids) != 0)
        return false;
    uint64_t step = columns > LOOKED_AT_MAX ? columns / LOOKED_AT_MAX + 1 : 1;
    for (uint64_t q = 0; q < run->query_count; q++)
        for (uint64_t c = q % step; c < columns; c += step)
            if (!reference_same(scores[q * columns + c],
                                score_of(p, o, r, q, listed ? positions[c] : c)))
                return false;
    return true;
}

/* Of the i-th place of a list. */
static uint64_t row_of(struct gpu_peer *p, const struct order *o, uint64_t i)
{
    if (o->run.positions == PLACE_NONE) return i;
    return ((const uint32_t *)peer_at(p, o->run.positions))[i];
}

static bool lists_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    const uint64_t *offsets = peer_at(p, o->run.offsets);
    const float *scores = peer_at(p, o->run.out_scores);
    for (uint64_t q = 0; q < o->run.query_count; q++)
        for (uint64_t i = offsets[q]; i < offsets[q + 1]; i++)
            if (!reference_same(scores[i], score_of(p, o, r, q, row_of(p, o, i)))) return false;
    return true;
}

static bool average_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    const float *weights = peer_at(p, o->run.weights), *out = peer_at(p, o->run.out_scores);
    for (uint32_t c = 0; c < r->dimension; c++) {
        float sum = 0;
        for (uint64_t i = 0; i < o->run.list_count; i++)
            sum = __builtin_fmaf(weights[i], r->plain[row_of(p, o, i) * r->dimension + c], sum);
        float average = o->run.total == 0 || !o->run.list_count ? 0.0f : sum / o->run.total;
        if (!reference_same(out[c], average)) return false;
    }
    return true;
}

static bool norms_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    const float *norms = peer_at(p, o->run.out_scores);
    for (uint64_t i = 0; i < r->count; i++)
        if (!reference_same(norms[i], reference_norm(r->dimension, r->plain + i * r->dimension)))
            return false;
    return true;
}

bool ask_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    if (o->kind != ORDER_RUN) return true;
    switch ((enum run_operation)o->run.operation) {
    case RUN_KNN: return knn_right(p, o, r);
    case RUN_SCORES: return scores_right(p, o, r);
    case RUN_LISTS: return lists_right(p, o, r);
    case RUN_AVERAGE: return average_right(p, o, r);
    case RUN_NORMS: return norms_right(p, o, r);
    case RUN_BIND: return bind_right(p, o, r, r);
    case RUN_SUPERPOSE: return sums_right(p, o, r);
    case RUN_COMPLETE: return complete_right(p, o, r);
    case RUN_COVARIANCE: return covariance_right(p, o, r);
    case RUN_CLUSTER: return cluster_right(p, o, r);
    case RUN_CLEANUP: return cleanup_right(p, o, r, r, r);
    case RUN_COMPLETE_ENGINE: return false; /* gpu_engine.h: engine_right */
    case RUN_PRODUCT: return product_right(p, o, r);
    case RUN_RECALL: break; /* it reads a graph, too: tests/integration/test_gpu_recall.c */
    }
    return false;
}
