/* The other operations against naive references, what bad input gets, and every failure in turn. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "kernels/canonical.h"
#include "kernels/topk.h"
#include "tests/support/run_job.h"

struct bench {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection;
    uint32_t dimension;
    uint64_t rows;
    uint64_t *ids;
    float *data;
};

static float *make_floats(uint64_t count, unsigned seed)
{
    float *p = aligned_alloc(64, (count * sizeof *p + 64) / 64 * 64);
    for (uint64_t i = 0; i < count; i++)
        p[i] = (float)(rand_r(&seed) % 61 - 30) / 16.0f;
    return p;
}

static struct bench open_bench(uint32_t dimension, uint64_t rows)
{
    struct bench b = {.dimension = dimension, .rows = rows};
    cr_assert_eq(heap_create(UINT64_C(1) << 28, &b.heap), STATUS_OK);
    cr_assert_eq(store_create(b.heap, vectors_variant(0), &b.store), STATUS_OK);
    cr_assert_eq(store_space(b.store, "test", &b.space), STATUS_OK);
    cr_assert_eq(store_collection_create(b.store, b.space, "c", dimension, METRIC_COSINE, NULL,
                                         &b.collection),
                 STATUS_OK);
    b.ids = malloc((rows + 1) * sizeof *b.ids);
    b.data = make_floats(rows * dimension, 11);
    for (uint64_t i = 0; i < rows; i++)
        b.ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(b.collection, b.ids, b.data, rows, &counts, NULL), STATUS_OK);
    return b;
}

static void close_bench(struct bench *b)
{
    store_destroy(b->store);
    cr_assert_eq(heap_usage(b->heap).blocks, 0);
    heap_destroy(b->heap);
    free(b->ids);
    free(b->data);
}

static struct job make_job(struct bench *b, enum operation operation, bool in_line)
{
    return (struct job){.operation = operation,
                        .space = b->space,
                        .collection = in_line ? NULL : b->collection,
                        .heap = b->heap,
                        .kernels = vectors_choose("auto"),
                        .worker_count = 3,
                        .reply_bytes_max = UINT64_C(1) << 27};
}

static struct tensor floats(const float *data, uint64_t rows, uint64_t columns)
{
    return (struct tensor){DTYPE_FLOAT32, rows, columns, (void *)data};
}

static struct tensor numbers(const uint64_t *data, uint64_t rows)
{
    return (struct tensor){DTYPE_UINT64, rows, 1, (void *)data};
}

/* Runs for several worker counts; the bytes must not differ. The last result stays. */
static void run_all_ways(struct job *j)
{
    char *first = NULL;
    uint64_t first_bytes = 0;
    for (uint32_t workers = 1; workers <= 9; workers += 4) {
        run_job_reset(j);
        j->worker_count = workers;
        cr_assert_eq(run_job(j, workers), STATUS_OK, "%s", j->failure.text);
        if (!first) {
            first_bytes = j->result.body_bytes;
            first = malloc(first_bytes + 1);
            memcpy(first, first_bytes ? j->result.block.data : first, first_bytes);
        }
        cr_assert_eq(j->result.body_bytes, first_bytes);
        cr_assert(!first_bytes || !memcmp(first, j->result.block.data, first_bytes));
    }
    free(first);
}

static void expect(struct job *j, enum status code, enum detail detail, const char *text)
{
    for (uint32_t workers = 1; workers <= 5; workers += 2) {
        j->worker_count = workers;
        uint64_t blocks = heap_usage(j->heap).blocks;
        cr_assert_eq(run_job(j, workers), code, "%s: %s", text, j->failure.text);
        cr_assert_eq(j->failure.detail, detail, "%s: %s", text, j->failure.text);
        cr_assert_not_null(strstr(j->failure.text, text), "%s: %s", text, j->failure.text);
        cr_assert_eq(heap_usage(j->heap).blocks, blocks);
        run_job_reset(j);
    }
}

