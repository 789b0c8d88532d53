/* Knn through rows in int8 against the exact answer over a twin collection without them, bit for
 * bit: kinds of rows for which the bound is tight, loose or nothing, all metrics, k, thresholds and
 * filters, one query and many, and writes in between. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/job_screen.h"
#include "daemon/store/collection_inside.h"
#include "daemon/ops/operation.h"
#include "tests/support/reference.h"
#include "tests/support/run_job.h"
#include "tests/support/sweep.h"

enum kind {
    UNIFORM,
    CLUSTER,  /* one direction, noise of three hundredths */
    CLUSTERS, /* forty, noise of a tenth */
    OUTLIER,  /* one element carries the row */
    EQUAL,    /* all rows */
    DUPLICATES,
    NEAR_DUPLICATES, /* all within rounding of each other */
    ZEROS,           /* every other row */
    HUGE_NORMS,      /* just under sqrt(FLT_MAX), and ordinary ones */
    SUBNORMAL,
    CANCELLING, /* dots near 0 from products near 1e6 */
    SORTED,     /* each row nearer than all before */
    SPARSE,
    KINDS
};

enum { ROWS = 4500, DIMENSION = 256, QUERIES = 80, WARM = 12 };

struct side {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection;
};

struct twins {
    struct side shadowed, exact;
    float *rows, *queries;
    uint64_t *ids;
    uint32_t dimension;
};

static float element(enum kind kind, uint64_t row, uint32_t column, float noise)
{
    float base;
    switch (kind) {
    case CLUSTER: reference_fill(column + 7, &base, 1); return base + 0.03f * noise;
    case CLUSTERS: reference_fill(row % 40 * 1000 + column, &base, 1); return base + 0.1f * noise;
    case OUTLIER: return column == row % 5 ? 50.0f + noise : 0.01f * noise;
    case EQUAL: return (float)(column % 7) - 3.0f;
    case DUPLICATES: reference_fill(row % 9 * 1000 + column, &base, 1); return base;
    case NEAR_DUPLICATES:
        reference_fill(column, &base, 1);
        return base * (noise > 0.8f ? 1.0f + 0x1p-23f : 1.0f);
    case ZEROS: return row % 2 ? 0.0f : noise;
    case HUGE_NORMS:
        return row % 3 ? copysignf(0x1.fffp63f / sqrtf((float)DIMENSION), noise) : noise;
    case SUBNORMAL: return noise * (row % 2 ? 0x1p-126f : 0x1p-74f);
    case CANCELLING: return (column & 32 ? -1.0f : 1.0f) * (1000.0f + noise);
    case SORTED: return noise + 1e4f / (float)(row + 1);
    case SPARSE: return column % 16 == row % 16 ? noise : 0.0f;
    case UNIFORM:
    case KINDS: break;
    }
    return noise;
}

static float *make_rows(enum kind kind, uint32_t dimension, uint64_t count, uint64_t seed)
{
    float *rows = aligned_alloc(64, (count * dimension * sizeof *rows + 64) / 64 * 64);
    reference_fill(seed, rows, count * dimension);
    for (uint64_t i = 0; i < count * dimension; i++)
        rows[i] = element(kind, i / dimension, (uint32_t)(i % dimension), rows[i]);
    return rows;
}

static struct side side_open(uint32_t dimension, enum metric metric, bool shadowed, uint64_t bytes)
{
    struct side s = {0};
    cr_assert_eq(heap_create(bytes, &s.heap), STATUS_OK);
    cr_assert_eq(store_create(s.heap, vectors_choose("auto"), &s.store), STATUS_OK);
    shadows_allow(store_shadows(s.store), shadowed);
    cr_assert_eq(store_space(s.store, "test", &s.space), STATUS_OK);
    cr_assert_eq(
        store_collection_create(s.store, s.space, "c", dimension, metric, NULL, &s.collection),
        STATUS_OK);
    return s;
}

static void side_close(struct side *s)
{
    store_destroy(s->store);
    cr_assert_eq(heap_usage(s->heap).blocks, 0);
    heap_destroy(s->heap);
}

static void upsert(struct twins *t, const uint64_t *ids, const float *rows, uint64_t count)
{
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(t->shadowed.collection, ids, rows, count, &counts, NULL), 0);
    cr_assert_eq(collection_upsert(t->exact.collection, ids, rows, count, &counts, NULL), 0);
}

