/* The script of gpu_scene.h. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/gpu_web.h"
#include "tests/support/reference.h"

enum {
    D = SCRIPT_DIMENSION,
    WIDE = 200,
    ROWS = 120,
    WIDE_ROWS = 700,
    WIDE_QUERIES = 300, /* so that what moves in and out is cut into pieces */
};

/* A graph: what is asked of it before and after it changes. */
static void note_spread(struct transcript *t, ea_client *c, uint64_t number)
{
    struct web_answer answer;
    ea_status st = web_ask(c, "web", number, &answer);
    cr_assert_lt(t->count, SCRIPT_STEPS_MAX);
    struct script_step *s = &t->steps[t->count++];
    *s = (struct script_step){.what = "spread",
                              .status = st,
                              .digest = answer.digest,
                              .version = answer.version,
                              .backend = answer.backend,
                              .reason = answer.reason};
    if (st) snprintf(s->error, sizeof s->error, "%s", ea_error_text(c));
}

static uint64_t add(uint64_t digest, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; at && i < count; i++)
        digest = (digest ^ at[i]) * 1099511628211u;
    return digest;
}

/* scored: the floats that r->scores holds. */
static void note(struct transcript *t, ea_client *c, const char *what, ea_status st, ea_result *r,
                 uint64_t scored)
{
    cr_assert_lt(t->count, SCRIPT_STEPS_MAX);
    struct script_step *s = &t->steps[t->count++];
    *s = (struct script_step){.what = what, .status = st, .digest = 14695981039346656037u};
    if (st) snprintf(s->error, sizeof s->error, "%s", ea_error_text(c));
    if (!r) return;
    if (!st) {
        s->backend = r->meta->backend;
        s->reason = r->meta->reason;
        s->version = r->meta->version;
        uint64_t shape[2] = {r->rows, r->columns};
        s->digest = add(s->digest, shape, sizeof shape);
        s->digest = add(s->digest, r->scores, scored * sizeof(float));
        s->digest = add(s->digest, r->counts, r->rows * sizeof(uint32_t));
        if (r->offsets) s->digest = add(s->digest, r->offsets, (r->rows + 1) * sizeof(uint64_t));
        if (r->ids && r->counts)
            s->digest = add(s->digest, r->ids, scored * sizeof(uint64_t));
        else if (r->ids)
            s->digest = add(s->digest, r->ids, r->columns * sizeof(uint64_t));
    }
    ea_result_free(r);
}

/* ---------------------------------------------------------------- one question each */

struct asker {
    ea_client *c;
    struct transcript *t;
    const char *collection;
    uint32_t dimension;
    const float *queries;
};

static void knn(const struct asker *a, const char *what, uint64_t q, uint32_t k,
                const ea_filter *filter, const float *threshold)
{
    ea_result r = {0};
    ea_status st = ea_knn(a->c,
                          &(ea_knn_question){.collection = a->collection,
                                             .queries = a->queries,
                                             .query_count = q,
                                             .dimension = a->dimension,
                                             .k = k,
                                             .filter = filter,
                                             .threshold = threshold},
                          &r);
    note(a->t, a->c, what, st, &r, r.rows * r.columns);
}

static void similarity(const struct asker *a, const char *what, uint64_t q, const ea_filter *filter,
                       const float *threshold)
{
    ea_result r = {0};
    ea_status st = ea_similarity(a->c,
                                 &(ea_similarity_question){.collection = a->collection,
                                                           .queries = a->queries,
                                                           .query_count = q,
                                                           .dimension = a->dimension,
                                                           .filter = filter,
                                                           .threshold = threshold},
                                 &r);
    note(a->t, a->c, what, st, &r, threshold ? r.columns : r.rows * r.columns);
}

static void score(const struct asker *a, const char *what, ea_metric metric, uint64_t q,
                  const uint64_t *ids, uint64_t n, uint32_t k)
{
    uint64_t offsets[8] = {0};
    for (uint64_t i = 0; i <= q; i++)
        offsets[i] = n * i / q;
    ea_result r = {0};
    ea_status st = ea_score(a->c,
                            &(ea_score_question){.collection = a->collection,
                                                 .metric = metric,
                                                 .queries = a->queries,
                                                 .query_count = q,
                                                 .dimension = a->dimension,
                                                 .offsets = offsets,
                                                 .ids = ids,
                                                 .count = n,
                                                 .k = k},
                            &r);
    note(a->t, a->c, what, st, &r, r.rows * r.columns);
}

static void average(const struct asker *a, const char *what, const uint64_t *ids, uint64_t n)
{
    float weights[ROWS], out[WIDE] = {0};
    reference_fill(5, weights, n);
    ea_status st = ea_weighted_average(a->c,
                                       &(ea_average_question){.collection = a->collection,
                                                              .ids = ids,
                                                              .weights = weights,
                                                              .count = n,
                                                              .dimension = a->dimension},
                                       out);
    note(a->t, a->c, what, st, NULL, 0);
    struct script_step *s = &a->t->steps[a->t->count - 1];
    s->digest = add(s->digest, out, a->dimension * sizeof(float));
}

