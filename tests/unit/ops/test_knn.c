/* Knn and Similarity against a naive reference, bit for bit, for several splits. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "kernels/canonical.h"
#include "kernels/topk.h"
#include "tests/support/run_job.h"
#include "tests/support/sweep.h"

struct bench {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection; /* NULL: inline */
    uint32_t dimension;
    uint64_t rows, queries;
    enum metric metric;
    uint64_t *ids;
    float *row_data, *query_data; /* unpadded, as on the wire */
    bool *allowed;                /* by row; NULL: all */
};

static float *make_floats(uint64_t count, unsigned *seed)
{
    float *p = aligned_alloc(64, (count * sizeof *p + 64) / 64 * 64);
    for (uint64_t i = 0; i < count; i++)
        p[i] = (float)(rand_r(seed) % 61 - 30) / 16.0f;
    return p;
}

static struct bench open_bench(uint32_t dimension, uint64_t rows, uint64_t queries,
                               enum metric metric, bool in_line, unsigned seed)
{
    struct bench b = {.dimension = dimension, .rows = rows, .queries = queries, .metric = metric};
    cr_assert_eq(heap_create(UINT64_C(1) << 30, &b.heap), STATUS_OK);
    cr_assert_eq(store_create(b.heap, vectors_variant(0), &b.store), STATUS_OK);
    cr_assert_eq(store_space(b.store, "test", &b.space), STATUS_OK);
    b.ids = malloc((rows + 1) * sizeof *b.ids);
    b.row_data = make_floats(rows * dimension, &seed);
    b.query_data = make_floats(queries * dimension, &seed);
    for (uint64_t i = 0; i < rows; i++) {
        b.ids[i] = in_line ? i : (i * 7 + seed) % (rows * 8 + 1) * 3;
        if (i % 17 == 3) /* ties, and zero vectors */
            memcpy(b.row_data + i * dimension, b.row_data + i / 2 * dimension, dimension * 4);
        if (i % 29 == 5) memset(b.row_data + i * dimension, 0, dimension * 4);
    }
    for (uint64_t i = 0; !in_line && i < rows; i++)
        b.ids[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    if (in_line) return b;
    cr_assert_eq(
        store_collection_create(b.store, b.space, "c", dimension, metric, NULL, &b.collection),
        STATUS_OK);
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(b.collection, b.ids, b.row_data, rows, &counts, NULL),
                 STATUS_OK);
    return b;
}

static void close_bench(struct bench *b)
{
    store_destroy(b->store);
    cr_assert_eq(heap_usage(b->heap).blocks, 0);
    heap_destroy(b->heap);
    free(b->ids);
    free(b->row_data);
    free(b->query_data);
    free(b->allowed);
}

static struct job make_job(struct bench *b, enum operation operation)
{
    struct job j = {.operation = operation,
                    .space = b->space,
                    .resident = b->collection ? collection_resident(b->collection) : NULL,
                    .collection = b->collection ? collection_now(b->collection) : NULL,
                    .heap = b->heap,
                    .kernels = vectors_variant(0),
                    .worker_count = 1,
                    .reply_bytes_max = UINT64_C(1) << 28};
    j.request.queries = (struct tensor){DTYPE_FLOAT32, b->queries, b->dimension, b->query_data};
    if (!b->collection) {
        j.request.rows = (struct tensor){DTYPE_FLOAT32, b->rows, b->dimension, b->row_data};
        j.request.metric = b->metric;
    }
    return j;
}

/* ---- the reference ---- */

static float score(const struct bench *b, uint64_t query, uint64_t row)
{
    size_t stride = vector_stride(b->dimension);
    float *x = calloc(stride, 4), *y = calloc(stride, 4), result;
    memcpy(x, b->query_data + query * b->dimension, b->dimension * 4);
    memcpy(y, b->row_data + row * b->dimension, b->dimension * 4);
    if (b->metric == METRIC_SQUARED_EUCLIDEAN) {
        result = canonical_squared_euclidean(b->dimension, x, y);
    } else {
        result = canonical_dot(b->dimension, x, y);
        if (b->metric == METRIC_COSINE)
            result = canonical_cosine(result, canonical_norm(canonical_dot(b->dimension, x, x)),
                                      canonical_norm(canonical_dot(b->dimension, y, y)));
    }
    free(x);
    free(y);
    return result;
}

