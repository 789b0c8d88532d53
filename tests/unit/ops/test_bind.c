/* bind: operands of all kinds, results in the reply or in a collection, what bad input gets. The
 * arithmetic is kernels/hrr.h's; here it is the same whoever asks and however it is cut. */
#include <math.h>

#include "daemon/base/fault.h"
#include "daemon/ops/hrr_plans.h"
#include "tests/unit/ops/ops_bench.h"

enum { D = 24, ROWS = 90 };

static struct job job_on(struct bench *b)
{
    struct job j = make_job(b, OPERATION_BIND, true);
    j.ops = operation_find(OPERATION_BIND);
    return j;
}

/* As the pipeline lets it in. */
static void name(struct job *j, int slot, struct collection *c, const char *text)
{
    struct job_object *o = &j->objects[slot];
    *o = (struct job_object){.resident = collection_resident(c), .writer = slot == 2};
    strcpy(j->request.names[slot], text);
    cr_assert(o->resident->ops->begin(o));
}

static void let_go(struct job *j)
{
    for (int slot = 2; slot >= 0; slot--)
        if (j->objects[slot].resident) j->objects[slot].resident->ops->end(&j->objects[slot]);
    memset(j->objects, 0, sizeof j->objects);
}

static void bind_rows(const float *a, const float *b, uint32_t d, float *out)
{
    const struct hrr_kernels *kernels = hrr_choose("scalar");
    struct hrr_pairs pairs = {.plan = hrr_plans_take(d),
                              .scratch = aligned_alloc(64, hrr_scratch_bytes(d)),
                              .form = HRR_BIND,
                              .a = &a,
                              .b = &b,
                              .count = 1,
                              .out = out,
                              .out_step = d};
    cr_assert_eq(kernels->pairs(&pairs).status, HRR_OK);
    hrr_plans_give(pairs.plan);
    free(pairs.scratch);
}

static const float *results(const struct job *j)
{
    return j->result.tensors[RESULT_HOLOGRAPHIC_ROWS].data;
}

/* Row i of a bound to row i of b; a step of 0: the same row for all. */
static void expect_bound(const float *got, const float *a, int a_step, const float *b, int b_step,
                         uint64_t count)
{
    float out[D];
    for (uint64_t i = 0; i < count; i++) {
        bind_rows(a + i * (uint64_t)a_step, b + i * (uint64_t)b_step, D, out);
        cr_assert_eq(memcmp(got + i * D, out, sizeof out), 0, "pair %d", (int)i);
    }
}

static void check_and(struct job *j, enum status code, enum detail detail, const char *text)
{
    memset(&j->failure, 0, sizeof j->failure);
    cr_assert_eq(operation_check(j), code, "%s: %s", text, j->failure.text);
    cr_assert_eq(j->failure.detail, detail);
    cr_assert_not_null(strstr(j->failure.text, text), "%s: %s", text, j->failure.text);
    memset(&j->failure, 0, sizeof j->failure);
}

/* ---------------------------------------------------------------- operands */

Test(bind, binds_rows_that_come)
{
    struct bench b = open_bench(D, ROWS);
    float *more = make_floats(3000 * D, 5), *many = make_floats(3000 * D, 6);
    struct job j = job_on(&b);
    j.request.rows = floats(more, 3000, D);
    j.request.other_rows = floats(many, 3000, D);
    cr_assert_eq(operation_check(&j), STATUS_OK);
    run_all_ways(&j);
    cr_assert_eq(j.result.tensors[0].rows, 3000);
    expect_bound(results(&j), more, D, many, D, 3000);
    run_job_reset(&j);
    j.request.rows.rows = 1;
    cr_assert_eq(operation_check(&j), STATUS_OK);
    run_all_ways(&j);
    expect_bound(results(&j), more, 0, many, D, 3000);
    run_job_reset(&j);
    j.request.rows.rows = j.request.other_rows.rows = 1;
    run_all_ways(&j);
    cr_assert_eq(j.result.tensors[0].rows, 1);
    run_job_reset(&j);
    free(more);
    free(many);
    close_bench(&b);
}

Test(bind, binds_rows_of_collections)
{
    struct bench b = open_bench(D, ROWS);
    float *row = make_floats(D, 9);
    uint64_t first[3] = {b.ids[7], b.ids[80], b.ids[7]}, second[3] = {b.ids[1], b.ids[2], b.ids[7]};
    struct job j = job_on(&b);
    name(&j, 0, b.collection, "c");
    name(&j, 1, b.collection, "c");
    j.request.ids = numbers(first, 3);
    j.request.other_ids = numbers(second, 3);
    cr_assert_eq(operation_check(&j), STATUS_OK);
    run_all_ways(&j);
    for (int i = 0; i < 3; i++) {
        int at[2][3] = {{7, 80, 7}, {1, 2, 7}};
        expect_bound(results(&j) + i * D, b.data + at[0][i] * D, 0, b.data + at[1][i] * D, 0, 1);
    }
    cr_assert(j.result.versions[0] == 2 && j.result.versions[1] == 2 && !j.result.versions[2]);
    cr_assert_eq(j.result.version, 2);
    run_job_reset(&j);
    let_go(&j);

    name(&j, 1, b.collection, "c");
    j.request.names[0][0] = 0;
    j.request.ids = (struct tensor){0};
    j.request.rows = floats(row, 1, D);
    run_all_ways(&j);
    expect_bound(results(&j), row, 0, b.data + D, 0, 1);
    run_job_reset(&j);
    let_go(&j);
    free(row);
    close_bench(&b);
}

