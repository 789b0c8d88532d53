/* Knn with the screen against a naive reference, bit for bit: data on which the screen works, on
 * which it cannot, and on which its bounds overflow or vanish. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/screening.h"
#include "daemon/store/collection.h"
#include "tests/support/reference.h"
#include "tests/support/run_job.h"
#include "tests/support/sweep.h"

enum data {
    RANDOM,
    NEAR_DUPLICATE, /* all within rounding of each other */
    ALL_EQUAL,
    MANY_ZERO,  /* every other row, and a query */
    HUGE_NORMS, /* just under sqrt(FLT_MAX), and ordinary ones */
    SUBNORMAL,
    CANCELLING, /* dots near 0 from products near 1e6 */
    SORTED,     /* each row nearer than all before: every bound comes too late */
    DATA
};

struct scene {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection;
    struct reference_rows all;
    float *rows, *queries;
    uint64_t *ids;
    uint64_t query_count;
    bool *allowed; /* NULL: all */
};

static float element(enum data data, uint32_t dimension, uint64_t row, uint32_t column, float noise)
{
    float base;
    switch (data) {
    case NEAR_DUPLICATE:
        reference_fill(column, &base, 1);
        return base * (noise > 0.8f ? 1.0f + 0x1p-23f : 1.0f);
    case ALL_EQUAL: return (float)(column % 7) - 3.0f;
    case MANY_ZERO: return row % 2 ? 0.0f : noise;
    case HUGE_NORMS:
        return row % 3 ? copysignf(0x1.fffp63f / sqrtf((float)dimension), noise) : noise;
    case SUBNORMAL: return noise * (row % 2 ? 0x1p-126f : 0x1p-74f);
    case CANCELLING: return (column & 32 ? -1.0f : 1.0f) * (1000.0f + noise);
    case SORTED: return noise + 1e4f / (float)(row + 1);
    default: return noise;
    }
}

static float *make_rows(enum data data, uint32_t dimension, uint64_t count, uint64_t seed)
{
    float *rows = aligned_alloc(64, (count * dimension * sizeof *rows + 64) / 64 * 64);
    reference_fill(seed, rows, count * dimension);
    for (uint64_t i = 0; i < count * dimension; i++)
        rows[i] = element(data, dimension, i / dimension, (uint32_t)(i % dimension), rows[i]);
    return rows;
}

static struct scene scene_open(enum data data, uint32_t dimension, enum metric metric,
                               uint64_t rows, uint64_t queries)
{
    struct scene s = {.query_count = queries};
    cr_assert_eq(heap_create(UINT64_C(1) << 30, &s.heap), STATUS_OK);
    cr_assert_eq(store_create(s.heap, vectors_variant(0), &s.store), STATUS_OK);
    cr_assert_eq(store_space(s.store, "test", &s.space), STATUS_OK);
    cr_assert_eq(
        store_collection_create(s.store, s.space, "c", dimension, metric, NULL, &s.collection),
        STATUS_OK);
    s.rows = make_rows(data, dimension, rows, 1);
    s.queries = make_rows(data, dimension, queries, 2);
    memcpy(s.queries, s.rows + 3 * dimension, dimension * sizeof(float)); /* a distance of 0 */
    s.ids = malloc(rows * sizeof *s.ids);
    for (uint64_t i = 0; i < rows; i++)
        s.ids[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(s.collection, s.ids, s.rows, rows, &counts, NULL), STATUS_OK);
    s.all = (struct reference_rows){dimension, (int)metric, rows, s.rows, s.ids};
    return s;
}

static void scene_close(struct scene *s)
{
    store_destroy(s->store);
    cr_assert_eq(heap_usage(s->heap).blocks, 0);
    heap_destroy(s->heap);
    free(s->ids), free(s->rows), free(s->queries), free(s->allowed);
}

/* Only some ids; the list or bitmap is the caller's. */
static uint64_t *allow_some(struct scene *s, unsigned share, uint64_t *count)
{
    uint64_t *ids = malloc(s->all.count * sizeof *ids);
    s->allowed = calloc(s->all.count, sizeof *s->allowed);
    *count = 0;
    for (uint64_t i = 0; i < s->all.count; i++) {
        s->allowed[i] = i * 7919 % 100 < share;
        if (s->allowed[i]) ids[(*count)++] = s->ids[i];
    }
    return ids;
}