static float cosine(uint32_t d, const float *a, const float *b)
{
    size_t stride = vector_stride(d);
    float *x = calloc(stride, 4), *y = calloc(stride, 4);
    memcpy(x, a, d * 4);
    memcpy(y, b, d * 4);
    float s = canonical_cosine(canonical_dot(d, x, y), canonical_norm(canonical_dot(d, x, x)),
                               canonical_norm(canonical_dot(d, y, y)));
    free(x);
    free(y);
    return s;
}

/* ---- score candidates ---- */

struct score_case {
    uint32_t dimension, k;
    uint64_t queries, list_max;
    bool in_line;
};

static void check_scores(struct bench *b, struct job *j, const uint64_t *offsets,
                         const uint32_t *rows, const float *queries)
{
    uint64_t count = j->request.queries.rows, k = j->request.k, longest = 0;
    const struct tensor *t = j->result.tensors;
    for (uint64_t q = 0; q < count; q++)
        if (offsets[q + 1] - offsets[q] > longest) longest = offsets[q + 1] - offsets[q];
    uint64_t columns = k < longest ? k : longest;
    if (k) cr_assert(t[0].rows == count && t[0].columns == columns && t[2].rows == count);
    if (!k) cr_assert(t[0].dtype == DTYPE_NONE && t[1].rows == offsets[count]);
    for (uint64_t q = 0; q < count; q++) {
        struct topk_entry best[600];
        uint64_t n = 0;
        for (uint64_t i = offsets[q]; i < offsets[q + 1]; i++) {
            float s = cosine(b->dimension, queries + q * b->dimension,
                             b->data + (size_t)rows[i] * b->dimension);
            if (!k) cr_assert_eq(memcmp((float *)t[1].data + i, &s, 4), 0);
            uint64_t id = j->collection ? b->ids[rows[i]] : i - offsets[q];
            best[n++] = (struct topk_entry){id, topk_key(s, false), s};
        }
        if (!k) continue;
        topk_sort(best, n);
        uint64_t kept = n < columns ? n : columns;
        cr_assert_eq(((uint32_t *)t[2].data)[q], kept);
        for (uint64_t i = 0; i < columns; i++) {
            uint32_t bits;
            memcpy(&bits, (float *)t[1].data + q * columns + i, 4);
            cr_assert_eq(((uint64_t *)t[0].data)[q * columns + i],
                         i < kept ? best[i].id : UINT64_MAX);
            cr_assert(i < kept ? ((float *)t[1].data)[q * columns + i] == best[i].score
                               : bits == 0x7fc00000);
        }
    }
}

static void score_case(struct score_case c)
{
    struct bench b = open_bench(c.dimension, 900);
    unsigned seed = c.dimension + c.k;
    uint64_t *offsets = malloc((c.queries + 1) * 8), n = 0;
    for (uint64_t q = 0; q < c.queries; q++) {
        offsets[q] = n;
        if (rand_r(&seed) % 4 || c.queries == 1) n += 1 + (uint64_t)rand_r(&seed) % c.list_max;
    }
    offsets[c.queries] = n;
    uint32_t *rows = malloc((n + 1) * 4);
    uint64_t *ids = malloc((n + 1) * 8);
    float *queries = make_floats(c.queries * c.dimension, 5),
          *data = make_floats(n * c.dimension, 6);
    for (uint64_t i = 0; i < n; i++) {
        rows[i] = (uint32_t)rand_r(&seed) % 900;
        ids[i] = b.ids[rows[i]];
        memcpy(data + i * c.dimension, b.data + (size_t)rows[i] * c.dimension, c.dimension * 4);
    }
    struct job j = make_job(&b, OPERATION_SCORE_CANDIDATES, c.in_line);
    j.request.queries = floats(queries, c.queries, c.dimension);
    j.request.k = c.k;
    if (c.in_line) {
        j.request.rows = floats(data, n, c.dimension);
        j.request.metric = METRIC_COSINE;
    } else {
        j.request.ids = numbers(ids, n);
    }
    if (c.queries != 1) j.request.offsets = numbers(offsets, c.queries + 1);
    run_all_ways(&j);
    check_scores(&b, &j, offsets, rows, queries);
    run_job_reset(&j);
    free(offsets);
    free(rows);
    free(ids);
    free(queries);
    free(data);
    close_bench(&b);
}