static int by_rank(const void *a, const void *b)
{
    const struct topk_entry *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool allowed(const struct bench *b, uint64_t row)
{
    return !b->allowed || b->allowed[row];
}

/* Everything allowed that reaches the threshold, best first. */
static uint64_t rank_all(const struct bench *b, uint64_t query, const float *threshold,
                         struct topk_entry *out)
{
    bool lower = metric_lower_is_better(b->metric);
    uint64_t count = 0;
    for (uint64_t row = 0; row < b->rows; row++) {
        if (!allowed(b, row)) continue;
        float s = score(b, query, row);
        if (threshold && (lower ? s > *threshold : s < *threshold)) continue;
        out[count++] = (struct topk_entry){b->ids[row], topk_key(s, lower), s};
    }
    qsort(out, count, sizeof *out, by_rank);
    return count;
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void check_knn(const struct bench *b, const struct job *j)
{
    uint64_t total = 0, k = j->request.k;
    for (uint64_t row = 0; row < b->rows; row++)
        total += allowed(b, row);
    uint64_t columns = k < total ? k : total;
    const struct tensor *t = j->result.tensors;
    cr_assert(t[0].rows == b->queries && t[0].columns == columns && t[0].dtype == DTYPE_UINT64);
    cr_assert(t[1].rows == b->queries && t[1].columns == columns && t[1].dtype == DTYPE_FLOAT32);
    cr_assert(t[2].rows == b->queries && t[2].columns == 1 && t[2].dtype == DTYPE_UINT32);
    cr_assert_eq(j->result.version, collection_version(j->collection));
    cr_assert_eq(j->result.rows, b->rows);
    struct topk_entry *expected = malloc((b->rows + 1) * sizeof *expected);
    for (uint64_t q = 0; q < b->queries; q++) {
        uint64_t count =
            rank_all(b, q, j->request.has_threshold ? &j->request.threshold : NULL, expected);
        if (count > columns) count = columns;
        cr_assert_eq(((uint32_t *)t[2].data)[q], count);
        for (uint64_t i = 0; i < columns; i++) {
            uint64_t id = ((uint64_t *)t[0].data)[q * columns + i];
            float s = ((float *)t[1].data)[q * columns + i];
            uint32_t bits;
            memcpy(&bits, &s, 4);
            cr_assert_eq(id, i < count ? expected[i].id : UINT64_MAX, "query %lu place %lu", q, i);
            cr_assert(i < count ? s == expected[i].score : bits == 0x7fc00000);
        }
    }
    free(expected);
}

/* Every variant, several worker counts and orders of parts: the same bytes. */
static void run_all_ways(const struct bench *b, struct job *j,
                         void (*check)(const struct bench *, const struct job *))
{
    uint64_t used = heap_usage(b->heap).blocks;
    void *first = NULL;
    uint64_t first_bytes = 0;
    const uint32_t workers[] = {1, 2, 3, 16};
    for (size_t v = 0; vectors_variant(v); v++) {
        for (size_t w = 0; w < sizeof workers / sizeof *workers; w += sweep_stride(2)) {
            j->kernels = vectors_variant(v);
            j->worker_count = workers[w];
            cr_assert_eq(run_job(j, (unsigned)(v * 10 + w)), STATUS_OK, "%s", j->failure.text);
            if (!first) {
                check(b, j);
                first_bytes = j->result.body_bytes;
                first = malloc(first_bytes + 1);
                memcpy(first, first_bytes ? j->result.block.data : first, first_bytes);
            }
            cr_assert_eq(j->result.body_bytes, first_bytes);
            cr_assert(!first_bytes || !memcmp(first, j->result.block.data, first_bytes));
            run_job_reset(j);
            cr_assert_eq(heap_usage(b->heap).blocks, used);
        }
    }
    free(first);
}

static const enum metric metrics[] = {METRIC_COSINE, METRIC_DOT, METRIC_SQUARED_EUCLIDEAN};

Test(knn, equals_the_reference)
{
    const struct {
        uint32_t dimension;
        uint64_t rows, queries;
        uint32_t k;
    } cases[] = {{5, 3000, 1, 10},   {32, 9000, 3, 200}, {100, 700, 1, 16384}, {64, 40, 600, 7},
                 {768, 900, 5, 3},   {1, 500, 300, 500}, {1100, 120, 2, 50},   {8, 0, 2, 5},
                 {16384, 20, 9, 20}, {40, 100, 0, 5},    {768, 50, 130, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum metric metric = metrics[i % 3];
        struct bench b = open_bench(cases[i].dimension, cases[i].rows, cases[i].queries, metric,
                                    false, (unsigned)i);
        if (!b.rows) cr_assert_eq(collection_version(collection_now(b.collection)), 1);
        struct job j = make_job(&b, OPERATION_KNN);
        j.request.k = cases[i].k;
        if (b.rows) {
            run_all_ways(&b, &j, check_knn);
            j.request.has_threshold = true;
            j.request.threshold = metric == METRIC_COSINE ? 0.1f : 40.0f;
            run_all_ways(&b, &j, check_knn);
            j.request.threshold = metric_lower_is_better(metric) ? -1.0f : 1e30f;
            run_all_ways(&b, &j, check_knn);
        } else {
            cr_assert_eq(run_job(&j, 1), STATUS_OK);
            cr_assert_eq(j.result.tensors[0].columns, 0);
            for (uint64_t q = 0; q < b.queries; q++)
                cr_assert_eq(((uint32_t *)j.result.tensors[2].data)[q], 0);
            run_job_reset(&j);
        }
        close_bench(&b);
    }
}

/* Many queries with a large k: more candidates than are kept at once. */
Test(knn, bounds_its_scratch)
{
    struct bench b = open_bench(4, 3000, 160, METRIC_DOT, false, 3);
    struct job j = make_job(&b, OPERATION_KNN);
    j.request.k = 2900;
    uint64_t used = heap_usage(b.heap).bytes_used;
    j.worker_count = 16; /* 160 x 16 x 93 KiB = 238 MB, did each worker keep all */
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    check_knn(&b, &j);
    cr_assert(heap_usage(b.heap).bytes_peak - used < UINT64_C(100) << 20);
    run_job_reset(&j);
    close_bench(&b);
}

static void allow_only(struct bench *b, const uint64_t *ids, uint64_t count)
{
    b->allowed = calloc(b->rows + 1, sizeof *b->allowed);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t row = collection_find_row(collection_now(b->collection), ids[i]);
        if (row != COLLECTION_NO_ROW) b->allowed[row] = true;
    }
}

/* share: in 1,000 rows; some ids twice, some unknown. */
static uint64_t *make_filter(const struct bench *b, unsigned share, uint64_t *count)
{
    unsigned seed = share + 1;
    uint64_t *ids = malloc((b->rows * 2 + 2) * sizeof *ids), n = 0;
    for (uint64_t i = 0; i < b->rows; i++) {
        uint64_t row = i * 7919 % b->rows;
        if ((unsigned)rand_r(&seed) % 1000 >= share) continue;
        ids[n++] = b->ids[row];
        if (i % 5 == 0) ids[n++] = b->ids[row];
        if (i % 7 == 0) ids[n++] = UINT64_MAX - i;
    }
    *count = n;
    return ids;
}

static const unsigned shares[] = {0, 3, 100, 500, 1000};

Test(knn, filters_by_list)
{
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        for (uint64_t queries = 1; queries < 10; queries += 7) {
            struct bench b = open_bench(33, 2107, queries, metrics[i % 3], false, 9);
            uint64_t count, *ids = make_filter(&b, shares[i], &count);
            allow_only(&b, ids, count);
            struct job j = make_job(&b, OPERATION_KNN);
            j.request.k = 25;
            j.request.filter_ids = (struct tensor){DTYPE_UINT64, count, 1, ids};
            run_all_ways(&b, &j, check_knn);
            free(ids);
            close_bench(&b);
        }
    }
}

/* A bitmap over ids; the collection has ids 1000 .. 1000 + rows - 1, shuffled. */
static uint8_t *make_bitmap(struct bench *b, unsigned share, uint64_t bytes, uint64_t first)
{
    unsigned seed = share;
    uint8_t *bitmap = calloc(bytes + 1, 1);
    b->allowed = calloc(b->rows, sizeof *b->allowed);
    for (uint64_t bit = 0; bit < bytes * 8; bit++) {
        if ((unsigned)rand_r(&seed) % 1000 >= share) continue;
        bitmap[bit / 8] |= (uint8_t)(1u << bit % 8);
        uint32_t row = first + bit < first
                           ? COLLECTION_NO_ROW
                           : collection_find_row(collection_now(b->collection), first + bit);
        if (row != COLLECTION_NO_ROW) b->allowed[row] = true;
    }
    return bitmap;
}

static struct bench open_dense(uint64_t queries, enum metric metric, uint64_t first_id)
{
    struct bench b = open_bench(20, 1501, queries, metric, false, 4);
    uint64_t deleted, missing;
    collection_delete(b.collection, b.ids, b.rows, &deleted, &missing);
    for (uint64_t i = 0; i < b.rows; i++)
        b.ids[i] = first_id + i * 1009 % b.rows;
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(b.collection, b.ids, b.row_data, b.rows, &counts, NULL), 0);
    return b;
}