/* The variant's own screen, counted. */
static const struct vector_kernels *counted_kernels;
static atomic_uint screened_blocks;
static void counted_screen(uint32_t dimension, const struct query_pack *queries,
                           struct row_block block, float *dots, size_t dots_stride)
{
    atomic_fetch_add(&screened_blocks, 1);
    counted_kernels->screen(dimension, queries, block, dots, dots_stride);
}

struct expected {
    uint64_t *ids;
    float *scores;
    size_t *counts;
    uint64_t columns;
};

static struct expected expect(const struct scene *s, uint32_t k, const float *threshold)
{
    uint64_t allowed = 0;
    for (uint64_t i = 0; i < s->all.count; i++)
        allowed += !s->allowed || s->allowed[i];
    uint64_t columns = k < allowed ? k : allowed;
    struct expected e = {malloc((s->query_count * columns + 1) * 8),
                         malloc((s->query_count * columns + 1) * 4),
                         malloc(s->query_count * sizeof(size_t)), columns};
    for (uint64_t q = 0; q < s->query_count; q++)
        e.counts[q] = reference_knn(&s->all, s->queries + q * s->all.dimension, k, s->allowed,
                                    threshold, e.ids + q * columns, e.scores + q * columns);
    return e;
}

static void check(const struct scene *s, const struct job *j, const struct expected *e)
{
    const struct tensor *t = j->result.tensors;
    cr_assert(t[0].rows == s->query_count && t[0].columns == e->columns);
    for (uint64_t q = 0; q < s->query_count; q++) {
        cr_assert_eq(((uint32_t *)t[2].data)[q], e->counts[q]);
        for (uint64_t i = q * e->columns; i < q * e->columns + e->counts[q]; i++) {
            cr_assert_eq(((uint64_t *)t[0].data)[i], e->ids[i], "dimension %u metric %d query %lu",
                         s->all.dimension, s->all.metric, q);
            float score = ((float *)t[1].data)[i];
            cr_assert(reference_same(score, e->scores[i]), "%a is not %a", score, e->scores[i]);
        }
    }
}

/* Every variant, several worker counts and orders of parts. Returns how many blocks were screened.
 */
static unsigned run_all_ways(const struct scene *s, uint32_t k, const float *threshold,
                             const uint64_t *filter, uint64_t filter_count)
{
    static const uint32_t workers[] = {1, 2, 5};
    struct expected e = expect(s, k, threshold);
    unsigned screened = 0;
    for (size_t v = 0; vectors_variant(v); v++) {
        counted_kernels = vectors_variant(v);
        struct vector_kernels kernels = *counted_kernels;
        kernels.screen = counted_screen;
        atomic_store(&screened_blocks, 0);
        for (size_t w = 0; w < sizeof workers / sizeof *workers; w += sweep_stride(2)) {
            struct job j = {.operation = OPERATION_KNN,
                            .space = s->space,
                            .resident = collection_resident(s->collection),
                            .collection = collection_now(s->collection),
                            .heap = s->heap,
                            .kernels = &kernels,
                            .worker_count = workers[w],
                            .reply_bytes_max = UINT64_C(1) << 28};
            j.request.queries =
                (struct tensor){DTYPE_FLOAT32, s->query_count, s->all.dimension, s->queries};
            j.request.k = k;
            j.request.has_threshold = threshold != NULL;
            j.request.threshold = threshold ? *threshold : 0.0f;
            if (filter)
                j.request.filter_ids =
                    (struct tensor){DTYPE_UINT64, filter_count, 1, (void *)filter};
            cr_assert_eq(run_job(&j, (unsigned)(v * 10 + w)), STATUS_OK, "%s", j.failure.text);
            check(s, &j, &e);
            run_job_reset(&j);
        }
        screened = atomic_load(&screened_blocks);
    }
    free(e.ids), free(e.scores), free(e.counts);
    return screened;
}

static const uint32_t dimensions[] = {1, 31, 32, 33, 384, 768, 1024, 1025, 1536, 4096};

