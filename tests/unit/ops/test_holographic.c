/* unbind, bind_many, superpose, permute and random: what the kernels give, whoever asks and however
 * it is cut, and what bad input gets. Operands and results that all of them share are
 * test_bind's. */
#include <math.h>

#include "daemon/base/fault.h"
#include "daemon/ops/check.h"
#include "daemon/ops/hrr_plans.h"
#include "kernels/random.h"
#include "kernels/superpose.h"
#include "tests/unit/ops/ops_bench.h"

enum { D = 24, N = 700 };

static struct bench b;
static float *rows, *others;

static void begin(void)
{
    b = open_bench(D, 10);
    rows = make_floats(N * D, 5);
    others = make_floats(N * D, 6);
}

static void end(void)
{
    free(rows);
    free(others);
    close_bench(&b);
}

TestSuite(holographic, .init = begin, .fini = end);

static struct job job_on(enum operation operation)
{
    struct job j = make_job(&b, operation, true);
    j.ops = operation_find(operation);
    j.request.rows = floats(rows, N, D);
    return j;
}

static const float *result(const struct job *j, uint64_t i)
{
    const struct tensor *t = &j->result.tensors[RESULT_HOLOGRAPHIC_ROWS];
    return (const float *)t->data + i * t->columns;
}

static void ask(struct job *j, uint64_t results)
{
    cr_assert_eq(operation_check(j), STATUS_OK, "%s", j->failure.text);
    run_all_ways(j);
    cr_assert_eq(j->result.tensors[RESULT_HOLOGRAPHIC_ROWS].rows, results);
}

static void refuse(struct job *j, enum detail detail, const char *text)
{
    memset(&j->failure, 0, sizeof j->failure);
    cr_assert_eq(operation_check(j), STATUS_INVALID_ARGUMENT, "%s", text);
    cr_assert_eq(j->failure.detail, detail, "%s", j->failure.text);
    cr_assert_not_null(strstr(j->failure.text, text), "%s: %s", text, j->failure.text);
    memset(&j->failure, 0, sizeof j->failure);
}

/* ---------------------------------------------------------------- unbind, bind_many */

static void expect_pairs(const struct job *j, enum hrr_form form)
{
    const struct hrr_plan *plan = hrr_plans_take(D);
    void *scratch = aligned_alloc(64, hrr_scratch_bytes(D));
    float out[D];
    for (uint64_t i = 0; i < N; i++) {
        const float *left = rows + i * D, *right = others + i * D;
        struct hrr_pairs pairs = {plan, scratch, form, &left, &right, 1, out, D};
        cr_assert_eq(hrr_choose("scalar")->pairs(&pairs).status, HRR_OK);
        cr_assert_eq(memcmp(result(j, i), out, sizeof out), 0, "%d", (int)i);
    }
    hrr_plans_give(plan);
    free(scratch);
}

Test(holographic, unbinds)
{
    struct job j = job_on(OPERATION_UNBIND);
    for (int i = 0; i < N; i++)
        others[i * D + i % D] += 100; /* no zero in their spectra */
    j.request.other_rows = floats(others, N, D);
    ask(&j, N);
    expect_pairs(&j, HRR_UNBIND);
    run_job_reset(&j);
    j.request.exact = true;
    ask(&j, N);
    expect_pairs(&j, HRR_UNBIND_EXACT);
    run_job_reset(&j);
    for (int i = 0; i < D; i++)
        others[600 * D + i] = 1; /* all of its spectrum is 0 but one */
    expect(&j, STATUS_FAILED_PRECONDITION, DETAIL_NO_INVERSE,
           "pair 600: b has no exact inverse: its spectrum is 0 at 1");
    j.request.rows = floats(rows, 3, 7);
    j.request.other_rows = floats(others, 3, 7);
    expect(&j, STATUS_FAILED_PRECONDITION, DETAIL_NO_INVERSE, "no spectrum of 7 dimensions");
}

