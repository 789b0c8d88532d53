/* Sums and permutations of rows that ids name, each as often as chance wants, in lists of any
 * lengths: as the kernels give them of the same rows. Wrong rows among lists that are summed
 * together, and in pieces of a long one. */
#include <math.h>
#include <stdio.h>

#include "kernels/superpose.h"
#include "tests/unit/ops/ops_bench.h"

enum { ROWS = 60, ROUNDS = 6, LISTS = 90 };

/* One that is padded, one that is not, and one whose rows are checked without a norm. */
static const uint32_t dimensions[] = {24, 64, 1056};
enum { DIMENSIONS = sizeof dimensions / sizeof *dimensions };

struct draw {
    struct bench b;
    uint64_t *positions, *ids, *offsets, count, lists;
    float *weights, *inline_rows;
    const float **rows;
};

/* Lists of 1 to 40 rows; the last one is longer than a piece if rows are sent along. */
static struct draw draw_lists(uint32_t dimension, unsigned seed, bool longest)
{
    struct draw d = {.b = open_bench(dimension, ROWS), .lists = LISTS};
    uint64_t last = longest ? (UINT64_C(1) << 18) / dimension * 3 : 7;
    d.offsets = calloc(LISTS + 1, sizeof *d.offsets);
    for (uint64_t i = 0; i < LISTS; i++)
        d.offsets[i + 1] = d.offsets[i] + (i + 1 < LISTS ? 1 + (uint64_t)rand_r(&seed) % 40 : last);
    d.count = d.offsets[LISTS];
    d.positions = malloc(d.count * sizeof *d.positions);
    d.ids = malloc(d.count * sizeof *d.ids);
    d.rows = malloc(d.count * sizeof *d.rows);
    d.weights = make_floats(d.count, seed);
    d.inline_rows = malloc(d.count * dimension * sizeof *d.inline_rows);
    for (uint64_t i = 0; i < d.count; i++) {
        uint64_t p = (uint64_t)rand_r(&seed) % ROWS;
        d.positions[i] = p;
        d.ids[i] = d.b.ids[p];
        d.rows[i] = d.b.data + p * dimension;
        d.weights[i] *= 0.37f; /* so that sums are rounded */
        memcpy(d.inline_rows + i * dimension, d.rows[i], dimension * sizeof(float));
    }
    return d;
}

static void forget(struct draw *d)
{
    close_bench(&d->b);
    free(d->positions), free(d->ids), free(d->offsets), free(d->weights), free(d->inline_rows);
    free((void *)d->rows);
}

static struct job job_on(struct draw *d, enum operation operation, bool by_id)
{
    struct job j = make_job(&d->b, operation, !by_id);
    j.ops = operation_find(operation);
    if (by_id) {
        j.objects[0] = (struct job_object){.resident = j.resident, .collection = j.collection};
        strcpy(j.request.names[0], "c");
        j.request.ids = numbers(d->ids, d->count);
    } else {
        j.request.rows = floats(d->inline_rows, d->count, d->b.dimension);
    }
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

static void expect_sums(const struct draw *d, const struct job *j, bool weighted)
{
    uint32_t dimension = d->b.dimension;
    size_t stride = vector_stride(dimension);
    float *sum = aligned_alloc(64, stride * sizeof *sum);
    float *scratch =
        aligned_alloc(64, (superpose_scratch(dimension, d->count) + stride) * sizeof *scratch);
    for (uint64_t i = 0; i < d->lists; i++) {
        struct superpose_lists list = {d->rows, weighted ? d->weights : NULL, d->offsets + i, 1};
        superpose_choose("scalar")->sums(dimension, &list, scratch, sum);
        cr_assert_eq(memcmp(result(j, i), sum, dimension * sizeof *sum), 0,
                     "%u dimensions, list %d", dimension, (int)i);
    }
    free(sum);
    free(scratch);
}

Test(superpose_job, of_ids_that_come_again_and_again)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct draw d = draw_lists(dimensions[round % DIMENSIONS], round + 1, round < DIMENSIONS);
        for (int by_id = 0; by_id < 2; by_id++) {
            struct job j = job_on(&d, OPERATION_SUPERPOSE, by_id);
            j.request.offsets = numbers(d.offsets, d.lists + 1);
            bool weighted = round % 2;
            if (weighted) j.request.weights = floats(d.weights, d.count, 1);
            ask(&j, d.lists);
            expect_sums(&d, &j, weighted);
            run_job_reset(&j);
        }
        forget(&d);
    }
}

