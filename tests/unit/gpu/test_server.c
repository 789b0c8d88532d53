/* The GPU process's server over the simulated device: each kind of order, small and large, growth,
 * eviction, versions, and what is wrong. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vectors.h"
#include "tests/support/gpu_peer.h"
#include "tests/support/reference.h"
#include "tests/support/sweep.h"

enum { SWEPT_ABOVE = 100000 }; /* scores, of which make check looks at a part */

struct question {
    uint32_t space, dimension, k;
    uint64_t replica, version, rows, queries;
    enum metric metric;
    const float *plain; /* the rows */
};

static struct order run_order(struct gpu_peer *p, const struct question *q, uint32_t operation,
                              float **queries)
{
    uint64_t bytes = q->queries * q->dimension * sizeof(float), place = peer_take(p, bytes);
    *queries = peer_at(p, place);
    reference_fill(q->replica + 77, *queries, q->queries * q->dimension);
    struct order o = {.kind = ORDER_RUN,
                      .space = q->space,
                      .replica = q->replica,
                      .version = q->version,
                      .run = order_run_of((enum run_operation)operation)};
    o.run.metric = q->metric;
    o.run.dimension = q->dimension;
    o.run.k = q->k;
    o.run.query_count = q->queries;
    o.run.queries = place;
    o.run.row_count = q->rows;
    return o;
}

/* kNN, compared with the reference, every bit. Returns the result. */
static enum order_result ask_knn(struct gpu_peer *p, const struct question *q)
{
    float *queries;
    struct order o = run_order(p, q, RUN_KNN, &queries);
    o.run.out_ids = peer_take(p, q->queries * q->k * sizeof(uint64_t));
    o.run.out_scores = peer_take(p, q->queries * q->k * sizeof(float));
    o.run.out_counts = peer_take(p, q->queries * sizeof(uint32_t));
    struct completion c = peer_done(p, peer_order(p, o));
    if (c.result != RESULT_OK) return (enum order_result)c.result;
    cr_assert(c.started_ns && c.finished_ns >= c.started_ns);
    uint64_t *ids = malloc(q->rows * sizeof *ids), *expected = malloc(q->k * sizeof *ids);
    float *scores = malloc(q->k * sizeof *scores);
    for (uint64_t i = 0; i < q->rows; i++)
        ids[i] = i * 7 + 3;
    struct reference_rows all = {q->dimension, (int)q->metric, q->rows, q->plain, ids};
    for (uint64_t i = 0; i < q->queries; i++) {
        size_t n =
            reference_knn(&all, queries + i * q->dimension, q->k, NULL, NULL, expected, scores);
        cr_assert_eq(((uint32_t *)peer_at(p, o.run.out_counts))[i], n);
        cr_assert_eq(memcmp((uint64_t *)peer_at(p, o.run.out_ids) + i * q->k, expected,
                            n * sizeof *expected),
                     0);
        cr_assert_eq(
            memcmp((float *)peer_at(p, o.run.out_scores) + i * q->k, scores, n * sizeof *scores),
            0);
    }
    free(ids);
    free(expected);
    free(scores);
    return RESULT_OK;
}

/* All scores (with ids), compared. */
static enum order_result ask_scores(struct gpu_peer *p, const struct question *q)
{
    float *queries;
    struct order o = run_order(p, q, RUN_SCORES, &queries);
    o.run.out_ids = peer_take(p, q->rows * sizeof(uint64_t));
    o.run.out_scores = peer_take(p, q->queries * q->rows * sizeof(float));
    struct completion c = peer_done(p, peer_order(p, o));
    if (c.result != RESULT_OK) return (enum order_result)c.result;
    const float *scores = peer_at(p, o.run.out_scores);
    for (uint64_t i = 0; i < q->rows; i++)
        cr_assert_eq(((uint64_t *)peer_at(p, o.run.out_ids))[i], i * 7 + 3);
    uint32_t step = q->queries * q->rows > SWEPT_ABOVE ? sweep_stride(13) : 1;
    for (uint64_t i = 0; i < q->queries; i++)
        for (uint64_t r = i % step; r < q->rows; r += step)
            cr_assert(reference_same(scores[i * q->rows + r],
                                     reference_score((int)q->metric, q->dimension,
                                                     queries + i * q->dimension,
                                                     q->plain + r * q->dimension)));
    return RESULT_OK;
}

