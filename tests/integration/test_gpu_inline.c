/* Requests that bring their rows: a GPU that is forced to answer them gives the CPU's bits, and
 * what is wrong with them has the CPU's words. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_pair.h"
#include "tests/support/reference.h"

enum { ROWS_MAX = 3000, QUERIES_MAX = 40, D_MAX = 128 };

static float rows[ROWS_MAX * D_MAX], queries[QUERIES_MAX * D_MAX], weights[ROWS_MAX];
static const ea_metric metrics[] = {EA_COSINE, EA_DOT, EA_SQUARED_EUCLIDEAN};

static void fill(uint32_t d)
{
    reference_fill(d + 1, rows, (size_t)ROWS_MAX * d);
    reference_fill(d + 2, queries, (size_t)QUERIES_MAX * d);
    reference_fill(d + 3, weights, ROWS_MAX);
    memset(rows + (size_t)5 * d, 0, d * sizeof(float)); /* no direction */
}

/* Both said the same; frees both. scored: floats of scores; with ids (named) or without. */
static void expect_same(struct gpu_pair *p, ea_status got_st, ea_result *got, ea_status want_st,
                        ea_result *want, bool on_gpu)
{
    cr_assert_eq(got_st, want_st, "%s, not %s", ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    if (got_st) {
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
        return;
    }
    cr_assert_eq(got->meta->backend, on_gpu ? EA_BACKEND_GPU : EA_BACKEND_CPU, "reason %d",
                 (int)got->meta->reason);
    cr_assert(got->rows == want->rows && got->columns == want->columns);
    uint64_t count = want->offsets ? want->offsets[want->rows] : want->rows * want->columns;
    cr_assert_eq(!got->offsets, !want->offsets);
    if (want->offsets) cr_assert_eq(memcmp(got->offsets, want->offsets, (want->rows + 1) * 8), 0);
    cr_assert_eq(memcmp(got->scores, want->scores, count * sizeof(float)), 0);
    cr_assert_eq(!got->ids, !want->ids);
    if (want->ids) cr_assert_eq(memcmp(got->ids, want->ids, count * sizeof(uint64_t)), 0);
    if (want->counts)
        cr_assert_eq(memcmp(got->counts, want->counts, want->rows * sizeof(uint32_t)), 0);
    ea_result_free(got);
    ea_result_free(want);
}

static void similarity(struct gpu_pair *p, ea_metric metric, uint64_t q, uint64_t n, uint32_t d,
                       const float *threshold, bool on_gpu)
{
    ea_result got = {0}, want = {0};
    ea_status a = ea_similarity(p->gpu.a,
                                &(ea_similarity_question){.metric = metric,
                                                          .queries = queries,
                                                          .query_count = q,
                                                          .rows = rows,
                                                          .row_count = n,
                                                          .dimension = d,
                                                          .threshold = threshold},
                                &got);
    ea_status b = ea_similarity(p->cpu.a,
                                &(ea_similarity_question){.metric = metric,
                                                          .queries = queries,
                                                          .query_count = q,
                                                          .rows = rows,
                                                          .row_count = n,
                                                          .dimension = d,
                                                          .threshold = threshold},
                                &want);
    expect_same(p, a, &got, b, &want, on_gpu);
}

static void score(struct gpu_pair *p, ea_metric metric, uint64_t q, uint64_t n, uint32_t d,
                  uint32_t k, bool on_gpu)
{
    uint64_t offsets[QUERIES_MAX + 1] = {0};
    for (uint64_t i = 1; i <= q; i++) /* every third list is empty */
        offsets[i] = i == q ? n : i % 3 == 2 ? offsets[i - 1] : i * n / q;
    ea_result got = {0}, want = {0};
    ea_status a = ea_score(p->gpu.a,
                           &(ea_score_question){.metric = metric,
                                                .queries = queries,
                                                .query_count = q,
                                                .dimension = d,
                                                .offsets = q == 1 ? NULL : offsets,
                                                .rows = rows,
                                                .count = n,
                                                .k = k},
                           &got);
    ea_status b = ea_score(p->cpu.a,
                           &(ea_score_question){.metric = metric,
                                                .queries = queries,
                                                .query_count = q,
                                                .dimension = d,
                                                .offsets = q == 1 ? NULL : offsets,
                                                .rows = rows,
                                                .count = n,
                                                .k = k},
                           &want);
    expect_same(p, a, &got, b, &want, on_gpu);
}

static void norms(struct gpu_pair *p, uint64_t n, uint32_t d)
{
    static float got[ROWS_MAX], want[ROWS_MAX];
    ea_status a = ea_norms(p->gpu.a, rows, n, d, got), b = ea_norms(p->cpu.a, rows, n, d, want);
    cr_assert_eq(a, b, "%s", ea_error_text(p->gpu.a));
    if (a)
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    else
        cr_assert_eq(memcmp(got, want, n * sizeof(float)), 0);
}

static void average(struct gpu_pair *p, uint64_t n, uint32_t d)
{
    static float got[D_MAX], want[D_MAX];
    ea_status a = ea_weighted_average(
        p->gpu.a,
        &(ea_average_question){.rows = rows, .weights = weights, .count = n, .dimension = d}, got);
    ea_status b = ea_weighted_average(
        p->cpu.a,
        &(ea_average_question){.rows = rows, .weights = weights, .count = n, .dimension = d}, want);
    cr_assert_eq(a, b, "%s", ea_error_text(p->gpu.a));
    if (a)
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    else
        cr_assert_eq(memcmp(got, want, d * sizeof(float)), 0);
}

static uint64_t gpu_runs(struct gpu_pair *p)
{
    return gpu_scene_stats(p->gpu.a).runs;
}

Test(gpu_inline, as_the_cpu, .timeout = 900)
{
    static const uint32_t dimensions[] = {1, 32, 33, 128};
    static const uint64_t counts[] = {1, 40, ROWS_MAX};
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        uint32_t d = dimensions[i];
        fill(d);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            uint64_t n = counts[c];
            for (int m = 0; m < 3; m++)
                for (uint64_t q = 1; q <= QUERIES_MAX; q += QUERIES_MAX - 1) {
                    static const float threshold = 0.5f;
                    similarity(&p, metrics[m], q, n, d, NULL, true);
                    similarity(&p, metrics[m], q, n, d, &threshold, true);
                    score(&p, metrics[m], q, n, d, 0, true);
                    score(&p, metrics[m], q, n, d, 3, true);
                }
            uint64_t runs = gpu_runs(&p);
            norms(&p, n, d);
            average(&p, n, d);
            cr_assert_eq(gpu_runs(&p), runs + 2);
        }
    }
    gpu_pair_close_unharmed(&p);
}