Test(score, equals_the_reference)
{
    const uint32_t dimensions[] = {3, 64, 768, 1500};
    const uint32_t ks[] = {0, 1, 10, 500};
    for (size_t d = 0; d < 4; d++)
        for (size_t k = 0; k < 4; k++)
            for (int in_line = 0; in_line < 2; in_line++) {
                score_case((struct score_case){dimensions[d], ks[k], 1, 500, in_line});
                score_case((struct score_case){dimensions[d], ks[k], 40, 60, in_line});
                score_case((struct score_case){dimensions[d], ks[k], 0, 60, in_line});
            }
    for (int in_line = 0; in_line < 2; in_line++) /* so many that the choice has parts */
        score_case((struct score_case){3, 10, 400, 500, in_line});
}

Test(score, says_what_is_wrong)
{
    struct bench b = open_bench(4, 900);
    uint64_t ids[700], offsets[4] = {0, 100, 500, 700};
    for (int i = 0; i < 700; i++)
        ids[i] = b.ids[i];
    float *queries = make_floats(12, 1);
    struct job j = make_job(&b, OPERATION_SCORE_CANDIDATES, false);
    j.request.queries = floats(queries, 3, 4);
    j.request.ids = numbers(ids, 700);
    j.request.offsets = numbers(offsets, 4);
    ids[600] = 6;
    ids[333] = 5;
    expect(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID, "no id 5 (candidate 333)");
    queries[9] = NAN;
    queries[6] = INFINITY;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "query 1: column 2");
    offsets[1] = 600;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets");
    offsets[1] = 100;
    offsets[3] = 699;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets");
    j.request.offsets = numbers(offsets, 3);
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets");
    j.request.offsets = numbers(offsets, 4);
    j.request.k = 16385;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K, "k is");
    j.request.k = 0;
    j.request.metric = 9;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC, "metric 9");
    j.request.queries.columns = 3;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "3 columns");
    free(queries);
    close_bench(&b);
}

/* ---- norms, average, fetch ---- */

Test(norms, equal_the_reference)
{
    const uint32_t dimensions[] = {1, 31, 768, 2000};
    for (size_t i = 0; i < 4; i++) {
        struct bench b = open_bench(dimensions[i], 700);
        struct job j = make_job(&b, OPERATION_NORMS, true);
        j.request.rows = floats(b.data, b.rows, b.dimension);
        run_all_ways(&j);
        cr_assert(j.result.tensors[0].rows == b.rows && j.result.tensors[0].columns == 1);
        for (uint32_t row = 0; row < b.rows; row++)
            cr_assert(((float *)j.result.tensors[0].data)[row] ==
                      collection_norm(b.collection, row));
        run_job_reset(&j);
        b.data[600 * dimensions[i]] = 1e30f;
        b.data[300 * dimensions[i]] = NAN;
        expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "row 300: column 0");
        b.data[300 * dimensions[i]] = 0;
        expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW, "row 600");
        j.request.rows.rows = 0;
        run_all_ways(&j);
        cr_assert_eq(j.result.body_bytes, 0);
        run_job_reset(&j);
        close_bench(&b);
    }
}