/* ---------------------------------------------------------------- the story */

static void fill(const struct asker *a, const char *what, uint64_t seed, const uint64_t *ids,
                 uint64_t n)
{
    float *rows = malloc(n * a->dimension * sizeof *rows);
    ea_upsert_counts counts = {0};
    reference_fill(seed, rows, n * a->dimension);
    ea_status st = ea_upsert(a->c,
                             &(ea_rows){.collection = a->collection,
                                        .ids = ids,
                                        .rows = rows,
                                        .count = n,
                                        .dimension = a->dimension},
                             &counts);
    note(a->t, a->c, what, st, NULL, 0);
    struct script_step *s = &a->t->steps[a->t->count - 1];
    s->digest = add(s->digest, &counts, sizeof counts);
    free(rows);
}

static void make(const struct asker *a, const char *what, ea_metric metric, uint64_t seed,
                 const uint64_t *ids, uint64_t n)
{
    note(a->t, a->c, "create",
         ea_collection_create(a->c, a->collection, a->dimension, metric, NULL), NULL, 0);
    fill(a, what, seed, ids, n);
}

static void ask_small(const struct asker *a, const uint64_t *ids)
{
    static const uint8_t bits[40] = {0xff, 0x0f, 0, 0x55, 0xaa, 0x11};
    ea_filter list = {.ids = ids + 7, .id_count = 30};
    ea_filter bitmap = {.bitmap = bits, .bitmap_bytes = sizeof bits, .bitmap_first = 3};
    float threshold = 0.02F;
    knn(a, "knn", 1, 5, NULL, NULL);
    knn(a, "knn of all, 4 queries", 4, 500, NULL, NULL);
    knn(a, "knn, list", 1, 10, &list, NULL);
    knn(a, "knn, bitmap, 4 queries", 4, 10, &bitmap, NULL);
    knn(a, "knn, threshold", 4, 20, NULL, &threshold);
    similarity(a, "similarity", 1, NULL, NULL);
    similarity(a, "similarity, 4 queries", 4, NULL, NULL);
    similarity(a, "similarity, list", 3, &list, NULL);
    similarity(a, "similarity, threshold", 3, NULL, &threshold);
    score(a, "score", 0, 1, ids + 3, 40, 0);
    score(a, "score, 3 queries", EA_DOT, 3, ids + 3, 40, 0);
    score(a, "score, 3 queries, k", 0, 3, ids + 3, 60, 7);
    average(a, "average", ids + 11, 25);
}

/* Rows that come with the request. */
static void ask_inline(const struct asker *a)
{
    float rows[60 * D], norms[60] = {0};
    uint64_t offsets[] = {0, 20, 60};
    ea_result r = {0};
    reference_fill(23, rows, sizeof rows / sizeof *rows);
    ea_similarity_question all = {.queries = a->queries,
                                  .query_count = 2,
                                  .dimension = D,
                                  .metric = EA_COSINE,
                                  .rows = rows,
                                  .row_count = 60};
    ea_status st = ea_similarity(a->c, &all, &r);
    note(a->t, a->c, "similarity, inline", st, &r, r.rows * r.columns);
    all.query_count = 1;
    st = ea_similarity(a->c, &all, &r);
    note(a->t, a->c, "similarity, inline, 1 query", st, &r, r.rows * r.columns);
    ea_score_question lists = {.queries = a->queries,
                               .query_count = 2,
                               .dimension = D,
                               .metric = EA_DOT,
                               .offsets = offsets,
                               .rows = rows,
                               .count = 60,
                               .k = 7};
    st = ea_score(a->c, &lists, &r);
    note(a->t, a->c, "score, inline, k", st, &r, r.rows * r.columns);
    st = ea_norms(a->c, rows, 60, D, norms);
    note(a->t, a->c, "norms, inline", st, NULL, 0);
    struct script_step *s = &a->t->steps[a->t->count - 1];
    s->digest = add(s->digest, norms, sizeof norms);
}

static void spread_all(ea_client *c, struct transcript *t)
{
    note(t, c, "create graph", ea_graph_create(c, "web", NULL), NULL, 0);
    note(t, c, "nodes", web_set_nodes(c, "web", 0, WEB_NODES), NULL, 0);
    note(t, c, "edges", web_add_edges(c, "web", 1, 0, WEB_NODES), NULL, 0);
    for (uint64_t i = 0; i < WEB_QUESTIONS; i++)
        note_spread(t, c, i);
    note(t, c, "edges on top", web_add_edges(c, "web", 2, 40, 10), NULL, 0);
    note_spread(t, c, 1);
    note(t, c, "edges grow", web_add_edges(c, "web", 3, WEB_NODES, 200), NULL, 0);
    note_spread(t, c, 4);
    note(t, c, "drop graph", ea_graph_drop(c, "web"), NULL, 0);
}