/* The run of one list of all rows stops between two of them, and leaves no result. */
Test(holographic, a_long_list_can_be_cancelled)
{
    struct job j = job_on(OPERATION_BIND_MANY);
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.ops->plan(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.plan.prepare(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.plan.parts, 1);
    atomic_store(&j.cancelled, true);
    j.plan.run_part(&j, 0, 0);
    cr_assert(atomic_load(&j.skipped));
    j.plan.finish(&j);
    cr_assert_eq(j.failure.code, STATUS_OK, "%s", j.failure.text);
    cr_assert_null(j.result.block.data);
    atomic_store(&j.cancelled, false);
    heap_give(j.heap, &j.plan.scratch);
}

Test(holographic, binds_lists)
{
    enum { LISTS = 200 };
    uint64_t offsets[LISTS + 1] = {0};
    for (uint64_t i = 1; i < LISTS; i++)
        offsets[i] = offsets[i - 1] + 1 + i % 5;
    offsets[LISTS] = N;
    memset(rows + offsets[LISTS - 1] * D, 0, (N - offsets[LISTS - 1]) * D * 4);
    struct job j = job_on(OPERATION_BIND_MANY);
    j.request.offsets = numbers(offsets, LISTS + 1);
    ask(&j, LISTS);
    const struct hrr_plan *plan = hrr_plans_take(D);
    void *scratch = aligned_alloc(64, hrr_scratch_bytes(D));
    float out[D];
    for (uint64_t i = 0; i < LISTS; i++) {
        const float *list[N];
        uint64_t n = offsets[i + 1] - offsets[i];
        for (uint64_t k = 0; k < n; k++)
            list[k] = rows + (offsets[i] + k) * D;
        struct hrr_product product = {
            .plan = plan, .scratch = scratch, .rows = list, .count = n, .out = out};
        cr_assert_eq(hrr_choose("scalar")->many(&product).status, HRR_OK);
        cr_assert_eq(memcmp(result(&j, i), out, sizeof out), 0, "%d", (int)i);
    }
    hrr_plans_give(plan);
    free(scratch);
    run_job_reset(&j);
    rows[650 * D + 2] = NAN;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "a: row 650: column 2");
    j.request.offsets.rows = 1;
    refuse(&j, DETAIL_BAD_OFFSETS, "no list");
    offsets[3] = offsets[4];
    j.request.offsets.rows = LISTS + 1;
    refuse(&j, DETAIL_BAD_OFFSETS, "list 3 is empty");
    offsets[LISTS] = N - 1;
    refuse(&j, DETAIL_BAD_OFFSETS, "the last is 699");
}

/* ---------------------------------------------------------------- superpose */

static void expect_sums(const struct job *j, const float *from, uint32_t d, const float *weights,
                        const uint64_t *offsets, uint64_t lists, uint64_t most)
{
    const float **pointers = malloc(offsets[lists] * sizeof *pointers);
    size_t stride = vector_stride(d);
    float *sum = aligned_alloc(64, stride * 4);
    float *scratch = aligned_alloc(64, (superpose_scratch(d, most) + stride) * 4);
    for (uint64_t i = 0; i < offsets[lists]; i++)
        pointers[i] = from + i * d;
    for (uint64_t i = 0; i < lists; i++) {
        struct superpose_lists list = {pointers, weights, offsets + i, 1};
        superpose_choose("scalar")->sums(d, &list, scratch, sum);
        cr_assert_eq(memcmp(result(j, i), sum, d * 4), 0, "%d", (int)i);
    }
    free(pointers);
    free(sum);
    free(scratch);
}

Test(holographic, superposes)
{
    uint64_t offsets[4] = {0, 1, 300, N};
    struct job j = job_on(OPERATION_SUPERPOSE);
    j.request.offsets = numbers(offsets, 4);
    ask(&j, 3);
    expect_sums(&j, rows, D, NULL, offsets, 3, N);
    run_job_reset(&j);
    j.request.weights = floats(others, N, 1);
    ask(&j, 3);
    expect_sums(&j, rows, D, others, offsets, 3, N);
    run_job_reset(&j);
    j.request.normalize = true;
    ask(&j, 3);
    for (uint64_t i = 0; i < 3; i++) {
        double sum = 0;
        for (int c = 0; c < D; c++)
            sum += (double)result(&j, i)[c] * (double)result(&j, i)[c];
        cr_assert_float_eq(sum, 1, 1e-6);
    }
    run_job_reset(&j);
    j.request.weights.rows = N - 1;
    refuse(&j, DETAIL_BAD_SHAPE, "weights: 699 rows, a have 700");
    j.request.weights.rows = N;
    others[5] = INFINITY;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "weight 5");
    others[5] = 3e38F;
    rows[5 * D] = 3e18F;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "result 1: column 0");
}

/* One list that is summed in many pieces. */
Test(holographic, superposes_a_long_list)
{
    enum { LONG = 5000, WIDE = 1024 };
    uint64_t offsets[2] = {0, LONG};
    float *many = make_floats((uint64_t)LONG * WIDE, 3);
    struct job j = job_on(OPERATION_SUPERPOSE);
    j.request.rows = floats(many, LONG, WIDE);
    ask(&j, 1);
    expect_sums(&j, many, WIDE, NULL, offsets, 1, LONG);
    run_job_reset(&j);
    free(many);
}

/* So many that a worker checks them. */
Test(holographic, refuses_long_lists)
{
    enum { LISTS = CHECK_OFFSETS_MAX + 3 };
    uint64_t *offsets = malloc((LISTS + 1) * sizeof *offsets);
    float *many = make_floats(LISTS + 1, 3);
    struct job j = job_on(OPERATION_SUPERPOSE);
    j.request.rows = floats(many, LISTS, 1);
    j.request.offsets = numbers(offsets, LISTS + 1);
    for (uint64_t i = 0; i <= LISTS; i++)
        offsets[i] = i;
    ask(&j, LISTS);
    cr_assert_eq(memcmp(result(&j, 0), many, LISTS * sizeof *many), 0);
    run_job_reset(&j);
    offsets[9000] = 9001;
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets: list 9000 is empty");
    offsets[9000] = 9002;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
           "offsets: number 9001 goes back from 9002 to 9001");
    offsets[9000] = 9000;
    j.request.rows.rows = LISTS + 1;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
           "offsets: the last is 16387, 16388 rows given");
    free(offsets);
    free(many);
}

