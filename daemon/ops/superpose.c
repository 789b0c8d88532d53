/* superpose: weighted sums of lists of rows (kernels/superpose.h). */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/ops/check.h"
#include "daemon/ops/holographic.h"
#include "kernels/superpose.h"

static enum status superpose_begin(struct job *j, struct holographic *w)
{
    const struct tensor *weights = &w->request->weights;
    const float *weight = weights->data;
    for (uint64_t i = 0; i < weights->rows; i++) {
        if (i % 4096 == 0) yield_check();
        if (!isfinite(weight[i]))
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE,
                               "weight %" PRIu64 " is not a finite number", i);
    }
    return STATUS_OK;
}

/* A long list is summed in pieces of a power of two of blocks, which the kernels fold to the same
 * sum; between two of them others may run. Returns a piece's rows, some tenths of a millisecond. */
static uint64_t piece_rows(const struct holographic *w)
{
    enum { PIECE_NUMBERS = 1 << 20 };
    uint64_t rows = SUPERPOSE_BLOCK;
    while (rows * 2 * w->dimension <= PIECE_NUMBERS)
        rows *= 2;
    return rows;
}

/* A node for each piece of the longest list, and what the sum of a piece takes. */
static uint64_t superpose_scratch_bytes(const struct holographic *w)
{
    uint64_t rows = piece_rows(w), nodes = pieces_of(w->operands[0].count, rows);
    return (nodes * vector_stride(w->dimension) + superpose_scratch(w->dimension, rows)) *
           sizeof(float);
}

/* Leaves the sum of list i in the first node. */
static void sum_list(const struct holographic *w, const struct superpose_kernels *kernels,
                     uint64_t i, float *nodes, float *scratch)
{
    uint64_t row, end, count = 0, rows = piece_rows(w);
    holographic_rows(w, &w->operands[0], i, &row, &end);
    for (; row < end; row += rows, count++) {
        uint64_t offsets[2] = {row, smaller(row + rows, end)};
        const struct superpose_lists piece = {
            .rows = (const float *const *)w->operands[0].pointers,
            .weights = w->request->weights.data,
            .offsets = offsets,
            .count = 1,
        };
        yield_check();
        kernels->sums(w->dimension, &piece, scratch, nodes + count * vector_stride(w->dimension));
    }
    kernels->fold(w->dimension, nodes, count);
}

static uint64_t superpose_make(struct holographic *w, uint64_t first, uint64_t count, void *scratch,
                               float *out, struct failure *why)
{
    const struct superpose_kernels *kernels = superpose_choose(w->kernels->name);
    uint64_t nodes = pieces_of(w->operands[0].count, piece_rows(w));
    float *sum = scratch, *rest = sum + nodes * vector_stride(w->dimension);
    for (uint64_t i = 0; i < count; i++) {
        sum_list(w, kernels, first + i, sum, rest);
        memcpy(out + i * w->dimension, sum, w->dimension * sizeof *sum);
    }
    return count;
}

static const struct holographic_kind superpose_kind = {
    .operands = 1,
    .lists = true,
    .may_overflow = true,
    .products = 1,
    .begin = superpose_begin,
    .scratch_bytes = superpose_scratch_bytes,
    .make = superpose_make,
};

static enum status superpose_check(struct job *j)
{
    const struct job_request *r = &j->request;
    const struct tensor *rows = is_present(&r->ids) ? &r->ids : &r->rows;
    enum status st = holographic_check(j, &superpose_kind);
    if (st || !is_present(&r->weights)) return st;
    return check_same_rows(j, "weights", &r->weights, "a", rows);
}

static void superpose_work(const struct job *j, struct work *w)
{
    holographic_work(j, &superpose_kind, w);
    w->listed = true;
}

static enum status superpose_plan(struct job *j)
{
    return holographic_plan(j, &superpose_kind);
}

const struct operation_ops operation_superpose = {
    .check = superpose_check, .work = superpose_work, .plan = superpose_plan};
