#include "tests/support/sets.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ea_client *scene_client(const struct scene *s, const char *space)
{
    ea_client *c = NULL;
    ea_options options = {.socket_path = s->daemon.socket_path,
                          .space = space,
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    return c;
}

void set_make(struct set *t, uint32_t dimension, int metric, size_t count, size_t query_count)
{
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "set-%u-%d", dimension, metric);
    t->rows = malloc((count + 1) * dimension * sizeof *t->rows);
    t->ids = malloc((count + 1) * sizeof *t->ids);
    t->queries = malloc((query_count + 1) * dimension * sizeof *t->queries);
    t->query_count = query_count;
    reference_fill(dimension + (uint64_t)metric, t->rows, count * dimension);
    reference_fill(dimension + 77, t->queries, query_count * dimension);
    if (count > 5) {
        memset(t->rows + (size_t)3 * dimension, 0, dimension * sizeof *t->rows);
        memcpy(t->rows + (size_t)5 * dimension, t->rows + (size_t)4 * dimension,
               dimension * sizeof *t->rows);
    }
    for (size_t i = 0; i < count; i++)
        t->ids[i] = i * 2654435761u % 1000003;
    t->all = (struct reference_rows){dimension, metric, count, t->rows, t->ids};
}

void set_send(const struct set *t, ea_client *c)
{
    ea_upsert_counts counts;
    cr_assert_eq(ea_collection_create(c, t->name, t->all.dimension, (ea_metric)t->all.metric, NULL),
                 EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(ea_upsert(c,
                           &(ea_rows){.collection = t->name,
                                      .ids = t->ids,
                                      .rows = t->rows,
                                      .count = t->all.count,
                                      .dimension = t->all.dimension},
                           &counts),
                 EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(counts.inserted, t->all.count);
    cr_assert_eq(counts.replaced, 0);
    cr_assert_eq(counts.rows, t->all.count);
}

void set_free(struct set *t)
{
    free(t->rows);
    free(t->ids);
    free(t->queries);
}

void set_expect_knn(const struct set *t, ea_client *c, uint32_t k, const ea_filter *filter,
                    const bool *allowed, const float *threshold)
{
    ea_result r = {0};
    cr_assert_eq(ea_knn(c,
                        &(ea_knn_question){.collection = t->name,
                                           .queries = t->queries,
                                           .query_count = t->query_count,
                                           .dimension = t->all.dimension,
                                           .k = k,
                                           .filter = filter,
                                           .threshold = threshold},
                        &r),
                 EA_OK, "%s", ea_error_text(c));
    size_t allowed_count = 0;
    for (size_t i = 0; i < t->all.count; i++)
        allowed_count += !allowed || allowed[i];
    cr_assert_eq(r.rows, t->query_count);
    cr_assert_eq(r.columns, k < allowed_count ? k : allowed_count);
    uint64_t *ids = malloc((t->all.count + 1) * sizeof *ids);
    float *scores = malloc((t->all.count + 1) * sizeof *scores);
    for (size_t q = 0; q < t->query_count; q++) {
        size_t hits = reference_knn(&t->all, t->queries + q * t->all.dimension, k, allowed,
                                    threshold, ids, scores);
        cr_assert_eq(r.counts[q], hits, "query %zu: %u hits, %zu wanted", q, r.counts[q], hits);
        for (size_t i = 0; i < r.columns; i++) {
            uint64_t id = r.ids[q * r.columns + i];
            float score = r.scores[q * r.columns + i];
            cr_assert_eq(id, i < hits ? ids[i] : EA_NO_ID, "%s: query %zu, place %zu", t->name, q,
                         i);
            cr_assert(reference_same(score, i < hits ? scores[i] : NAN),
                      "%s: query %zu, place %zu: %a, %a wanted", t->name, q, i, (double)score,
                      (double)scores[i]);
        }
    }
    free(ids);
    free(scores);
    ea_result_free(&r);
}

void set_expect_similarity(const struct set *t, ea_client *c, const ea_filter *filter,
                           const size_t *columns, size_t column_count)
{
    ea_result r = {0};
    cr_assert_eq(ea_similarity(c,
                               &(ea_similarity_question){.collection = t->name,
                                                         .queries = t->queries,
                                                         .query_count = t->query_count,
                                                         .dimension = t->all.dimension,
                                                         .filter = filter},
                               &r),
                 EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(r.rows, t->query_count);
    cr_assert_eq(r.columns, column_count);
    for (size_t i = 0; i < column_count; i++) {
        size_t row = columns ? columns[i] : i;
        cr_assert_eq(r.ids[i], t->ids[row]);
        for (size_t q = 0; q < t->query_count; q++) {
            float want =
                reference_score(t->all.metric, t->all.dimension, t->queries + q * t->all.dimension,
                                t->rows + row * t->all.dimension);
            cr_assert(reference_same(r.scores[q * column_count + i], want),
                      "%s: query %zu, row %zu: %a, %a wanted", t->name, q, row,
                      (double)r.scores[q * column_count + i], (double)want);
        }
    }
    ea_result_free(&r);
}

void set_expect_matches(const struct set *t, ea_client *c, const ea_filter *filter,
                        const bool *allowed, float threshold)
{
    ea_result r = {0};
    cr_assert_eq(ea_similarity(c,
                               &(ea_similarity_question){.collection = t->name,
                                                         .queries = t->queries,
                                                         .query_count = t->query_count,
                                                         .dimension = t->all.dimension,
                                                         .filter = filter,
                                                         .threshold = &threshold},
                               &r),
                 EA_OK, "%s", ea_error_text(c));
    uint64_t *ids = malloc((t->all.count + 1) * sizeof *ids);
    float *scores = malloc((t->all.count + 1) * sizeof *scores);
    uint64_t at = 0;
    cr_assert_eq(r.offsets[0], 0);
    for (size_t q = 0; q < t->query_count; q++) {
        size_t hits = reference_knn(&t->all, t->queries + q * t->all.dimension, SIZE_MAX, allowed,
                                    &threshold, ids, scores);
        cr_assert_eq(r.offsets[q + 1] - at, hits, "query %zu", q);
        for (size_t i = 0; i < hits; i++) {
            cr_assert_eq(r.ids[at + i], ids[i]);
            cr_assert(reference_same(r.scores[at + i], scores[i]));
        }
        at += hits;
    }
    free(ids);
    free(scores);
    ea_result_free(&r);
}