static void delete_some(struct twins *t, const uint64_t *ids, uint64_t count)
{
    uint64_t deleted, missing;
    collection_delete(t->shadowed.collection, ids, count, &deleted, &missing);
    collection_delete(t->exact.collection, ids, count, &deleted, &missing);
    cr_assert_eq(missing, 0);
}

static struct twins twins_open(enum kind kind, uint32_t dimension, enum metric metric)
{
    struct twins t = {.dimension = dimension};
    t.shadowed = side_open(dimension, metric, true, UINT64_C(1) << 28);
    t.exact = side_open(dimension, metric, false, UINT64_C(1) << 28);
    t.rows = make_rows(kind, dimension, ROWS, 1);
    t.queries = make_rows(kind, dimension, QUERIES, 2);
    memcpy(t.queries, t.rows + 3 * dimension, dimension * sizeof(float));
    t.ids = malloc(ROWS * sizeof *t.ids);
    for (uint64_t i = 0; i < ROWS; i++)
        t.ids[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    upsert(&t, t.ids, t.rows, ROWS);
    return t;
}

static void twins_close(struct twins *t)
{
    side_close(&t->shadowed), side_close(&t->exact);
    free(t->rows), free(t->queries), free(t->ids);
}

struct question {
    uint64_t first, count;
    uint32_t k;
    const float *threshold;
    const uint64_t *allowed;
    uint64_t allowed_count;
};

static struct job ask(const struct twins *t, const struct side *s, const struct question *q,
                      uint32_t workers)
{
    struct job j = {.operation = OPERATION_KNN,
                    .space = s->space,
                    .resident = collection_resident(s->collection),
                    .collection = collection_now(s->collection),
                    .heap = s->heap,
                    .kernels = vectors_choose("auto"),
                    .worker_count = workers,
                    .reply_bytes_max = UINT64_C(1) << 28};
    j.request.queries = (struct tensor){DTYPE_FLOAT32, q->count, t->dimension,
                                        t->queries + q->first * t->dimension};
    j.request.k = q->k;
    j.request.has_threshold = q->threshold != NULL;
    j.request.threshold = q->threshold ? *q->threshold : 0.0f;
    if (q->allowed)
        j.request.filter_ids =
            (struct tensor){DTYPE_UINT64, q->allowed_count, 1, (void *)(uintptr_t)q->allowed};
    cr_assert_eq(run_job(&j, (unsigned)(q->first + q->k)), STATUS_OK, "%s", j.failure.text);
    return j;
}

static void compare(const struct twins *t, const struct question *q, const char *what)
{
    struct job a = ask(t, &t->shadowed, q, 1 + q->first % 3), b = ask(t, &t->exact, q, 1);
    for (int i = 0; i < 3; i++) {
        const struct tensor *x = &a.result.tensors[i], *y = &b.result.tensors[i];
        size_t bytes = i == 0 ? 8 : 4;
        cr_assert(x->rows == y->rows && x->columns == y->columns);
        cr_assert_eq(memcmp(x->data, y->data, x->rows * x->columns * bytes), 0,
                     "%s: query %lu and %lu more, k %u, tensor %d", what, q->first, q->count - 1,
                     q->k, i);
    }
    run_job_reset(&a), run_job_reset(&b);
}

/* One query at a time until all rows are coded. */
static void warm(const struct twins *t)
{
    for (uint64_t i = 0; i < WARM; i++)
        compare(t, &(struct question){.first = i, .count = 1, .k = 10}, "while rows are coded");
}

static void compare_many(const struct twins *t, const char *what)
{
    static const uint32_t ks[] = {1, 10, 100, 500};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        compare(t, &(struct question){.first = i, .count = 1, .k = ks[i]}, what);
        compare(t, &(struct question){.first = 5 + i, .count = 3, .k = ks[i]}, what);
        compare(t, &(struct question){.count = QUERIES, .k = ks[i]}, what);
    }
}

static struct shadow_info info(const struct twins *t)
{
    return collection_shadow_info(t->shadowed.collection);
}