Test(server, answers_knn_and_scores_of_every_shape)
{
    static const uint32_t dimensions[] = {1, 31, 32, 100, 1025};
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct question q = {.space = 1,
                             .dimension = dimensions[i],
                             .k = 10,
                             .replica = 1 + i,
                             .version = 5,
                             .rows = 333,
                             .queries = 1};
        float *rows = peer_upload(&p, 1, q.replica, 5, q.dimension, q.rows, i);
        q.plain = rows;
        for (q.metric = METRIC_COSINE; q.metric <= METRIC_SQUARED_EUCLIDEAN; q.metric++) {
            for (q.queries = 1; q.queries <= 9; q.queries += 4) {
                cr_assert_eq(ask_knn(&p, &q), RESULT_OK);
                cr_assert_eq(ask_scores(&p, &q), RESULT_OK);
            }
        }
        free(rows);
    }
    peer_close(&p);
    cr_assert_eq(p.result, STATUS_OK);
}

Test(server, moves_large_input_and_output_in_pieces)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    /* 12 MiB of rows, 2 MiB of queries, 24 MiB of scores: more than one pass of the pool. */
    struct question q = {.space = 3,
                         .dimension = 96,
                         .k = 2,
                         .replica = 9,
                         .version = 1,
                         .rows = 30000,
                         .queries = 3,
                         .metric = METRIC_DOT};
    float *rows = peer_upload(&p, 3, 9, 1, q.dimension, q.rows, 4);
    q.plain = rows;
    cr_assert_eq(ask_scores(&p, &q), RESULT_OK);
    q.queries = 200;
    cr_assert_eq(ask_scores(&p, &q), RESULT_OK);
    q.queries = 900;
    q.rows = 30000;
    cr_assert_eq(ask_knn(&p, &(struct question){.space = 3,
                                                .dimension = 96,
                                                .k = 2,
                                                .replica = 9,
                                                .version = 1,
                                                .rows = 30000,
                                                .queries = 40,
                                                .metric = METRIC_DOT,
                                                .plain = rows}),
                 RESULT_OK);
    free(rows);
    peer_close(&p);
}

Test(server, names_the_first_bad_query_small_and_large)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    float *rows = peer_upload(&p, 1, 1, 1, 100, 50, 4);
    for (uint64_t queries = 10; queries <= 4000; queries += 3990) {
        struct question q = {.space = 1,
                             .dimension = 100,
                             .k = 2,
                             .replica = 1,
                             .version = 1,
                             .rows = 50,
                             .queries = queries,
                             .metric = METRIC_DOT};
        float *at;
        struct order o = run_order(&p, &q, RUN_KNN, &at);
        o.run.out_ids = peer_take(&p, queries * 2 * 8);
        o.run.out_scores = peer_take(&p, queries * 2 * 4);
        o.run.out_counts = peer_take(&p, queries * 4);
        at[(queries - 1) * 100 + 99] = 1.0f / 0.0f;
        at[(queries - 4) * 100] = 3e38f;
        struct completion c = peer_done(&p, peer_order(&p, o));
        cr_assert_eq(c.result, RESULT_BAD_QUERY, "%u: result %u, number %llu", (unsigned)queries,
                     c.result, (unsigned long long)c.number);
        cr_assert_eq(c.number, queries - 4);
    }
    free(rows);
    peer_close(&p);
}

Test(server, refuses_what_makes_no_sense)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    float *rows = peer_upload(&p, 1, 1, 7, 32, 50, 4), *at;
    struct question q = {.space = 1,
                         .dimension = 32,
                         .k = 2,
                         .replica = 1,
                         .version = 7,
                         .rows = 50,
                         .queries = 1,
                         .metric = METRIC_DOT,
                         .plain = rows};
    struct order sound = run_order(&p, &q, RUN_KNN, &at);
    sound.run.out_ids = peer_take(&p, 16);
    sound.run.out_scores = peer_take(&p, 8);
    sound.run.out_counts = peer_take(&p, 4);
    cr_assert_eq(peer_done(&p, peer_order(&p, sound)).result, RESULT_OK);

    struct order o = sound;
    o.version = 8;
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_NO_REPLICA);
    o = sound;
    o.replica = 2;
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_NO_REPLICA);
    o = sound;
    o.space = 2; /* another tenant's */
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_REFUSED);
    o = sound;
    o.run.out_ids = PEER_HEAP_BYTES - 8;
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_REFUSED);
    o = sound;
    o.run.queries = UINT64_MAX - 3;
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_REFUSED);
    o = sound;
    o.run.query_count = UINT64_MAX / 2;
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_REFUSED);
    o = sound;
    o.run.operation = 99;
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_REFUSED);
    o = (struct order){.kind = 99, .space = 1};
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_REFUSED);
    cr_assert_eq(ask_knn(&p, &q), RESULT_OK);
    free(rows);
    peer_close(&p);
}