static void check_knn_any_version(const struct bench *b, const struct job *j)
{
    struct job copy = *j;
    copy.result.version = collection_version(j->collection);
    check_knn(b, &copy);
}

Test(knn, filters_by_bitmap)
{
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        for (uint64_t at = 0; at < 3; at++) {
            uint64_t first_id = at == 2 ? UINT64_MAX - 1501 : 1000;
            struct bench b = open_dense(1 + i, metrics[at], first_id);
            struct job j = make_job(&b, OPERATION_KNN);
            uint64_t bytes = at == 1 ? 40 : 300, first = at == 1 ? 1700 : first_id - 900;
            uint8_t *bitmap = make_bitmap(&b, shares[i], bytes, first);
            j.request.k = 30;
            j.request.filter_bitmap = (struct tensor){DTYPE_UINT8, bytes, 1, bitmap};
            j.request.filter_bitmap_first = first;
            run_all_ways(&b, &j, check_knn_any_version);
            free(bitmap);
            close_bench(&b);
        }
    }
}

/* ---- similarity ---- */

static uint64_t columns_of(const struct bench *b, const struct job *j, uint64_t *rows)
{
    uint64_t count = 0;
    const struct tensor *list = &j->request.filter_ids;
    if (!list->dtype) {
        for (uint64_t row = 0; row < b->rows; row++)
            if (allowed(b, row)) rows[count++] = row;
        return count;
    }
    bool *seen = calloc(b->rows + 1, sizeof *seen);
    for (uint64_t i = 0; i < list->rows; i++) {
        uint32_t row =
            collection_find_row(collection_now(b->collection), ((uint64_t *)list->data)[i]);
        if (row == COLLECTION_NO_ROW || seen[row]) continue;
        seen[row] = true;
        rows[count++] = row;
    }
    free(seen);
    return count;
}