static void every_kind(enum metric metric)
{
    for (int kind = 0; kind < KINDS; kind += (int)sweep_stride(3)) {
        char what[48];
        snprintf(what, sizeof what, "metric %d, kind %d", metric, kind);
        struct twins t = twins_open((enum kind)kind, DIMENSION, metric);
        warm(&t);
        cr_assert_eq(info(&t).rows, ROWS, "%s: %lu rows are coded", what, info(&t).rows);
        compare_many(&t, what);
        cr_assert_gt(info(&t).screened, 0);
        if (kind == UNIFORM)
            cr_assert_lt(info(&t).passed, info(&t).screened / 4, "%s: %lu of %lu pairs passed",
                         what, info(&t).passed, info(&t).screened);
        twins_close(&t);
    }
}

Test(shadow_knn, cosine_is_exact, .timeout = 900)
{
    every_kind(METRIC_COSINE);
}

Test(shadow_knn, dot_is_exact, .timeout = 900)
{
    every_kind(METRIC_DOT);
}

Test(shadow_knn, euclidean_is_exact, .timeout = 900)
{
    every_kind(METRIC_SQUARED_EUCLIDEAN);
}

/* Dimensions with pads of both kinds, and compensated sums. */
Test(shadow_knn, other_dimensions, .timeout = 900)
{
    static const uint32_t dimensions[] = {250, 289, 1025};
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++)
        for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m += (int)sweep_stride(2)) {
            struct twins t = twins_open(i % 2 ? CLUSTERS : UNIFORM, dimensions[i], (enum metric)m);
            warm(&t);
            compare_many(&t, "dimension");
            cr_assert_gt(info(&t).screened, 0);
            twins_close(&t);
        }
}

Test(shadow_knn, thresholds_and_filters, .timeout = 900)
{
    static const float thresholds[] = {-INFINITY, -0.5f, 0.0f, 0.1f, 40.0f, FLT_MAX, INFINITY};
    for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
        struct twins t = twins_open(UNIFORM, DIMENSION, (enum metric)m);
        uint64_t allowed[ROWS], counts[] = {40, ROWS / 3, ROWS - 1};
        for (uint64_t i = 0; i < ROWS; i++)
            allowed[i] = t.ids[i * 7 % ROWS];
        warm(&t);
        for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++)
            for (uint64_t n = 1; n <= QUERIES; n += QUERIES - 1)
                compare(&t, &(struct question){.count = n, .k = 20, .threshold = &thresholds[i]},
                        "threshold");
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (uint64_t n = 1; n <= QUERIES; n += QUERIES - 1)
                compare(&t,
                        &(struct question){
                            .count = n, .k = 20, .allowed = allowed, .allowed_count = counts[i]},
                        "filter");
        twins_close(&t);
    }
}

/* Rows that are replaced, deleted (the last row moves), and appended where others were: in place
 * and, with a reader of the edition before, in a next one. */
static void write_and_compare(struct twins *t, uint64_t step)
{
    const float *other = t->queries;
    uint64_t fresh[3] = {1 + step * 3, 2 + step * 3, 3 + step * 3};
    uint64_t gone[4];
    for (uint64_t i = 0; i < 4; i++)
        gone[i] = t->ids[step * 4 + i + 100];
    upsert(t, t->ids + 2000 + step * 50, other, 20);
    compare(t, &(struct question){.first = step % 20, .count = 1, .k = 10}, "replaced");
    delete_some(t, gone, 4);
    delete_some(t, t->ids + ROWS - 1 - step, 1);
    compare(t, &(struct question){.first = step % 20, .count = 1, .k = 10}, "deleted");
    upsert(t, fresh, other + step % 7 * t->dimension, 3);
    compare(t, &(struct question){.first = step % 20, .count = 1, .k = 10}, "appended");
    compare(t, &(struct question){.count = 20, .k = 10}, "written");
}

Test(shadow_knn, writes_are_seen, .timeout = 900)
{
    for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
        struct twins t = twins_open(UNIFORM, DIMENSION, (enum metric)m);
        warm(&t);
        for (uint64_t step = 0; step < 20; step++) {
            struct edition *pinned = step % 2 ? collection_pin(t.shadowed.collection) : NULL;
            write_and_compare(&t, step);
            if (pinned) collection_unpin(pinned);
        }
        /* All that is coded anew still has its checksum. */
        for (int i = 0; i < 200; i++)
            cr_assert_eq(shadows_sweep(store_shadows(t.shadowed.store)), 0);
        cr_assert_gt(info(&t).rows, ROWS / 2);
        twins_close(&t);
    }
}