static void check_average(struct job *j, const struct bench *b, const float *weights)
{
    const float *out = j->result.tensors[0].data;
    float total = 0;
    for (uint64_t i = 0; i < b->rows; i++)
        total += weights[i];
    for (uint32_t c = 0; c < b->dimension; c++) {
        float sum = 0;
        for (uint64_t i = 0; i < b->rows; i++)
            sum = fmaf(weights[i], b->data[i * b->dimension + c], sum);
        float expected = total == 0 ? 0 : sum / total;
        cr_assert_eq(memcmp(&out[c], &expected, 4), 0);
    }
}

Test(average, equals_the_reference)
{
    const uint32_t dimensions[] = {1, 33, 768, 1333};
    for (size_t i = 0; i < 4; i++) {
        for (int in_line = 0; in_line < 2; in_line++) {
            struct bench b = open_bench(dimensions[i], 800);
            float *weights = make_floats(b.rows, 77);
            struct job j = make_job(&b, OPERATION_WEIGHTED_AVERAGE, in_line);
            j.request.weights = floats(weights, b.rows, 1);
            if (in_line)
                j.request.rows = floats(b.data, b.rows, b.dimension);
            else
                j.request.ids = numbers(b.ids, b.rows);
            run_all_ways(&j);
            check_average(&j, &b, weights);
            for (uint64_t r = 0; r < b.rows; r++)
                weights[r] = r % 2 ? 1.0f : -1.0f;
            run_all_ways(&j);
            check_average(&j, &b, weights);
            run_job_reset(&j);

            weights[5] = INFINITY;
            expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "weight 5");
            weights[5] = 0;
            if (in_line) {
                b.data[700 * b.dimension] = NAN;
                expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "row 700: column 0");
            } else {
                b.ids[700] = 1;
                expect(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID, "no id 1 (row 700)");
            }
            j.request.weights.rows = 3;
            expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE, "3 weights");
            j.request.weights.rows = j.request.rows.rows = j.request.ids.rows = 0;
            run_all_ways(&j);
            for (uint32_t c = 0; c < b.dimension; c++)
                cr_assert_eq(((float *)j.result.tensors[0].data)[c], 0);
            run_job_reset(&j);
            free(weights);
            close_bench(&b);
        }
    }
}

Test(fetch, gives_rows_back)
{
    struct bench b = open_bench(100, 3000);
    struct job j = make_job(&b, OPERATION_FETCH, false);
    uint64_t ids[2000];
    for (uint64_t i = 0; i < 2000; i++)
        ids[i] = i % 3 ? b.ids[i * 31 % 3000] : i + 1;
    j.request.ids = numbers(ids, 2000);
    run_all_ways(&j);
    const struct tensor *t = j.result.tensors;
    cr_assert_eq(j.result.counts[0], 667);
    cr_assert_eq(memcmp(t[0].data, ids, sizeof ids), 0);
    float zeros[100] = {0};
    for (uint64_t i = 0; i < 2000; i++) {
        cr_assert_eq(((uint8_t *)t[1].data)[i], i % 3 != 0);
        cr_assert_eq(
            memcmp((float *)t[2].data + i * 100, i % 3 ? b.data + i * 31 % 3000 * 100 : zeros, 400),
            0);
    }
    run_job_reset(&j);

    j.request.ids = (struct tensor){0};
    j.request.offset = 100;
    j.request.limit = 2950;
    run_all_ways(&j);
    cr_assert(t[0].rows == 2900 && t[2].columns == 100 && j.result.counts[0] == 0);
    cr_assert_eq(memcmp(t[0].data, b.ids + 100, 2900 * 8), 0);
    cr_assert_eq(memcmp(t[2].data, b.data + 10000, 2900 * 400), 0);
    run_job_reset(&j);
    j.request.offset = UINT64_MAX;
    j.request.limit = UINT64_MAX;
    run_all_ways(&j);
    cr_assert_eq(t[0].rows, 0);
    run_job_reset(&j);
    j.request.offset = 0;
    j.reply_bytes_max = 100000;
    expect(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE, "100000 bytes");
    close_bench(&b);
}

/* ---- upsert, delete, drop ---- */