static void ids_make(uint64_t *ids, uint64_t count, uint64_t first)
{
    for (uint64_t i = 0; i < count; i++)
        ids[i] = first + 3 * (i * 11 % count);
}

void script_run(ea_client *a, ea_client *b, struct transcript *t)
{
    static float queries[WIDE_QUERIES * WIDE];
    uint64_t ids[ROWS], wide_ids[WIDE_ROWS], more_ids[40], deleted[15];
    ea_delete_counts gone = {0};
    reference_fill(17, queries, (size_t)WIDE_QUERIES * WIDE);
    ids_make(ids, ROWS, 3);
    ids_make(wide_ids, WIDE_ROWS, 10);
    struct asker small = {a, t, "small", D, queries}, other = {b, t, "small", D, queries};
    struct asker wide = {a, t, "wide", WIDE, queries};
    make(&small, "upsert", EA_COSINE, 1, ids, ROWS);
    ask_small(&small, ids);
    ask_inline(&small);
    make(&other, "upsert, beta", EA_DOT, 2, ids, ROWS - 20);
    knn(&other, "knn, beta", 4, 9, NULL, NULL);
    similarity(&other, "similarity, beta", 2, NULL, NULL);
    make(&wide, "upsert, wide", EA_SQUARED_EUCLIDEAN, 3, wide_ids, WIDE_ROWS / 2);
    knn(&wide, "knn, wide", WIDE_QUERIES, 12, NULL, NULL);
    similarity(&wide, "similarity, wide", WIDE_QUERIES, NULL, NULL);
    knn(&other, "knn, beta again", 4, 9, NULL, NULL);

    ids_make(more_ids, 40, 30); /* some replace, some are new */
    memcpy(deleted, ids + 50, sizeof deleted);
    fill(&small, "upsert on top", 4, more_ids, 40);
    knn(&small, "knn, after upsert", 3, 30, NULL, NULL);
    note(t, a, "delete", ea_delete(a, "small", deleted, 15, &gone), NULL, 0);
    t->steps[t->count - 1].digest = gone.deleted << 32 | gone.missing;
    knn(&small, "knn, after delete", 3, 300, NULL, NULL);
    similarity(&small, "similarity, after delete", 2, NULL, NULL);
    average(&small, "average, after delete", more_ids, 20);
    fill(&wide, "upsert, wide grows", 5, wide_ids, WIDE_ROWS);
    similarity(&wide, "similarity, wide grown", WIDE_QUERIES, NULL, NULL);
    knn(&wide, "knn, wide grown", 2, 40, NULL, NULL);
    spread_all(b, t);
}

void script_end(ea_client *a, ea_client *b, struct transcript *t)
{
    note(t, a, "drop small", ea_collection_drop(a, "small"), NULL, 0);
    note(t, a, "drop wide", ea_collection_drop(a, "wide"), NULL, 0);
    note(t, b, "drop beta's", ea_collection_drop(b, "small"), NULL, 0);
}

void script_reference(struct transcript *t)
{
    struct gpu_scene s = {0};
    daemon_start(&s.daemon, (const char *[]){"workers.count=2", "workers.pin=false", NULL});
    ea_client *a = gpu_scene_client(&s, "alpha"), *b = gpu_scene_client(&s, "beta");
    t->count = 0;
    script_run(a, b, t);
    script_end(a, b, t);
    for (size_t i = 0; i < t->count; i++)
        cr_assert_eq(t->steps[i].status, EA_OK, "%s: %s", t->steps[i].what, t->steps[i].error);
    ea_close(a);
    ea_close(b);
    cr_assert_eq(daemon_stop(&s.daemon), 0);
}

void transcript_compare(const struct transcript *got, const struct transcript *want,
                        const char *context)
{
    cr_assert_eq(got->count, want->count);
    for (size_t i = 0; i < got->count; i++) {
        const struct script_step *g = &got->steps[i], *w = &want->steps[i];
        cr_assert_eq(g->status, EA_OK, "%s: step %zu, %s: %s: %s", context, i, g->what,
                     ea_status_name(g->status), g->error);
        cr_assert_eq(g->version, w->version, "%s: step %zu, %s: version", context, i, g->what);
        cr_assert_eq(g->digest, w->digest, "%s: step %zu, %s: another answer (%s, %s)", context, i,
                     g->what, ea_backend_name(g->backend), ea_reason_name(g->reason));
    }
}

size_t transcript_on_gpu(const struct transcript *t)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++)
        count += t->steps[i].backend == EA_BACKEND_GPU;
    return count;
}