static void move_all(struct twins *t, float by)
{
    for (uint64_t i = 0; i < ROWS * DIMENSION; i++)
        t->rows[i] += by;
    for (uint64_t i = 0; i < ROWS; i += 250)
        upsert(t, t->ids + i, t->rows + i * DIMENSION, 250);
}

/* All rows move away from the centre that was chosen when there were others: when they lose half as
 * much again, another one is chosen. What is told of them follows writes. */
Test(shadow_knn, another_centre_when_rows_have_moved, .timeout = 300)
{
    struct twins t = twins_open(UNIFORM, DIMENSION, METRIC_DOT);
    move_all(&t, 5);
    warm(&t);
    double first = info(&t).lost;
    cr_assert(first > 0 && first < 0.001, "%g", first);
    move_all(&t, -10);
    cr_assert_eq(info(&t).rows, ROWS);
    cr_assert(info(&t).lost > 5 * first && info(&t).lost < 20 * first, "%g", info(&t).lost);
    warm(&t);
    cr_assert_eq(info(&t).rows, ROWS);
    cr_assert(info(&t).lost > 0.8 * first && info(&t).lost < 1.2 * first, "%g", info(&t).lost);
    delete_some(&t, t.ids + ROWS - 900, 900);
    upsert(&t, t.ids + ROWS - 900, t.rows, 1); /* what is behind it is no row any more */
    cr_assert_lt(info(&t).rows, ROWS);
    cr_assert(info(&t).lost > 0.8 * first && info(&t).lost < 1.2 * first, "%g", info(&t).lost);
    twins_close(&t);
}

static struct work_screen expected(const struct twins *t, uint64_t queries, uint32_t k)
{
    struct job j = {.operation = OPERATION_KNN,
                    .space = t->shadowed.space,
                    .collection = collection_now(t->shadowed.collection),
                    .request.queries = {DTYPE_FLOAT32, queries, DIMENSION, t->queries},
                    .request.k = k};
    return operation_work(&j).screen[0];
}

/* What is predicted of a search knows how much of the rows is coded, and what passed of late. */
Test(shadow_knn, its_work_expects_what_is_coded, .timeout = 300)
{
    struct twins t = twins_open(UNIFORM, DIMENSION, METRIC_COSINE);
    cr_assert_eq(expected(&t, 1, 10).asked, 0);
    warm(&t);
    cr_assert_eq(expected(&t, 1, 10).asked, 1);
    cr_assert_eq(expected(&t, 1, 10).passed, 0, "nobody counted any search");
    const struct edition *now = collection_now(t.shadowed.collection);
    collection_count_screen(now, SCREENS_CPU,
                            &(struct job_screen){.queries = 1, .screened = 1000, .survived = 100});
    cr_assert_float_eq(expected(&t, 1, 10).passed, 0.1, 1e-6);
    for (int i = 0; i < 40; i++)
        collection_count_screen(now, SCREENS_CPU,
                                &(struct job_screen){.queries = 1, .screened = 1000});
    cr_assert(expected(&t, 1, 10).passed < 0.01F, "of late");
    cr_assert_eq(expected(&t, 1, ROWS / 2).asked, 0, "so many that they are not asked");
    cr_assert_eq(expected(&t, 1, 10).asked, 1);
    bool tiles = shadow_choose("auto")->tiles;
    cr_assert_eq(expected(&t, QUERIES, 10).asked, tiles ? 1 : 0);
    collection_shadow_end(now, 1000, 900); /* of no use */
    cr_assert_eq(expected(&t, 1, 10).asked, 0);
    collection_shadow_end(now, 1000, 0);
    cr_assert_eq(expected(&t, 1, 10).asked, 1);
    shadows_allow(store_shadows(t.shadowed.store), false);
    cr_assert_eq(expected(&t, 1, 10).asked, 0);
    twins_close(&t);
}

/* A reader of an older edition goes on with the rows that it saw. */
Test(shadow_knn, an_older_edition_keeps_its_answers)
{
    struct twins t = twins_open(UNIFORM, DIMENSION, METRIC_DOT);
    struct question q = {.count = 1, .k = 10};
    warm(&t);
    struct edition *old = collection_pin(t.shadowed.collection);
    struct job before = ask(&t, &t.exact, &q, 1);
    write_and_compare(&t, 1);
    struct side then = t.shadowed;
    struct job j = {.operation = OPERATION_KNN,
                    .space = then.space,
                    .resident = collection_resident(then.collection),
                    .collection = old,
                    .heap = then.heap,
                    .kernels = vectors_choose("auto"),
                    .worker_count = 2,
                    .reply_bytes_max = 1 << 20};
    j.request.queries = before.request.queries;
    j.request.k = q.k;
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert_eq(memcmp(j.result.tensors[0].data, before.result.tensors[0].data, 10 * 8), 0);
    run_job_reset(&j), run_job_reset(&before);
    collection_unpin(old);
    twins_close(&t);
}