Test(server, forgets_and_gives_every_byte_back)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct share_usage *u = &p.share->usage;
    for (uint64_t replica = 1; replica <= 20; replica++) {
        float *rows = peer_upload(&p, 1, replica, 1, 32, 1000, replica);
        struct question q = {.space = 1,
                             .dimension = 32,
                             .k = 3,
                             .replica = replica,
                             .version = 1,
                             .rows = 1000,
                             .queries = 2,
                             .metric = METRIC_COSINE,
                             .plain = rows};
        cr_assert_eq(ask_knn(&p, &q), RESULT_OK);
        cr_assert(atomic_load(&u->replica_bytes) > 0);
        uint64_t token =
            peer_order(&p, (struct order){.kind = ORDER_FORGET, .space = 1, .replica = replica});
        cr_assert_eq(peer_done(&p, token).result, RESULT_OK);
        cr_assert_eq(atomic_load(&u->replica_bytes), 0);
        cr_assert_eq(ask_knn(&p, &q), RESULT_NO_REPLICA);
        free(rows);
        p.used = 4096;
    }
    peer_close(&p);
}

Test(server, evicts_the_least_recently_used_and_says_so)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=8 granularity_kib=64", 4); /* 6 MiB, 1 of them for requests */
    float *rows[6];
    for (uint64_t r = 0; r < 3; r++) /* 1.25 MiB each, and some */
        rows[r] = peer_upload(&p, 1 + (uint32_t)r, 1 + r, 1, 32, 10000, r);
    struct question q = {.space = 1,
                         .dimension = 32,
                         .k = 3,
                         .replica = 1,
                         .version = 1,
                         .rows = 10000,
                         .queries = 1,
                         .metric = METRIC_DOT,
                         .plain = rows[0]};
    cr_assert_eq(ask_knn(&p, &q), RESULT_OK); /* 2 is the oldest now */
    rows[3] = peer_upload(&p, 4, 4, 1, 32, 10000, 3);
    cr_assert_eq(ask_knn(&p, &q), RESULT_OK);
    q.space = 2;
    q.replica = 2;
    cr_assert_eq(ask_knn(&p, &q), RESULT_NO_REPLICA);
    cr_assert_eq(atomic_load(&p.share->usage.evictions), 1);
    /* Larger than all of the VRAM. */
    uint64_t place = peer_take(&p, 60000 * 128), ids = peer_take(&p, 60000 * 8);
    struct order o = {.kind = ORDER_UPLOAD,
                      .space = 5,
                      .replica = 5,
                      .version = 1,
                      .upload = {.dimension = 32,
                                 .fresh = 1,
                                 .row_count = 60000,
                                 .count = 60000,
                                 .rows = place,
                                 .ids = ids}};
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_NO_MEMORY);
    for (int r = 0; r < 4; r++)
        free(rows[r]);
    peer_close(&p);
}

Test(server, grows_by_uploads_that_follow_each_other)
{
    static const char *const sims[] = {"vram_mib=64 granularity_kib=64",
                                       "vram_mib=64 granularity_kib=64 vmm=0"};
    for (int s = 0; s < 2; s++) {
        struct gpu_peer p = {0};
        peer_open(&p, sims[s], 4);
        enum { ROWS = 8000, STEP = 500 };
        float *plain = malloc(ROWS * 32 * sizeof *plain);
        reference_fill(5, plain, ROWS * 32);
        uint64_t rows = peer_take(&p, ROWS * 128), ids = peer_take(&p, ROWS * 8), last = 0;
        memcpy(peer_at(&p, rows), plain, ROWS * 128);
        for (uint64_t r = 0; r < ROWS; r++)
            ((uint64_t *)peer_at(&p, ids))[r] = r * 7 + 3;
        for (uint64_t first = 0; first < ROWS; first += STEP) {
            struct order o = {.kind = ORDER_UPLOAD,
                              .space = 1,
                              .replica = 1,
                              .version = first + STEP == ROWS ? 3 : 0,
                              .upload = {.dimension = 32,
                                         .fresh = first == 0,
                                         .row_count = first + STEP,
                                         .first = first,
                                         .count = STEP,
                                         .rows = rows + first * 128,
                                         .ids = ids + first * 8}};
            last = peer_order(&p, o);
        }
        for (uint64_t token = last - ROWS / STEP + 1; token <= last; token++)
            cr_assert_eq(peer_done(&p, token).result, RESULT_OK);
        struct question q = {.space = 1,
                             .dimension = 32,
                             .k = 5,
                             .replica = 1,
                             .version = 3,
                             .rows = ROWS,
                             .queries = 3,
                             .metric = METRIC_COSINE,
                             .plain = plain};
        cr_assert_eq(ask_knn(&p, &q), RESULT_OK);
        /* A tail that is cut off. */
        struct order o = {.kind = ORDER_UPLOAD,
                          .space = 1,
                          .replica = 1,
                          .version = 4,
                          .upload = {.dimension = 32, .row_count = 100}};
        cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_OK);
        q.rows = 100;
        q.version = 4;
        cr_assert_eq(ask_knn(&p, &q), RESULT_OK);
        /* On top of nothing. */
        o.replica = 2;
        cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_NO_REPLICA);
        free(plain);
        peer_close(&p);
    }
}