/* ---------------------------------------------------------------- results */

static const float *row_of(const struct collection *c, uint64_t id)
{
    uint32_t row = collection_find_row(collection_now(c), id);
    cr_assert_neq(row, COLLECTION_NO_ROW);
    return collection_row(collection_now(c), row);
}

/* A <- bind(A, A): what is read is as it was. */
Test(bind, stores_results_where_it_reads)
{
    struct bench b = open_bench(D, ROWS);
    uint64_t into[2] = {b.ids[3], 5};
    struct job j = job_on(&b);
    for (int slot = 0; slot < 3; slot++)
        name(&j, slot, b.collection, "c");
    j.request.ids = numbers(b.ids + 3, 2);
    j.request.other_ids = numbers(b.ids + 4, 2);
    j.request.into_ids = numbers(into, 2);
    cr_assert_eq(operation_check(&j), STATUS_OK);
    cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.result.body_bytes, 0);
    cr_assert(j.result.counts[0] == 1 && j.result.counts[1] == 1 && j.result.rows == ROWS + 1);
    cr_assert(j.result.versions[0] == 2 && j.result.versions[1] == 2);
    cr_assert(j.result.versions[2] == 3 && j.result.version == 3);
    cr_assert_eq(memcmp(collection_row(j.collection, 3), b.data + 3 * D, D * 4), 0);
    cr_assert_eq(memcmp(row_of(b.collection, b.ids[3]), b.data + 3 * D, D * 4), 0, "too early");
    let_go(&j);
    expect_bound(row_of(b.collection, b.ids[3]), b.data + 3 * D, 0, b.data + 4 * D, 0, 1);
    expect_bound(row_of(b.collection, 5), b.data + 4 * D, 0, b.data + 5 * D, 0, 1);
    gone_free(b.heap, collection_take_gone(b.collection));
    run_job_reset(&j);
    close_bench(&b);
}

Test(bind, normalizes)
{
    struct bench b = open_bench(D, ROWS);
    float *rows = make_floats(3 * D, 4);
    memset(rows + D, 0, D * 4);
    struct job j = job_on(&b);
    j.request.rows = floats(rows, 3, D);
    j.request.other_rows = floats(b.data, 1, D);
    j.request.normalize = true;
    run_all_ways(&j);
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int c = 0; c < D; c++)
            sum += (double)results(&j)[i * D + c] * (double)results(&j)[i * D + c];
        cr_assert_float_eq(sum, i != 1, 1e-6, "%d: %g", i, sum);
    }
    run_job_reset(&j);
    free(rows);
    close_bench(&b);
}

/* ---------------------------------------------------------------- bad input */

Test(bind, checks_the_request)
{
    struct bench b = open_bench(D, ROWS);
    const enum status bad = STATUS_INVALID_ARGUMENT;
    struct job j = job_on(&b);
    check_and(&j, bad, DETAIL_BAD_SHAPE, "a: neither rows nor ids");
    j.request.rows = floats(b.data, 0, D);
    check_and(&j, bad, DETAIL_BAD_SHAPE, "a: no rows");
    j.request.rows = floats(b.data, 3, D);
    check_and(&j, bad, DETAIL_BAD_SHAPE, "b: neither rows nor ids");
    j.request.other_ids = numbers(b.ids, 2);
    check_and(&j, bad, DETAIL_BAD_NAME, "b: empty");
    strcpy(j.request.names[1], "c");
    check_and(&j, bad, DETAIL_BAD_SHAPE, "a: 3 rows, 1 or as many as the other operand has");
    j.request.other_rows = floats(b.data, 2, D);
    check_and(&j, bad, DETAIL_BAD_SHAPE, "b: rows and ids exclude each other");
    j.request.other_ids = (struct tensor){0};
    check_and(&j, bad, DETAIL_BAD_SHAPE, "b: rows and a collection exclude each other");
    j.request.names[1][0] = 0;
    j.request.other_rows.rows = 3;
    j.request.into_ids = numbers(b.ids, 3);
    check_and(&j, bad, DETAIL_BAD_NAME, "into: empty");
    strcpy(j.request.names[2], "c");
    cr_assert_eq(operation_check(&j), STATUS_OK);
    j.request.into_ids.rows = 2;
    check_and(&j, bad, DETAIL_BAD_SHAPE, "into_ids: 2 for 3 results");
    j.request.into_ids = (struct tensor){0};
    check_and(&j, bad, DETAIL_BAD_SHAPE, "into_ids: missing");
    j.request.names[2][0] = 0;
    j.request.write.version = 3;
    check_and(&j, bad, DETAIL_BAD_NAME, "into: empty, and a write");
    close_bench(&b);
}