Test(mutate, changes_the_collection)
{
    struct bench b = open_bench(6, 500);
    struct job j = make_job(&b, OPERATION_UPSERT, false);
    uint64_t ids[3] = {b.ids[4], 1, 2};
    float *rows = make_floats(18, 3);
    j.request.ids = numbers(ids, 3);
    j.request.rows = floats(rows, 3, 6);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert(j.result.counts[0] == 2 && j.result.counts[1] == 1);
    cr_assert(j.result.rows == 502 && j.result.version == 2);
    run_job_reset(&j);
    rows[17] = NAN;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "row 2 (id 2): column 5");
    j.request.ids.rows = 2;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE, "2 ids for 3 rows");
    j.request.rows.columns = 7;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "7 columns");

    j = make_job(&b, OPERATION_DELETE, false);
    ids[1] = 99;
    j.request.ids = numbers(ids, 3);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert(j.result.counts[0] == 2 && j.result.counts[1] == 1);
    cr_assert(j.result.rows == 500 && j.result.version == 3);

    j = make_job(&b, OPERATION_COLLECTION_DROP, false);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert_eq(j.result.counts[0], 500);
    cr_assert_eq(heap_usage(b.heap).blocks, 0);
    store_collection_unlink(b.store, b.space, b.collection);
    collection_destroy(b.collection);
    cr_assert_eq(space_row_count(b.space), 0);
    free(rows);
    close_bench(&b);
}

/* ---- what bad questions get, cancelling, failures ---- */

Test(operations, refuse_bad_questions)
{
    struct bench b = open_bench(4, 3000);
    const uint64_t n = 1200;
    float *queries = make_floats(n * 4, 1);
    uint8_t bitmap[8] = {0};
    struct job j = make_job(&b, OPERATION_KNN, false);
    j.request.queries = floats(queries, n, 4);
    j.request.k = 3;
    queries[1100 * 4 + 2] = NAN;
    queries[300 * 4 + 1] = 2e19f;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW, "query 300:");
    j.operation = OPERATION_SIMILARITY;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW, "query 300:");
    j.request.has_threshold = true;
    j.request.threshold = 2;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW, "query 300:");
    j.request.threshold = NAN;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD, "threshold");
    j.operation = OPERATION_KNN;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD, "threshold");
    j.request.has_threshold = false;
    j.request.k = 0;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K, "not 0");
    j.request.k = 16385;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K, "not 16385");
    j.request.k = 1;
    j.request.filter_ids = numbers(b.ids, 5);
    j.request.filter_bitmap = (struct tensor){DTYPE_UINT8, 8, 1, bitmap};
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_FILTER, "not both");
    j.request.queries.columns = 5;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "dimension is 4");

    /* Replies past the limit; threshold matches too, which only running tells. */
    j = make_job(&b, OPERATION_SIMILARITY, false);
    j.request.queries = floats(queries, 300, 4);
    j.reply_bytes_max = 1 << 20;
    expect(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE, "1048576 bytes");
    j.request.has_threshold = true;
    j.request.threshold = -1;
    expect(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE, "1048576 bytes");
    j.request.queries.rows = UINT64_MAX / 8;
    j.request.has_threshold = false;
    expect(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE, "1048576 bytes");

    /* Inline rows: the first bad one is named whatever the split. */
    j = make_job(&b, OPERATION_SIMILARITY, true);
    j.request.metric = METRIC_DOT;
    j.request.queries = floats(queries, 2, 4);
    j.request.rows = floats(b.data, b.rows, 4);
    b.data[2900 * 4] = NAN;
    b.data[1500 * 4 + 3] = INFINITY;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "row 1500: column 3");
    j.request.metric = 0;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC, "must be given");
    free(queries);
    close_bench(&b);
}