static void check_similarity(const struct bench *b, const struct job *j)
{
    const struct tensor *t = j->result.tensors;
    uint64_t *rows = malloc((b->rows + 1) * sizeof *rows), n = columns_of(b, j, rows);
    cr_assert(t[1].rows == b->queries && t[1].columns == n && t[1].dtype == DTYPE_FLOAT32);
    cr_assert_eq(t[2].dtype, DTYPE_NONE);
    cr_assert_eq(t[0].dtype, b->collection ? DTYPE_UINT64 : DTYPE_NONE);
    if (b->collection) cr_assert(t[0].rows == n && t[0].columns == 1);
    for (uint64_t i = 0; i < n; i++) {
        if (b->collection) cr_assert_eq(((uint64_t *)t[0].data)[i], b->ids[rows[i]]);
        for (uint64_t q = 0; q < b->queries; q++)
            cr_assert(same_bits(((float *)t[1].data)[q * n + i], score(b, q, rows[i])));
    }
    free(rows);
}

static void check_matches(const struct bench *b, const struct job *j)
{
    const struct tensor *t = j->result.tensors;
    cr_assert(t[2].rows == b->queries + 1 && t[2].dtype == DTYPE_UINT64);
    const uint64_t *offsets = t[2].data, *ids = t[0].data;
    const float *scores = t[1].data;
    cr_assert_eq(offsets[0], 0);
    cr_assert(t[0].rows == offsets[b->queries] && t[1].rows == offsets[b->queries]);
    struct topk_entry *expected = malloc((b->rows + 1) * sizeof *expected);
    for (uint64_t q = 0; q < b->queries; q++) {
        uint64_t count = rank_all(b, q, &j->request.threshold, expected);
        cr_assert_eq(offsets[q + 1] - offsets[q], count);
        for (uint64_t i = 0; i < count; i++) {
            cr_assert_eq(ids[offsets[q] + i], expected[i].id);
            cr_assert(scores[offsets[q] + i] == expected[i].score);
        }
    }
    free(expected);
}