static void every_data_case(enum metric metric)
{
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d += sweep_stride(2)) {
        bool compensated = dimensions[d] > VECTOR_COMPENSATED_ABOVE;
        if (!compensated && metric != METRIC_SQUARED_EUCLIDEAN && dimensions[d] != 768) continue;
        for (int data = 0; data < DATA; data += (int)sweep_stride(4)) {
            uint64_t rows = dimensions[d] > 1500 ? 600 : 1100, queries = compensated ? 3 : 9;
            struct scene s = scene_open((enum data)data, dimensions[d], metric, rows, queries);
            unsigned screened = run_all_ways(&s, data % 2 ? 1 : 10, NULL, NULL, 0);
            if (compensated || metric == METRIC_SQUARED_EUCLIDEAN)
                cr_assert_gt(screened, 0);
            else
                cr_assert_eq(screened, 0);
            scene_close(&s);
        }
    }
}

Test(screen, euclidean_equals_the_reference, .timeout = 900)
{
    every_data_case(METRIC_SQUARED_EUCLIDEAN);
}

Test(screen, dot_equals_the_reference, .timeout = 900)
{
    every_data_case(METRIC_DOT);
}

Test(screen, cosine_equals_the_reference, .timeout = 900)
{
    every_data_case(METRIC_COSINE);
}

/* Large k, k past the rows, several groups of queries, more blocks than the longest pause. */
Test(screen, any_k, .timeout = 900)
{
    const struct {
        enum data data;
        uint32_t dimension, k;
        uint64_t rows, queries;
    } cases[] = {{RANDOM, 32, 1000, 20000, 9},       {RANDOM, 33, 2000, 1500, 9},
                 {SORTED, 31, 10, 20000, 9},         {NEAR_DUPLICATE, 8, 10, 20000, 20},
                 {RANDOM, 1, 10, 3000, 400},         {MANY_ZERO, 5, 100, 5000, 300},
                 {NEAR_DUPLICATE, 1025, 1, 2500, 2}, {RANDOM, 1100, 16384, 500, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += sweep_stride(3)) {
        struct scene s =
            scene_open(cases[i].data, cases[i].dimension,
                       cases[i].dimension > 1024 ? METRIC_COSINE : METRIC_SQUARED_EUCLIDEAN,
                       cases[i].rows, cases[i].queries);
        run_all_ways(&s, cases[i].k, NULL, NULL, 0);
        scene_close(&s);
    }
}

Test(screen, thresholds, .timeout = 900)
{
    static const float thresholds[] = {-INFINITY, -1.5f, -0.0f,   0.0f,    0.02f,
                                       15.0f,     1e10f, FLT_MAX, INFINITY};
    for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i += sweep_stride(4)) {
        for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
            uint32_t dimension = m == METRIC_SQUARED_EUCLIDEAN ? 24 : 1030;
            enum data data = i % 3 == 1 ? MANY_ZERO : RANDOM;
            struct scene s = scene_open(data, dimension, (enum metric)m, 1000, 9);
            run_all_ways(&s, 10, &thresholds[i], NULL, 0);
            scene_close(&s);
        }
    }
}

/* A threshold that is just some row's score. */
Test(screen, thresholds_met_exactly)
{
    for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
        struct scene s = scene_open(RANDOM, 1056, (enum metric)m, 1000, 8);
        for (uint64_t row = 300; row < 1000; row += 230 * sweep_stride(3)) {
            float met = reference_score(m, 1056, s.queries + 1056, s.rows + row * 1056);
            run_all_ways(&s, 100, &met, NULL, 0);
        }
        scene_close(&s);
    }
}

/* Few ids become a list of rows, many a bitmap. */
Test(screen, filters, .timeout = 900)
{
    static const unsigned shares[] = {1, 10, 50, 90, 100};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i += sweep_stride(3)) {
        for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
            uint32_t dimension = m == METRIC_SQUARED_EUCLIDEAN ? 40 : 1025;
            struct scene s = scene_open(RANDOM, dimension, (enum metric)m, 3000, 9);
            uint64_t count, *ids = allow_some(&s, shares[i], &count);
            run_all_ways(&s, 10, NULL, ids, count);
            free(ids);
            scene_close(&s);
        }
    }
}