/* One job of each kind, with filters, thresholds and k. */
static struct job sample(struct bench *b, int which, float *queries, uint64_t *ids,
                         uint64_t *offsets)
{
    static const enum operation kinds[] = {OPERATION_KNN,
                                           OPERATION_KNN,
                                           OPERATION_KNN,
                                           OPERATION_SIMILARITY,
                                           OPERATION_SIMILARITY,
                                           OPERATION_SIMILARITY,
                                           OPERATION_SCORE_CANDIDATES,
                                           OPERATION_SCORE_CANDIDATES,
                                           OPERATION_NORMS,
                                           OPERATION_WEIGHTED_AVERAGE,
                                           OPERATION_FETCH};
    bool in_line = which == 5 || which == 7 || which == 8;
    struct job j = make_job(b, kinds[which], in_line);
    uint64_t n = which == 2 ? 900 : 3;
    j.request.queries = floats(queries, n, b->dimension);
    j.request.k = 10;
    j.request.metric = in_line ? METRIC_DOT : 0;
    if (in_line) j.request.rows = floats(b->data, b->rows, b->dimension);
    if (which == 1 || which == 4) j.request.filter_ids = numbers(ids, 400);
    if (which == 3 || which == 5) {
        j.request.has_threshold = true;
        j.request.threshold = 0.01f;
    }
    offsets[3] = which == 7 ? b->rows : 400;
    if (which == 6 || which == 7) j.request.offsets = numbers(offsets, 4);
    if (which == 6 || which == 9 || which == 10) j.request.ids = numbers(ids, 400);
    if (which == 9) j.request.weights = floats(queries, 400, 1);
    return j;
}

enum { SAMPLES = 11 };

Test(operations, every_failure_leaves_nothing_behind)
{
    struct bench b = open_bench(8, 3000);
    float *queries = make_floats(900 * 8, 9);
    uint64_t ids[400], offsets[4] = {0, 10, 250, 0};
    for (int i = 0; i < 400; i++)
        ids[i] = b.ids[i * 7];
    uint64_t blocks = heap_usage(b.heap).blocks;
    for (int which = 0; which < SAMPLES; which++) {
        for (uint32_t nth = 1;; nth++) {
            struct job j = sample(&b, which, queries, ids, offsets);
            fault_arm(nth);
            enum status st = run_job(&j, nth);
            bool fired = fault_fired() != NULL;
            fault_arm(0);
            cr_assert_eq(st, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK, "%d: %s", which,
                         j.failure.text);
            if (fired) cr_assert_eq(j.failure.detail, DETAIL_MEMORY);
            run_job_reset(&j);
            cr_assert_eq(heap_usage(b.heap).blocks, blocks);
            if (!fired) break;
            cr_assert(nth < 100);
        }
    }
    free(queries);
    close_bench(&b);
}

Test(operations, may_be_cancelled_at_any_time)
{
    struct bench b = open_bench(8, 3000);
    float *queries = make_floats(900 * 8, 9);
    uint64_t ids[400], offsets[4] = {0, 10, 250, 0};
    for (int i = 0; i < 400; i++)
        ids[i] = b.ids[i * 7];
    uint64_t blocks = heap_usage(b.heap).blocks;
    for (int which = 0; which < SAMPLES; which++) {
        for (int with_prepare = 0; with_prepare < 2; with_prepare++) {
            struct job j = sample(&b, which, queries, ids, offsets);
            cr_assert_eq(operation_find(j.operation)->plan(&j), STATUS_OK);
            if (with_prepare && j.plan.prepare) cr_assert_eq(j.plan.prepare(&j), STATUS_OK);
            atomic_store(&j.cancelled, true);
            if (with_prepare) j.plan.run_part(&j, 0, 0);
            j.plan.finish(&j);
            heap_give(b.heap, &j.plan.scratch);
            run_job_reset(&j);
            cr_assert_eq(heap_usage(b.heap).blocks, blocks);
        }
    }
    cr_assert_null(operation_find(OPERATION_PING));
    free(queries);
    close_bench(&b);
}