static void similarity_case(uint32_t dimension, uint64_t rows, uint64_t queries, enum metric metric,
                            bool in_line, unsigned share)
{
    struct bench b = open_bench(dimension, rows, queries, metric, in_line, dimension);
    struct job j = make_job(&b, OPERATION_SIMILARITY);
    uint64_t count = 0, *ids = NULL;
    if (share && !in_line) {
        ids = make_filter(&b, share, &count);
        allow_only(&b, ids, count);
        j.request.filter_ids = (struct tensor){DTYPE_UINT64, count, 1, ids};
    }
    run_all_ways(&b, &j, check_similarity);
    j.request.has_threshold = true;
    j.request.threshold = metric == METRIC_COSINE ? 0.05f : 30.0f;
    run_all_ways(&b, &j, check_matches);
    free(ids);
    close_bench(&b);
}

Test(similarity, equals_the_reference)
{
    similarity_case(5, 3000, 1, METRIC_COSINE, false, 0);
    similarity_case(32, 1500, 4, METRIC_SQUARED_EUCLIDEAN, false, 0);
    similarity_case(768, 700, 9, METRIC_DOT, false, 0);
    similarity_case(3, 50, 700, METRIC_COSINE, false, 0);
    similarity_case(1025, 60, 3, METRIC_COSINE, false, 0);
    similarity_case(16, 0, 3, METRIC_COSINE, true, 0);
    similarity_case(16, 30, 0, METRIC_COSINE, true, 0);
    similarity_case(16, 30, 0, METRIC_COSINE, false, 0);
}

Test(similarity, scores_inline_rows)
{
    similarity_case(5, 3000, 1, METRIC_DOT, true, 0);
    similarity_case(768, 1000, 1, METRIC_COSINE, true, 0);
    similarity_case(100, 300, 20, METRIC_SQUARED_EUCLIDEAN, true, 0);
    similarity_case(4, 30, 900, METRIC_COSINE, true, 0);
}

Test(similarity, filters)
{
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        similarity_case(33, 1000, 1, metrics[i % 3], false, shares[i]);
        similarity_case(32, 900, 6, metrics[i % 3], false, shares[i]);
    }
    struct bench b = open_dense(3, METRIC_COSINE, 1000);
    struct job j = make_job(&b, OPERATION_SIMILARITY);
    uint8_t *bitmap = make_bitmap(&b, 600, 200, 950);
    j.request.filter_bitmap = (struct tensor){DTYPE_UINT8, 200, 1, bitmap};
    j.request.filter_bitmap_first = 950;
    run_all_ways(&b, &j, check_similarity);
    free(bitmap);
    close_bench(&b);
}
