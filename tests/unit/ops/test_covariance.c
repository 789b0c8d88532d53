/* covariance: the same bits whoever asks and however rows and tiles are shared out, as
 * kernels/covariance.h says; which rows, in which order; what bad input gets. */
#include <math.h>

#include "daemon/base/fault.h"
#include "tests/kernels/covariance_reference.h"
#include "tests/unit/ops/ops_bench.h"

static struct job job_on(struct bench *b, bool in_line)
{
    struct job j = make_job(b, OPERATION_COVARIANCE, in_line);
    j.ops = operation_find(OPERATION_COVARIANCE);
    if (in_line)
        j.request.rows = floats(b->data, b->rows, b->dimension);
    else
        strcpy(j.request.names[0], "c");
    return j;
}

/* Rows next to each other, in the order in which a covariance takes them. */
static struct covariance_input gather(const struct bench *b, const uint64_t *order, uint64_t count,
                                      const float *weights, float *to)
{
    uint32_t d = b->dimension;
    for (uint64_t i = 0; i < count; i++)
        memcpy(to + i * d, b->data + order[i] * d, d * sizeof *to);
    return (struct covariance_input){to, weights, d, count, d};
}

static const struct bench *sorted_bench;

static int by_id(const void *a, const void *b)
{
    uint64_t x = sorted_bench->ids[*(const uint64_t *)a];
    uint64_t y = sorted_bench->ids[*(const uint64_t *)b];
    return x < y ? -1 : x > y;
}

static void assert_result(const struct job *j, const struct covariance_input *rows)
{
    struct covariance_expected e = covariance_expect(rows);
    const struct tensor *mean = &j->result.tensors[RESULT_COVARIANCE_MEAN];
    const struct tensor *all = &j->result.tensors[RESULT_COVARIANCE_COVARIANCE];
    size_t d = rows->dimension;
    cr_assert(mean->rows == 1 && mean->columns == d && mean->dtype == DTYPE_FLOAT64);
    cr_assert(all->rows == d && all->columns == d && all->dtype == DTYPE_FLOAT64);
    cr_assert_eq(memcmp(mean->data, e.mean, d * sizeof(double)), 0);
    cr_assert_eq(memcmp(all->data, e.covariance, d * d * sizeof(double)), 0);
    cr_assert(j->result.totals[0] == e.total && j->result.totals[1] == e.divisor);
    cr_assert_eq(j->result.counts[0], rows->count);
    covariance_expected_destroy(&e);
}

static void run_and_assert(struct job *j, const struct covariance_input *rows)
{
    cr_assert_eq(operation_check(j), STATUS_OK, "%s", j->failure.text);
    run_all_ways(j);
    assert_result(j, rows);
    run_job_reset(j);
}

/* Inline; all of a collection, whose rows were not stored in the order of their ids; and some of
 * them, one twice; without and with weights. */
static void assert_forms(uint32_t dimension, uint64_t rows)
{
    struct bench b = open_bench(dimension, rows);
    uint64_t *order = malloc(rows * sizeof *order), *some = malloc(rows * sizeof *some);
    float *weights = make_floats(rows, 5), *to = make_floats(rows * dimension, 1);
    for (uint64_t i = 0; i < rows; i++)
        weights[i] = fabsf(weights[i]) + (i % 7 == 2 ? 0.0f : 0.125f);
    for (int weighted = 0; weighted < 2; weighted++) {
        const float *w = weighted ? weights : NULL;
        struct job j = job_on(&b, true);
        if (w) j.request.weights = floats(w, rows, 1);
        for (uint64_t i = 0; i < rows; i++)
            order[i] = i;
        struct covariance_input r = gather(&b, order, rows, w, to);
        run_and_assert(&j, &r);

        j = job_on(&b, false);
        if (w) j.request.weights = floats(w, rows, 1);
        sorted_bench = &b;
        qsort(order, rows, sizeof *order, by_id);
        r = gather(&b, order, rows, w, to);
        run_and_assert(&j, &r);

        uint64_t count = rows / 2 + 2;
        for (uint64_t i = 0; i < count; i++) {
            order[i] = i == 1 ? order[0] : (i * 7 + 3) % rows;
            some[i] = b.ids[order[i]];
        }
        j = job_on(&b, false);
        j.request.ids = numbers(some, count);
        if (w) j.request.weights = floats(w, count, 1);
        r = gather(&b, order, count, w, to);
        run_and_assert(&j, &r);
    }
    free(order), free(some), free(weights), free(to);
    close_bench(&b);
}

Test(covariance, equals_the_definition, .timeout = 300)
{
    assert_forms(1, 3);
    assert_forms(24, 90);
    assert_forms(7, 9000);
    assert_forms(40, 4097);
    assert_forms(300, 50);
    assert_forms(5, 70000);
}

/* Deletions move rows, which is not seen. */
Test(covariance, does_not_depend_on_what_was_deleted)
{
    enum { D = 9, ROWS = 5000 };
    struct bench a = open_bench(D, ROWS), b = open_bench(D, ROWS);
    uint64_t deleted, missing, extra[3] = {1, 2, 3};
    float *rows = make_floats(3 * D, 8);
    struct upsert_counts counts;
    collection_delete(b.collection, b.ids, 100, &deleted, &missing);
    collection_upsert(b.collection, extra, rows, 3, &counts, NULL);
    collection_upsert(b.collection, b.ids, b.data, 100, &counts, NULL);
    collection_delete(b.collection, extra, 3, &deleted, &missing);
    struct job j = job_on(&a, false), k = job_on(&b, false);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert_eq(run_job(&k, 2), STATUS_OK);
    cr_assert_eq(j.result.body_bytes, k.result.body_bytes);
    cr_assert_eq(memcmp(j.result.block.data, k.result.block.data, j.result.body_bytes), 0);
    run_job_reset(&j), run_job_reset(&k);
    free(rows);
    close_bench(&a), close_bench(&b);
}

