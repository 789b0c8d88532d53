/* Every question through the C client against a reference that shares no code with the daemon, bit
 * for bit; and the same bits for every number of workers and every instruction set. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vectors.h"
#include "tests/support/sets.h"

static const uint32_t dimensions[] = {1, 31, 32, 33, 100, 384, 1024, 1025, 1536};
enum { DIMENSIONS = sizeof dimensions / sizeof *dimensions };

Test(requests, knn_equals_the_reference, .timeout = 900)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    for (size_t i = 0; i < DIMENSIONS; i++)
        for (int metric = 1; metric <= 3; metric++) {
            struct set t;
            set_make(&t, dimensions[i], metric, 203, 9);
            set_send(&t, c);
            set_expect_knn(&t, c, 1, NULL, NULL, NULL);
            set_expect_knn(&t, c, 10, NULL, NULL, NULL);
            set_expect_knn(&t, c, 203, NULL, NULL, NULL);
            set_expect_knn(&t, c, 16384, NULL, NULL, NULL); /* more than there are: all */
            float threshold = metric == EA_COSINE ? 0.05F : metric == EA_DOT ? 1.0F : 5.0F;
            set_expect_knn(&t, c, 7, NULL, NULL, &threshold);
            cr_assert_eq(ea_collection_drop(c, t.name), EA_OK);
            set_free(&t);
        }
    ea_close(c);
    scene_close(&s);
}

Test(requests, similarity_equals_the_reference, .timeout = 900)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    for (size_t i = 0; i < DIMENSIONS; i++)
        for (int metric = 1; metric <= 3; metric++) {
            struct set t;
            set_make(&t, dimensions[i], metric, 150, 5);
            set_send(&t, c);
            set_expect_similarity(&t, c, NULL, NULL, 150);
            set_expect_matches(&t, c, NULL, NULL, metric == EA_SQUARED_EUCLIDEAN ? 9.0F : 0.0F);
            cr_assert_eq(ea_collection_drop(c, t.name), EA_OK);
            set_free(&t);
        }
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- filters */

Test(requests, filters)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    struct set t;
    set_make(&t, 48, EA_COSINE, 300, 4);
    set_send(&t, c);
    bool allowed[300] = {false};
    uint64_t list[64];
    size_t columns[64], count = 0, column_count = 0;
    for (size_t i = 299; count < 50; i -= 5) { /* not in storage order */
        allowed[i] = true;
        columns[column_count++] = i;
        list[count++] = t.ids[i];
    }
    list[count++] = t.ids[299]; /* once more, and one that is unknown */
    list[count++] = 999999999;
    ea_filter by_list = {.ids = list, .id_count = count};
    set_expect_knn(&t, c, 10, &by_list, allowed, NULL);
    set_expect_knn(&t, c, 100, &by_list, allowed, NULL);
    set_expect_similarity(&t, c, &by_list, columns, column_count);
    set_expect_matches(&t, c, &by_list, allowed, 0.1F);

    ea_filter nobody = {.ids = &(uint64_t){123456789}, .id_count = 1};
    bool none[300] = {false};
    set_expect_knn(&t, c, 10, &nobody, none, NULL);
    set_expect_matches(&t, c, &nobody, none, -1.0F);

    static uint8_t bits[125001]; /* ids are below 1,000,003; the bitmap starts at 8 */
    memset(none, 0, sizeof none);
    column_count = 0;
    for (size_t i = 0; i < 300; i += 6) {
        if (t.ids[i] < 8 || (t.ids[i] - 8) / 8 >= sizeof bits) continue;
        bits[(t.ids[i] - 8) / 8] |= (uint8_t)(1 << (t.ids[i] - 8) % 8);
        none[i] = true;
        columns[column_count++] = i;
    }
    ea_filter by_bitmap = {.bitmap = bits, .bitmap_bytes = sizeof bits, .bitmap_first = 8};
    set_expect_knn(&t, c, 10, &by_bitmap, none, NULL);
    set_expect_similarity(&t, c, &by_bitmap, columns, column_count);
    set_expect_matches(&t, c, &by_bitmap, none, 0.0F);
    ea_filter far_away = {.bitmap = bits, .bitmap_bytes = 100, .bitmap_first = UINT64_MAX - 10};
    memset(none, 0, sizeof none);
    set_expect_knn(&t, c, 10, &far_away, none, NULL);
    set_free(&t);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- inline rows */