Test(gpu_inline, nothing_is_the_cpus, .timeout = 900)
{
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    fill(33);
    similarity(&p, EA_DOT, 3, 0, 33, NULL, false);
    similarity(&p, EA_DOT, 0, 3, 33, NULL, false);
    score(&p, EA_DOT, 3, 0, 33, 2, false);
    norms(&p, 0, 33);
    average(&p, 0, 33);
    gpu_pair_close_unharmed(&p);
}

/* What is wrong, and where, in the words of the CPU. */
Test(gpu_inline, bad_input_has_the_cpus_words, .timeout = 900)
{
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    fill(64);
    weights[7] = 1.0f;
    rows[2000 * 64 + 3] = INFINITY;
    rows[1000 * 64 + 63] = 3e38f;
    for (int bad_query = 0; bad_query < 2; bad_query++) {
        similarity(&p, EA_COSINE, 9, ROWS_MAX, 64, NULL, true);
        similarity(&p, EA_SQUARED_EUCLIDEAN, 1, 1500, 64, &weights[7], true);
        score(&p, EA_DOT, 9, ROWS_MAX, 64, 4, true);
        queries[64 * (1 - bad_query) + 1] = NAN;
    }
    norms(&p, ROWS_MAX, 64);
    average(&p, ROWS_MAX, 64);
    rows[1000 * 64 + 63] = 1;
    norms(&p, ROWS_MAX, 64);
    rows[2000 * 64 + 3] = 1;
    weights[9] = NAN;
    average(&p, ROWS_MAX, 64);
    weights[9] = 1;
    average(&p, ROWS_MAX, 64);
    gpu_pair_close_unharmed(&p);
}

/* Rows that never fit the card's memory for requests are the CPU's, and the reply says so. */
Test(gpu_inline, too_many_for_the_card, .timeout = 900)
{
    struct gpu_scene s;
    ea_result r = {0};
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card's memory is larger than any request");
    gpu_scene_open(&s, "vram_mib=16", (const char *[]){"gpu.heartbeat_ms=10000", NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    fill(128);
    cr_assert_eq(ea_similarity(s.a,
                               &(ea_similarity_question){.metric = EA_DOT,
                                                         .queries = queries,
                                                         .query_count = 1,
                                                         .rows = rows,
                                                         .row_count = ROWS_MAX,
                                                         .dimension = 128},
                               &r),
                 EA_OK);
    cr_assert_eq(r.meta->backend, EA_BACKEND_CPU);
    cr_assert_str_eq(ea_reason_name(r.meta->reason), "vram_pressure");
    ea_result_free(&r);
    gpu_scene_close(&s);
}