/* permute(permute(a, s), -s) = a, and element c of a row is at c + s. */
Test(superpose_job, permutes_ids_that_come_again_and_again)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t dimension = dimensions[round % DIMENSIONS];
        struct draw d = draw_lists(dimension, round + 40, false);
        struct job j = job_on(&d, OPERATION_PERMUTE, true);
        j.request.shift = (int64_t)round * 7919 - 13000;
        uint64_t shift = (uint64_t)((j.request.shift % (int64_t)dimension + (int64_t)dimension) %
                                    (int64_t)dimension);
        ask(&j, d.count);
        for (uint64_t i = 0; i < d.count; i++)
            for (uint64_t c = 0; c < dimension; c++)
                cr_assert_eq(result(&j, i)[(c + shift) % dimension], d.rows[i][c], "row %d",
                             (int)i);
        struct job back = job_on(&d, OPERATION_PERMUTE, false);
        back.request.rows = floats(result(&j, 0), d.count, dimension);
        back.request.shift = -j.request.shift;
        ask(&back, d.count);
        cr_assert_eq(memcmp(result(&back, 0), d.inline_rows, d.count * dimension * 4), 0);
        run_job_reset(&back);
        run_job_reset(&j);
        forget(&d);
    }
}

/* The first wrong row is named, whoever meets another one before. */
Test(superpose_job, names_the_first_wrong_row)
{
    for (unsigned round = 0; round < 3 * DIMENSIONS; round++) {
        uint32_t dimension = dimensions[round % DIMENSIONS];
        struct draw d = draw_lists(dimension, round + 80, true);
        struct job j = job_on(&d, OPERATION_SUPERPOSE, false);
        j.request.offsets = numbers(d.offsets, d.lists + 1);
        cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
        unsigned seed = round + 7;
        uint64_t before = d.offsets[LISTS - 1];
        uint64_t in_long = before + (uint64_t)rand_r(&seed) % (d.count - before);
        uint64_t in_short = (uint64_t)rand_r(&seed) % before;
        char text[64];
        /* 2^60 is no overflow, and larger than what needs no norm */
        d.inline_rows[in_short * dimension + 2] = 0x1p60f;
        d.inline_rows[in_long * dimension + dimension - 1] = round % 2 ? NAN : -INFINITY;
        snprintf(text, sizeof text, "a: row %d: column %d", (int)in_long, (int)dimension - 1);
        expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, text);
        d.inline_rows[in_short * dimension + 3] = 1e30f;
        snprintf(text, sizeof text, "a: row %d", (int)in_short);
        expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW, text);
        forget(&d);
    }
}

Test(superpose_job, of_a_long_list_can_be_cancelled)
{
    struct draw d = draw_lists(64, 5, true);
    struct job j = job_on(&d, OPERATION_SUPERPOSE, true);
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.ops->plan(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.plan.prepare(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.plan.parts, 1);
    atomic_store(&j.cancelled, true);
    j.plan.run_part(&j, 0, 0);
    cr_assert_not(atomic_load(&j.skipped), "it fits into one piece, which is not left half done");
    j.plan.finish(&j);
    heap_give(j.heap, &j.plan.scratch);
    run_job_reset(&j);

    j = job_on(&d, OPERATION_SUPERPOSE, false);
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.ops->plan(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(j.plan.prepare(&j), STATUS_OK, "%s", j.failure.text);
    atomic_store(&j.cancelled, true);
    j.plan.run_part(&j, 0, 0);
    cr_assert(atomic_load(&j.skipped));
    j.plan.finish(&j);
    cr_assert_eq(j.failure.code, STATUS_OK, "%s", j.failure.text);
    cr_assert_null(j.result.block.data);
    heap_give(j.heap, &j.plan.scratch);
    forget(&d);
}
