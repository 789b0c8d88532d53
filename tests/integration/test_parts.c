/* Rows sent along that are more than one request holds: the client sends them as several, and the
 * bits are those of one request. Two daemons, of which one takes 1 MiB a request. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/support/reference.h"
#include "tests/support/scene.h"

enum { ROWS = 9000, D = 100, QUERIES = 3 }; /* 3.6 MB */

TestSuite(parts, .timeout = 120);

static struct scene small, large;
static float *rows, queries[QUERIES * D], weights[ROWS];

static void begin(void)
{
    scene_open(&small, (const char *[]){"limits.request_body_mib=1", NULL});
    scene_open(&large, (const char *[]){"limits.request_body_mib=64", NULL});
    rows = malloc(sizeof(float) * ROWS * D);
    reference_fill(1, rows, (size_t)ROWS * D);
    reference_fill(2, queries, QUERIES * D);
    reference_fill(3, weights, ROWS);
    memcpy(rows + 4000 * D, rows, 1000 * D * sizeof *rows); /* equal scores in other parts */
}

static void end(void)
{
    free(rows);
    scene_close(&small);
    scene_close(&large);
}

#define SAME(member, n)                                                                       \
    cr_assert_eq(!a.member || !b.member ? (const void *)a.member != (const void *)b.member    \
                                        : memcmp(a.member, b.member, (n) * sizeof *a.member), \
                 0, #member)

Test(parts, similarity)
{
    begin();
    for (int metric = EA_COSINE; metric <= EA_SQUARED_EUCLIDEAN; metric++)
        for (int with = 0; with < 2; with++) {
            const float threshold = metric == EA_SQUARED_EUCLIDEAN ? 60 : 0.1F;
            const ea_similarity_question q = {.queries = queries,
                                              .query_count = QUERIES,
                                              .dimension = D,
                                              .metric = (ea_metric)metric,
                                              .rows = rows,
                                              .row_count = ROWS,
                                              .threshold = with ? &threshold : NULL};
            ea_result a = {0}, b = {0};
            cr_assert_eq(ea_similarity(small.witness, &q, &a), EA_OK, "%s",
                         ea_error_text(small.witness));
            cr_assert_eq(ea_similarity(large.witness, &q, &b), EA_OK);
            cr_assert(a.rows == b.rows && a.columns == b.columns && a.columns > 10);
            SAME(offsets, QUERIES + 1);
            SAME(ids, a.columns);
            SAME(scores, with ? a.columns : QUERIES * a.columns);
            cr_assert(a.meta->run_ns && a.meta->instance == ea_instance(small.witness));
            ea_result_free(&a);
            ea_result_free(&b);
        }
    end();
}

Test(parts, candidates)
{
    begin();
    const uint64_t offsets[] = {0, 2000, 2000, ROWS};
    for (uint32_t k = 0; k < 12; k += 5)
        for (int metric = EA_COSINE; metric <= EA_SQUARED_EUCLIDEAN; metric++) {
            const ea_score_question q = {.queries = queries,
                                         .query_count = QUERIES,
                                         .dimension = D,
                                         .metric = (ea_metric)metric,
                                         .offsets = offsets,
                                         .rows = rows,
                                         .count = ROWS,
                                         .k = k};
            ea_result a = {0}, b = {0};
            cr_assert_eq(ea_score(small.witness, &q, &a), EA_OK, "%s",
                         ea_error_text(small.witness));
            cr_assert_eq(ea_score(large.witness, &q, &b), EA_OK);
            cr_assert(a.rows == b.rows && a.columns == b.columns);
            SAME(ids, a.rows * a.columns);
            SAME(scores, a.rows * a.columns);
            SAME(counts, QUERIES);
            ea_result_free(&a);
            ea_result_free(&b);
        }
    end();
}

Test(parts, norms_and_averages)
{
    begin();
    static float one[ROWS], other[ROWS];
    cr_assert_eq(ea_norms(small.witness, rows, ROWS, D, one), EA_OK);
    cr_assert_eq(ea_norms(large.witness, rows, ROWS, D, other), EA_OK);
    cr_assert_arr_eq(one, other, sizeof one);
    for (int i = 0; i < 6; i++) {
        static const float scales[] = {1, 1e15F, 1e-15F, 1e17F, 1e-30F, 1e-38F};
        for (size_t j = 0; j < (size_t)ROWS * D; j++) /* columns of all sizes */
            rows[j] = ldexpf(queries[j % (QUERIES * D)] - queries[j * 7 % (QUERIES * D)],
                             (int)(j % D) - 50) *
                      scales[i];
        if (i == 5) weights[ROWS - 1] = 1e20F;
        const ea_average_question q = {
            .rows = rows, .weights = weights, .count = ROWS, .dimension = D};
        ea_status st = ea_weighted_average(large.witness, &q, other);
        cr_assert_eq(ea_weighted_average(small.witness, &q, one), st, "%s: %s",
                     ea_error_text(small.witness), ea_error_text(large.witness));
        if (!st) cr_assert_eq(memcmp(one, other, D * sizeof *one), 0, "%d", i);
    }
    end();
}

Test(parts, what_cannot_be_parted)
{
    begin();
    ea_similarity_question q = {.queries = rows,
                                .query_count = ROWS / 3,
                                .dimension = D,
                                .metric = EA_DOT,
                                .rows = rows,
                                .row_count = 1};
    ea_result r = {0};
    cr_assert_eq(ea_similarity(small.witness, &q, &r), EA_RESOURCE_EXHAUSTED);
    cr_assert_eq(ea_error_detail(small.witness), EA_DETAIL_BODY_TOO_LARGE);
    q.query_count = 1;
    q.row_count = ROWS;
    rows[8000 * D] = NAN; /* in a later part */
    cr_assert_eq(ea_similarity(small.witness, &q, &r), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_error_detail(small.witness), EA_DETAIL_NOT_FINITE);
    cr_assert(!r.memory);
    cr_assert_eq(ea_ping(small.witness), EA_OK);
    end();
}