/* A bit that flips in what is kept is found, and the rows are coded anew. */
Test(shadow_knn, a_flipped_bit_is_found)
{
    struct twins t = twins_open(UNIFORM, DIMENSION, METRIC_COSINE);
    struct shadows *all = store_shadows(t.shadowed.store);
    const struct edition *e = collection_now(t.shadowed.collection);
    warm(&t);
    for (int what = 0; what < 4; what++) {
        struct segment_shadow *s = &e->segments[what % (int)e->segment_count]->shadow;
        uint64_t before = info(&t).rows, found = shadows_sweep(all);
        if (what == 0) s->places.codes[777] ^= 0x10;
        if (what == 1) s->places.scales[5] *= 1.5f;
        if (what == 2) s->places.losts[3] *= 0.5f;
        if (what == 3) s->places.lengths[s->rows - 1] *= 0.5f;
        for (size_t i = 0; i < 2 * e->segment_count && shadows_sweep(all) == found; i++) {
        }
        cr_assert_eq(shadows_sweep(all), found + 1, "%d", what);
        cr_assert_lt(info(&t).rows, before);
        warm(&t);
        cr_assert_eq(info(&t).rows, before);
    }
    twins_close(&t);
}

/* Nothing is refused for the sake of shadows: those of the space go, or all. */
Test(shadow_knn, memory_is_given_back_before_anything_is_refused)
{
    struct twins t = twins_open(UNIFORM, DIMENSION, METRIC_COSINE);
    struct side *s = &t.shadowed;
    warm(&t);
    uint64_t bytes = info(&t).bytes, room = heap_room_bytes(s->heap);
    struct heap_block block;
    cr_assert_gt(bytes, 0);
    cr_assert_eq(heap_take(s->heap, room + bytes / 2, 0, &block), STATUS_OK);
    cr_assert_lt(info(&t).bytes, bytes);
    heap_give(s->heap, &block);
    warm(&t);
    cr_assert_eq(info(&t).bytes, bytes);
    /* at the quota of its space */
    uint64_t used = heap_owner_bytes(s->heap, s->space->number);
    cr_assert_eq(heap_quota(s->heap, s->space->number, used), STATUS_OK);
    cr_assert_eq(heap_take(s->heap, bytes / 2, s->space->number, &block), STATUS_OK);
    cr_assert_lt(info(&t).bytes, bytes);
    heap_give(s->heap, &block);
    /* and none are made where little is free */
    uint64_t left = info(&t).bytes;
    warm(&t);
    cr_assert_leq(info(&t).bytes, left);
    twins_close(&t);
}

Test(shadow_knn, off_means_off)
{
    struct twins t = twins_open(UNIFORM, DIMENSION, METRIC_COSINE);
    warm(&t);
    shadows_allow(store_shadows(t.shadowed.store), false);
    cr_assert_eq(info(&t).bytes, 0);
    uint64_t screened = info(&t).screened;
    warm(&t);
    cr_assert_eq(info(&t).rows, 0);
    cr_assert_eq(info(&t).screened, screened);
    twins_close(&t);
}

/* All rows are coded from it, and are all coded anew. */
Test(shadow_knn, a_flipped_bit_of_the_centre_is_found)
{
    struct twins t = twins_open(UNIFORM, DIMENSION, METRIC_COSINE);
    struct shadows *all = store_shadows(t.shadowed.store);
    const struct edition *e = collection_now(t.shadowed.collection);
    for (int norm = 0; norm < 2; norm++) {
        warm(&t);
        uint64_t found = shadows_sweep(all);
        struct shadow_middle *m = t.shadowed.collection->shadow.middles[0];
        *(norm ? &m->norm : &m->row[5]) += 1.0f;
        for (size_t i = 0; i < 2 * e->segment_count; i++)
            shadows_sweep(all);
        cr_assert_eq(shadows_sweep(all), found + e->segment_count);
        cr_assert_eq(info(&t).rows, 0);
    }
    twins_close(&t);
}