Test(bind, names_what_is_wrong)
{
    struct bench b = open_bench(D, ROWS);
    const enum status bad = STATUS_INVALID_ARGUMENT;
    float *rows = make_floats(2500 * D, 8);
    struct job j = job_on(&b);
    j.request.rows = floats(rows, 2500, D);
    j.request.other_rows = floats(b.data, 1, D + 1);
    expect(&j, bad, DETAIL_BAD_DIMENSION, "b has 25 dimensions, a has 24");
    j.request.other_rows.columns = D;
    rows[2400 * D] = INFINITY;
    rows[2100 * D + 3] = NAN;
    expect(&j, bad, DETAIL_NOT_FINITE, "a: row 2100: column 3");
    j.request.rows.rows = 1000;
    rows[900 * D] = 3e19F;
    expect(&j, bad, DETAIL_NORM_OVERFLOW, "a: row 900");
    j.request.rows.rows = 800;
    float huge[D] = {[5] = 1e18F};
    j.request.other_rows = floats(huge, 1, D);
    j.request.normalize = true;
    rows[700 * D] = 1.8e19F;
    expect(&j, bad, DETAIL_NORM_OVERFLOW, "result 700: its squared norm");
    huge[6] = NAN;
    expect(&j, bad, DETAIL_NOT_FINITE, "b: row 0: column 6");

    uint64_t ids[2] = {b.ids[5], 77};
    j = job_on(&b);
    name(&j, 1, b.collection, "c");
    j.request.rows = floats(b.data, 2, D);
    j.request.other_ids = numbers(ids, 2);
    expect(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID, "b: there is no id 77 (row 1)");
    j.reply_bytes_max = 100;
    expect(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE, "100 bytes");
    let_go(&j);
    free(rows);
    close_bench(&b);
}

/* Into a collection nothing is half-applied. */
Test(bind, stores_all_or_nothing)
{
    struct bench b = open_bench(D, ROWS), other = open_bench(D + 1, 4);
    float *rows = make_floats(2000 * D, 8);
    uint64_t *ids = malloc(2000 * sizeof *ids);
    for (uint64_t i = 0; i < 2000; i++)
        ids[i] = 1000 + i;
    struct job j = job_on(&b);
    j.request.rows = floats(rows, 2000, D);
    j.request.other_rows = floats(b.data, 1, D);
    j.request.into_ids = numbers(ids, 2000);
    name(&j, 2, other.collection, "wide");
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "wide has 25");
    let_go(&j);
    name(&j, 2, b.collection, "c");
    rows[1999 * D + 1] = NAN;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "a: row 1999: column 1");
    rows[1999 * D + 1] = 1;
    ids[1998] = ids[3];
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_DUPLICATE_ID, "given twice");
    ids[1998] = 5;
    heap_quota(b.heap, b.space->number, heap_owner_bytes(b.heap, b.space->number) + (400 << 10));
    expect(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUOTA, "quota");
    heap_quota(b.heap, b.space->number, 0);
    cr_assert_eq(collection_rows(collection_now(b.collection)), ROWS);
    cr_assert_eq(collection_version(collection_now(b.collection)), 2);
    for (uint32_t nth = 1;; nth++) {
        cr_assert(nth < 100);
        fault_arm(nth);
        enum status st = run_job(&j, nth);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        if (!fired) {
            cr_assert_eq(st, STATUS_OK, "%s", j.failure.text);
            break;
        }
        if (st) {
            cr_assert_eq(st, STATUS_RESOURCE_EXHAUSTED);
            cr_assert_eq(collection_written(b.collection), collection_now(b.collection));
        } else {
            break;
        }
        run_job_reset(&j);
    }
    let_go(&j);
    gone_free(b.heap, collection_take_gone(b.collection));
    cr_assert_eq(collection_rows(collection_now(b.collection)), ROWS + 2000);
    run_job_reset(&j);
    free(rows);
    free(ids);
    close_bench(&b);
    close_bench(&other);
}

/* ---------------------------------------------------------------- tables */

Test(bind, keeps_tables_of_some_dimensions)
{
    const struct hrr_plan *plans[16], *again, *more[2];
    for (uint32_t i = 0; i < 16; i++)
        cr_assert((plans[i] = hrr_plans_take(40 + i)));
    for (int i = 0; i < 2; i++)
        cr_assert((more[i] = hrr_plans_take(100)), "all places are in use");
    cr_assert_neq(more[0], more[1], "each has its own");
    cr_assert_eq(again = hrr_plans_take(44), plans[4]);
    hrr_plans_give(again);
    hrr_plans_give(plans[4]);
    fault_arm(1);
    cr_assert_null(hrr_plans_take(101));
    fault_arm(0);
    cr_assert_eq(hrr_plans_take(44), plans[4], "it was kept");
    hrr_plans_give(plans[4]);
    cr_assert((again = hrr_plans_take(101)));
    cr_assert_eq(hrr_plans_take(101), again, "in the place of those that nobody has");
    cr_assert((again = hrr_plans_take(44)));
    hrr_plans_give(again);
    for (int i = 0; i < 2; i++)
        hrr_plans_give(more[i]);
}