static void expect_check(struct job *j, enum detail detail, const char *text)
{
    cr_assert_eq(operation_check(j), STATUS_INVALID_ARGUMENT, "%s", text);
    cr_assert_eq(j->failure.detail, detail, "%s", j->failure.text);
    cr_assert_not_null(strstr(j->failure.text, text), "%s", j->failure.text);
    run_job_reset(j);
}

Test(covariance, requests_that_are_wrong_by_themselves)
{
    struct bench b = open_bench(4, 5);
    uint64_t ids[2] = {b.ids[0], b.ids[1]};
    struct job j = job_on(&b, true);
    j.request.rows.rows = 1;
    expect_check(&j, DETAIL_BAD_SHAPE, "rows: 1, a covariance needs 2 rows or more");
    j.request.rows.rows = 5;
    j.request.weights = floats(b.data, 4, 1);
    expect_check(&j, DETAIL_BAD_SHAPE, "weights: 4 rows, rows have 5");
    j.request.ids = numbers(ids, 2);
    expect_check(&j, DETAIL_BAD_SHAPE, "ids: inline rows and ids exclude each other");
    strcpy(j.request.names[0], "c");
    expect_check(&j, DETAIL_BAD_SHAPE, "exclude each other");
    j = job_on(&b, false);
    j.request.ids = numbers(ids, 0);
    expect_check(&j, DETAIL_BAD_SHAPE, "ids: 0, a covariance needs");
    j.request.ids = numbers(ids, 2);
    j.request.weights = floats(b.data, 3, 1);
    expect_check(&j, DETAIL_BAD_SHAPE, "weights: 3 rows, ids have 2");
    j = job_on(&b, false);
    j.request.names[0][0] = 0;
    expect_check(&j, DETAIL_BAD_NAME, "collection: empty");
    close_bench(&b);
}

Test(covariance, weights_that_are_wrong)
{
    struct bench b = open_bench(4, 5);
    float weights[5] = {1, 1, 1, 1, 1};
    struct job j = job_on(&b, false);
    j.request.weights = floats(weights, 4, 1);
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE, "weights: 4 rows, c has 5");
    j.request.weights = floats(weights, 5, 1);
    weights[3] = -0.5f;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT, "weight 3 is -0.5, 0 or more wanted");
    weights[3] = NAN;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "weight 3 is not a finite number");
    weights[3] = INFINITY;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "weight 3 is not a finite number");
    memset(weights, 0, sizeof weights);
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT, "weights: all are 0");
    weights[1] = 2;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT, "leaves no divisor");
    weights[0] = 1e-30f;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT, "next to nothing");
    weights[0] = 1;
    cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
    run_job_reset(&j);
    close_bench(&b);
}

Test(covariance, rows_that_are_wrong)
{
    struct bench b = open_bench(4, 5), one = open_bench(4, 1), none = open_bench(4, 0);
    struct job j = job_on(&b, false);
    uint64_t ids[3] = {b.ids[0], 12345, b.ids[1]};
    j.request.ids = numbers(ids, 3);
    expect(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID, "there is no id 12345 (row 1)");
    j = job_on(&one, false);
    expect(&j, STATUS_FAILED_PRECONDITION, DETAIL_NO_ROWS, "c has 1 row, a covariance needs 2");
    j = job_on(&none, false);
    expect(&j, STATUS_FAILED_PRECONDITION, DETAIL_NO_ROWS, "c has 0 rows, a covariance needs 2");
    j = job_on(&b, true);
    b.data[13] = INFINITY;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "row 3");
    b.data[13] = 3e38f;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW, "row 3");
    j = job_on(&b, false);
    j.reply_bytes_max = 159;
    expect(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE,
           "the covariance of 4 dimensions is 160 bytes, more than the limit of 159");
    close_bench(&b), close_bench(&one), close_bench(&none);
}

Test(covariance, cancelled_between_parts)
{
    struct bench b = open_bench(30, 9000);
    struct job j = job_on(&b, false);
    atomic_store(&j.cancelled, true);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert_null(j.result.block.data);
    run_job_reset(&j);
    close_bench(&b);
}

Test(covariance, each_failure_gives_everything_back)
{
    struct bench b = open_bench(30, 300);
    for (uint32_t nth = 1;; nth++) {
        struct job j = job_on(&b, false);
        uint64_t blocks = heap_usage(b.heap).blocks;
        fault_arm(nth);
        enum status st = run_job(&j, 1);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert_eq(st, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK, "%s", j.failure.text);
        run_job_reset(&j);
        cr_assert_eq(heap_usage(b.heap).blocks, blocks);
        if (!fired) break;
    }
    close_bench(&b);
}

Test(covariance, work_in_numbers)
{
    struct bench b = open_bench(30, 300);
    struct job j = job_on(&b, false);
    struct work w = operation_work(&j);
    cr_assert(w.rows == 300 && w.queries == 1 && w.pairs == 300 * 16 && w.stride == 32);
    cr_assert_eq(w.bytes_out, 31 * 30 * 8);
    uint64_t ids[2] = {b.ids[0], b.ids[1]};
    j.request.ids = numbers(ids, 2);
    cr_assert_eq(operation_work(&j).rows, 2);
    close_bench(&b);
}