/* ---------------------------------------------------------------- permute, random */

Test(holographic, permutes)
{
    static const int64_t shifts[] = {0, 1, -1, D, 5 * D + 7, INT64_MIN, INT64_MAX};
    struct job j = job_on(OPERATION_PERMUTE);
    for (size_t k = 0; k < sizeof shifts / sizeof *shifts; k++) {
        j.request.shift = shifts[k];
        ask(&j, N);
        for (uint64_t i = 0; i < N; i++)
            for (int c = 0; c < D; c++) {
                int to = (int)(((__int128)c + shifts[k]) % D + D) % D;
                cr_assert_eq(result(&j, i)[to], rows[i * D + (uint64_t)c]);
            }
        run_job_reset(&j);
    }
}

Test(holographic, makes_rows_that_a_seed_names)
{
    enum { WIDE = 50, STRIDE = 64 };
    struct job j = job_on(OPERATION_RANDOM);
    static _Alignas(64) float want[STRIDE];
    float norm;
    j.request.rows = (struct tensor){0};
    j.request.seed = 99;
    j.request.offset = UINT64_C(1) << 40;
    j.request.limit = 3000;
    j.request.dimension = WIDE;
    for (int unit = 0; unit < 2; unit++) {
        j.request.normalize = unit;
        ask(&j, 3000);
        for (uint64_t i = 0; i < 3000; i++) {
            random_choose("scalar")->normal(99, WIDE, j.request.offset + i, 1, want);
            vectors_scalar.norms(WIDE, want, 1, &norm);
            if (unit) vectors_scalar.normalize(WIDE, want, &norm, 1);
            cr_assert_eq(memcmp(result(&j, i), want, WIDE * 4), 0, "%d", (int)i);
        }
        run_job_reset(&j);
    }
    j.request.dimension = 16385;
    refuse(&j, DETAIL_BAD_DIMENSION, "dimension: 16385");
    j.request.dimension = 1;
    j.request.limit = 0;
    refuse(&j, DETAIL_BAD_SHAPE, "count: 0");
}

/* ---------------------------------------------------------------- cleanup */

/* What unbind gives, asked of the codebook as kNN is asked. */
Test(holographic, cleans_up)
{
    struct job unbind = job_on(OPERATION_UNBIND), knn = job_on(OPERATION_KNN);
    unbind.request.rows.rows = 40;
    unbind.request.other_rows = floats(others, 40, D);
    ask(&unbind, 40);
    knn.resident = collection_resident(b.collection);
    knn.collection = collection_now(b.collection);
    knn.request.rows = (struct tensor){0};
    knn.request.queries = floats(result(&unbind, 0), 40, D);
    knn.request.k = 3;
    run_all_ways(&knn);

    struct job j = job_on(OPERATION_CLEANUP);
    j.resident = collection_resident(b.collection);
    j.collection = collection_now(b.collection);
    j.request.rows.rows = 40;
    j.request.other_rows = floats(others, 40, D);
    refuse(&j, DETAIL_BAD_K, "k: 0");
    j.request.k = 3;
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    for (unsigned workers = 1; workers < 6; workers += 2) {
        j.worker_count = workers;
        cr_assert_eq(run_job(&j, workers), STATUS_OK, "%s", j.failure.text);
        cr_assert_eq(j.result.body_bytes, knn.result.body_bytes);
        cr_assert_eq(
            memcmp(j.result.block.data, knn.result.block.data, (size_t)j.result.body_bytes), 0);
        cr_assert(j.result.versions[0] == 2 && j.result.version == 2 && !j.result.versions[1]);
        run_job_reset(&j);
    }
    uint64_t blocks = heap_usage(b.heap).blocks;
    for (uint32_t nth = 1;; nth++) {
        cr_assert_lt(nth, 100);
        fault_arm(nth);
        enum status st = run_job(&j, nth);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        run_job_reset(&j);
        cr_assert_eq(st, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
        cr_assert_eq(heap_usage(b.heap).blocks, blocks, "at fault %d", (int)nth);
        if (!fired) break;
    }
    others[3 * D] = NAN;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "b: row 3: column 0");
    j.request.rows = floats(rows, 40, 7);
    j.request.other_rows = floats(rows, 40, 7);
    strcpy(j.request.names[0], "codes");
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "codes has 24");
    run_job_reset(&unbind);
    run_job_reset(&knn);
}