static void expect_inline(ea_client *c, const struct set *t)
{
    ea_result r = {0};
    uint32_t d = t->all.dimension;
    cr_assert_eq(ea_similarity(c,
                               &(ea_similarity_question){.metric = (ea_metric)t->all.metric,
                                                         .queries = t->queries,
                                                         .query_count = t->query_count,
                                                         .rows = t->rows,
                                                         .row_count = t->all.count,
                                                         .dimension = d},
                               &r),
                 EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(r.columns, t->all.count);
    cr_assert_null(r.ids);
    for (size_t q = 0; q < t->query_count; q++)
        for (size_t i = 0; i < t->all.count; i++)
            cr_assert(reference_same(
                r.scores[q * t->all.count + i],
                reference_score(t->all.metric, d, t->queries + q * d, t->rows + i * d)));
    float *norms = malloc(t->all.count * sizeof *norms);
    cr_assert_eq(ea_norms(c, t->rows, t->all.count, d, norms), EA_OK, "%s", ea_error_text(c));
    for (size_t i = 0; i < t->all.count; i++)
        cr_assert(reference_same(norms[i], reference_norm(d, t->rows + i * d)));
    free(norms);
    ea_result_free(&r);
}

Test(requests, inline_rows_and_norms)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    for (size_t i = 0; i < DIMENSIONS; i++)
        for (int metric = 1; metric <= 3; metric++) {
            struct set t;
            set_make(&t, dimensions[i], metric, 77, 3);
            expect_inline(c, &t);
            set_free(&t);
        }
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- candidates */

/* Query i against candidates[offsets[i] .. offsets[i + 1]), by row number. */
static void expect_candidates(ea_client *c, const struct set *t, const uint64_t *offsets,
                              const size_t *rows, size_t n, uint32_t k, bool is_inline)
{
    uint32_t d = t->all.dimension;
    uint64_t *ids = malloc((n + 1) * sizeof *ids), *want_ids = malloc((n + 1) * sizeof *want_ids);
    float *packed = malloc((n + 1) * d * sizeof *packed), *want = malloc((n + 1) * sizeof *want);
    uint64_t *positions = malloc((n + 1) * sizeof *positions);
    for (size_t i = 0; i < n; i++) {
        ids[i] = t->ids[rows[i]];
        positions[i] = i;
        memcpy(packed + i * d, t->rows + rows[i] * d, d * sizeof *packed);
    }
    ea_result r = {0};
    ea_status st = is_inline ? ea_score(c,
                                        &(ea_score_question){.metric = (ea_metric)t->all.metric,
                                                             .queries = t->queries,
                                                             .query_count = t->query_count,
                                                             .dimension = d,
                                                             .offsets = offsets,
                                                             .rows = packed,
                                                             .count = n,
                                                             .k = k},
                                        &r)
                             : ea_score(c,
                                        &(ea_score_question){.collection = t->name,
                                                             .queries = t->queries,
                                                             .query_count = t->query_count,
                                                             .dimension = d,
                                                             .offsets = offsets,
                                                             .ids = ids,
                                                             .count = n,
                                                             .k = k},
                                        &r);
    cr_assert_eq(st, EA_OK, "%s", ea_error_text(c));
    for (size_t q = 0; q < t->query_count; q++) {
        size_t first = offsets[q], count = offsets[q + 1] - first;
        const float *query = t->queries + q * d;
        struct reference_rows list = {d, t->all.metric, count, packed + first * d,
                                      is_inline ? positions : ids + first};
        if (k == 0) {
            for (size_t i = 0; i < count; i++)
                cr_assert(
                    reference_same(r.scores[first + i], reference_score(t->all.metric, d, query,
                                                                        packed + (first + i) * d)));
            continue;
        }
        size_t hits = reference_knn(&list, query, k, NULL, NULL, want_ids, want);
        cr_assert_eq(r.counts[q], hits);
        for (size_t i = 0; i < r.columns; i++) {
            cr_assert_eq(r.ids[q * r.columns + i], i < hits ? want_ids[i] : EA_NO_ID);
            cr_assert(reference_same(r.scores[q * r.columns + i], i < hits ? want[i] : NAN));
        }
    }
    ea_result_free(&r);
    free(ids);
    free(want_ids);
    free(packed);
    free(want);
    free(positions);
}

Test(requests, candidates)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    static const uint32_t some[] = {7, 384, 1100};
    for (int i = 0; i < 9; i++) {
        struct set t;
        set_make(&t, some[i % 3], 1 + i / 3, 120, 4);
        set_send(&t, c);
        size_t rows[100];
        for (size_t k = 0; k < 100; k++)
            rows[k] = k * 37 % 120;
        uint64_t offsets[5] = {0, 40, 40, 99, 100}; /* one list empty, one of a single row */
        for (uint32_t k = 0; k <= 50; k += 10) {
            expect_candidates(c, &t, offsets, rows, 100, k, false);
            expect_candidates(c, &t, offsets, rows, 100, k, true);
        }
        cr_assert_eq(ea_collection_drop(c, t.name), EA_OK);
        set_free(&t);
    }
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- averages */

Test(requests, weighted_average)
{
    enum { N = 30, D = 45 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    struct set t;
    set_make(&t, D, EA_DOT, N, 1);
    set_send(&t, c);
    float weights[N], inline_average[D], resident_average[D];
    reference_fill(8, weights, N);
    cr_assert_eq(
        ea_weighted_average(
            c,
            &(ea_average_question){.rows = t.rows, .weights = weights, .count = N, .dimension = D},
            inline_average),
        EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(
        ea_weighted_average(
            c,
            &(ea_average_question){
                .collection = t.name, .ids = t.ids, .weights = weights, .count = N, .dimension = D},
            resident_average),
        EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(memcmp(inline_average, resident_average, sizeof inline_average), 0);
    for (int j = 0; j < D; j++) {
        double sum = 0, weight = 0;
        for (int i = 0; i < N; i++) {
            sum += (double)weights[i] * (double)t.rows[i * D + j];
            weight += (double)weights[i];
        }
        cr_assert(fabs((double)inline_average[j] - sum / weight) <= 1e-4 * (1 + fabs(sum / weight)),
                  "column %d: %g, %g wanted", j, (double)inline_average[j], sum / weight);
    }
    static const float zeros[D];
    float none[N] = {1, -1};
    cr_assert_eq(
        ea_weighted_average(
            c, &(ea_average_question){.rows = t.rows, .weights = none, .count = N, .dimension = D},
            inline_average),
        EA_OK);
    cr_assert_eq(memcmp(inline_average, zeros, sizeof zeros), 0, "weights that sum to 0: zeros");
    cr_assert_eq(ea_weighted_average(c, &(ea_average_question){.dimension = D}, inline_average),
                 EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(memcmp(inline_average, zeros, sizeof zeros), 0, "no rows: zeros");
    set_free(&t);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- nothing asked */

Test(requests, empty_batches)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    struct set t, empty;
    set_make(&t, 16, EA_COSINE, 20, 0);
    set_send(&t, c);
    set_expect_knn(&t, c, 5, NULL, NULL, NULL);
    set_expect_similarity(&t, c, NULL, NULL, 20);
    set_expect_matches(&t, c, NULL, NULL, 0.5F);
    expect_candidates(c, &t, (uint64_t[]){0}, NULL, 0, 3, false);
    expect_candidates(c, &t, (uint64_t[]){0}, NULL, 0, 0, true);
    ea_upsert_counts counts;
    ea_delete_counts gone = {9, 9};
    ea_result r = {0};
    cr_assert_eq(ea_upsert(c, &(ea_rows){.collection = t.name, .dimension = 16}, &counts), EA_OK,
                 "%s", ea_error_text(c));
    cr_assert_eq(counts.inserted + counts.replaced, 0);
    cr_assert_eq(counts.rows, 20);
    cr_assert_eq(ea_delete(c, t.name, NULL, 0, &gone), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(gone.deleted + gone.missing, 0);
    cr_assert_eq(ea_fetch(c, t.name, NULL, 0, &r), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(r.rows, 0);
    ea_result_free(&r);
    cr_assert_eq(ea_norms(c, NULL, 0, 16, NULL), EA_OK, "%s", ea_error_text(c));
    set_free(&t);
    set_make(&empty, 17, EA_DOT, 0, 3); /* a collection without rows */
    cr_assert_eq(ea_collection_create(c, empty.name, 17, EA_DOT, NULL), EA_OK);
    set_expect_knn(&empty, c, 5, NULL, NULL, NULL);
    set_expect_similarity(&empty, c, NULL, NULL, 0);
    set_expect_matches(&empty, c, NULL, NULL, 0.0F);
    set_free(&empty);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- everywhere the same */

/* The answers as one number. */
static uint64_t digest(uint64_t so_far, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        so_far = (so_far ^ ((const uint8_t *)bytes)[i]) * 1099511628211ull;
    return so_far;
}

static uint64_t answers_under(const char *workers, const char *kernels)
{
    struct scene s;
    scene_open(&s, (const char *[]){workers, kernels, NULL});
    ea_client *c = scene_client(&s, "asker");
    uint64_t sum = 1469598103934665603ull;
    static const uint32_t some[] = {384, 1030};
    for (int i = 0; i < 6; i++) {
        struct set t;
        set_make(&t, some[i % 2], 1 + i / 2, 700, 27);
        set_send(&t, c);
        for (size_t q = 1; q <= 27; q += 26) {
            ea_result r = {0};
            cr_assert_eq(ea_knn(c,
                                &(ea_knn_question){.collection = t.name,
                                                   .queries = t.queries,
                                                   .query_count = q,
                                                   .dimension = some[i % 2],
                                                   .k = 25},
                                &r),
                         EA_OK, "%s", ea_error_text(c));
            sum = digest(sum, r.ids, q * r.columns * 8);
            sum = digest(sum, r.scores, q * r.columns * 4);
            cr_assert_eq(ea_similarity(c,
                                       &(ea_similarity_question){.collection = t.name,
                                                                 .queries = t.queries,
                                                                 .query_count = q,
                                                                 .dimension = some[i % 2]},
                                       &r),
                         EA_OK);
            sum = digest(sum, r.scores, q * r.columns * 4);
            ea_result_free(&r);
        }
        cr_assert_eq(ea_collection_drop(c, t.name), EA_OK);
        set_free(&t);
    }
    ea_close(c);
    scene_close(&s);
    return sum;
}

Test(requests, the_same_bits_on_every_path, .timeout = 900)
{
    uint64_t want = answers_under("workers.count=1", "kernels=scalar");
    static const char *const workers[] = {"workers.count=1", "workers.count=2", "workers.count=5"};
    for (int w = 0; w < 3; w++) {
        for (size_t v = 0; vectors_variant(v); v++) {
            char setting[32];
            snprintf(setting, sizeof setting, "kernels=%s", vectors_variant(v)->name);
            cr_assert_eq(answers_under(workers[w], setting), want, "%s %s", workers[w], setting);
        }
    }
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"avx2", "avx512", "neon"};
        if (!vectors_choose(names[i])) fprintf(stderr, "SKIP %s: not on this machine\n", names[i]);
    }
}