Test(server, scores_lists_and_averages_by_position)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    enum { ROWS = 500, D = 40, LISTED = 90 };
    float *rows = peer_upload(&p, 1, 1, 1, D, ROWS, 2), *queries;
    struct question q = {.space = 1,
                         .dimension = D,
                         .replica = 1,
                         .version = 1,
                         .rows = ROWS,
                         .queries = 3,
                         .metric = METRIC_SQUARED_EUCLIDEAN};
    struct order o = run_order(&p, &q, RUN_LISTS, &queries);
    o.run.list_count = LISTED;
    o.run.positions = peer_take(&p, LISTED * 4);
    o.run.offsets = peer_take(&p, 4 * 8);
    o.run.out_scores = peer_take(&p, LISTED * 4);
    uint32_t *positions = peer_at(&p, o.run.positions);
    for (uint32_t i = 0; i < LISTED; i++)
        positions[i] = i * 37 % ROWS;
    memcpy(peer_at(&p, o.run.offsets), (uint64_t[4]){0, 50, 50, LISTED}, 32);
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_OK);
    const float *scores = peer_at(&p, o.run.out_scores);
    for (uint32_t i = 0; i < LISTED; i++)
        cr_assert(reference_same(scores[i], reference_score(REFERENCE_EUCLIDEAN, D,
                                                            queries + (i < 50 ? 0 : 2) * D,
                                                            rows + positions[i] * D)));
    /* The same list for every query. */
    o.run.operation = RUN_SCORES;
    o.run.out_scores = peer_take(&p, 3 * LISTED * 4);
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_OK);
    scores = peer_at(&p, o.run.out_scores);
    for (uint32_t i = 0; i < 3 * LISTED; i++)
        cr_assert(reference_same(scores[i],
                                 reference_score(REFERENCE_EUCLIDEAN, D, queries + i / LISTED * D,
                                                 rows + positions[i % LISTED] * D)));
    o.run.operation = RUN_AVERAGE;
    o.run.query_count = 0;
    o.run.weights = peer_take(&p, LISTED * 4);
    o.run.out_scores = peer_take(&p, D * 4);
    float *weights = peer_at(&p, o.run.weights), sums[D] = {0};
    reference_fill(8, weights, LISTED);
    for (uint32_t i = 0; i < LISTED; i++) {
        o.run.total += weights[i];
        for (uint32_t c = 0; c < D; c++)
            sums[c] = __builtin_fmaf(weights[i], rows[positions[i] * D + c], sums[c]);
    }
    cr_assert_eq(peer_done(&p, peer_order(&p, o)).result, RESULT_OK);
    for (uint32_t c = 0; c < D; c++)
        cr_assert(
            reference_same(((float *)peer_at(&p, o.run.out_scores))[c], sums[c] / o.run.total));
    free(rows);
    peer_close(&p);
}

Test(server, comes_back_where_others_took_the_vram_but_not_where_a_setting_did)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=2", 4);
    cr_assert_eq(atomic_load(&p.share->state), SHARE_BROKEN, "others may give VRAM back");
    cr_assert(strstr(p.share->why, "less than 2 MiB"), "%s", p.share->why);
    peer_close(&p);
    p = (struct gpu_peer){.memory_bytes_max = 1 << 20};
    peer_open(&p, "vram_mib=64", 4);
    cr_assert_eq(atomic_load(&p.share->state), SHARE_ABSENT, "a setting stays");
    cr_assert(strstr(p.share->why, "gpu.memory_mib"), "%s", p.share->why);
    peer_close(&p);
}
