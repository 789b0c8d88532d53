/* Norms, averages, fetches and changes against naive references, what bad input gets, and every
 * failure in turn. */
#include <math.h>

#include "daemon/base/fault.h"
#include "kernels/canonical.h"
#include "tests/unit/ops/ops_bench.h"

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
                      collection_norm(collection_now(b.collection), row));
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

/* As the pipeline lets a writer in, and what it wrote be seen. */
static struct job make_writer(struct bench *b, enum operation operation)
{
    struct job j = make_job(b, operation, false);
    j.writer = true;
    cr_assert(j.resident->ops->begin(&j.objects[0]));
    return j;
}

static void let_go(struct job *j)
{
    j->resident->ops->end(&j->objects[0]);
}

Test(mutate, changes_the_collection)
{
    struct bench b = open_bench(6, 500);
    struct job j = make_writer(&b, OPERATION_UPSERT);
    uint64_t ids[3] = {b.ids[4], 1, 2};
    float *rows = make_floats(18, 3);
    j.request.ids = numbers(ids, 3);
    j.request.rows = floats(rows, 3, 6);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert(j.result.counts[0] == 2 && j.result.counts[1] == 1);
    cr_assert(j.result.rows == 502 && j.result.version == 3);
    let_go(&j);
    run_job_reset(&j);
    j = make_writer(&b, OPERATION_UPSERT);
    j.request.ids = numbers(ids, 3);
    j.request.rows = floats(rows, 3, 6);
    rows[17] = NAN;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "row 2 (id 2): column 5");
    j.request.ids.rows = 2;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE, "2 ids for 3 rows");
    j.request.rows.columns = 7;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "7 columns");

    let_go(&j);
    j = make_writer(&b, OPERATION_DELETE);
    ids[1] = 99;
    j.request.ids = numbers(ids, 3);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert(j.result.counts[0] == 2 && j.result.counts[1] == 1);
    cr_assert(j.result.rows == 500 && j.result.version == 4);
    let_go(&j);

    j = make_writer(&b, OPERATION_COLLECTION_DROP);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert_eq(j.result.counts[0], 500);
    let_go(&j);
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
