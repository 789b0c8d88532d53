/* bind: the circular convolution of rows, pair by pair, its inverse, with which rows of a codebook
 * are found, and that of lists of rows (kernels/hrr.h). */
#include <string.h>

#include "daemon/base/yield.h"
#include "daemon/ops/check.h"
#include "daemon/ops/holographic.h"
#include "daemon/ops/hrr_plans.h"
#include "daemon/ops/work.h"

static enum status bind_begin(struct job *j, struct holographic *w)
{
    w->tables = hrr_plans_take(w->dimension);
    if (w->tables) return STATUS_OK;
    return operation_refuse_memory(j, STATUS_RESOURCE_EXHAUSTED, "the tables of a dimension");
}

static void bind_end(struct holographic *w)
{
    hrr_plans_give(w->tables);
}

static uint64_t bind_scratch_bytes(const struct holographic *w)
{
    return hrr_scratch_bytes(w->dimension);
}

static void tell_fault(const struct hrr_fault *fault, uint64_t result, struct failure *why)
{
    switch (fault->status) {
    case HRR_OVERFLOW:
        failure_set(why, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW,
                    "result %" PRIu64 ": a number of it overflows float32", result);
        break;
    case HRR_ZERO:
        failure_set(why, STATUS_FAILED_PRECONDITION, DETAIL_NO_INVERSE,
                    "pair %" PRIu64 ": b has no exact inverse: its spectrum is %.3g at %" PRIu32,
                    result, (double)fault->magnitude, fault->index);
        break;
    case HRR_STOPPED:
    case HRR_OK: break;
    }
}

static uint64_t make_pairs(struct holographic *w, enum hrr_form form, uint64_t first,
                           uint64_t count, void *scratch, float *out, struct failure *why)
{
    const struct operand *a = &w->operands[0], *b = &w->operands[1];
    const struct hrr_kernels *kernels = hrr_choose(w->kernels->name);
    enum { AT_ONCE = 64 };
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        const float *left[AT_ONCE], *right[AT_ONCE];
        struct hrr_pairs pairs = {
            .plan = w->tables,
            .scratch = scratch,
            .form = form,
            .a = left,
            .b = right,
            .count = (size_t)smaller(AT_ONCE, count - done),
            .out = out + done * w->dimension,
            .out_step = w->dimension,
        };
        for (size_t i = 0; i < pairs.count; i++) {
            left[i] = operand_row(a, first + done + i);
            right[i] = operand_row(b, first + done + i);
        }
        struct hrr_fault fault = kernels->pairs(&pairs);
        if (fault.status == HRR_OK) continue;
        tell_fault(&fault, first + done + fault.pair, why);
        return done + fault.pair;
    }
    return count;
}

static uint64_t bind_make(struct holographic *w, uint64_t first, uint64_t count, void *scratch,
                          float *out, struct failure *why)
{
    return make_pairs(w, HRR_BIND, first, count, scratch, out, why);
}

static enum hrr_form bind_form(const struct job_request *r)
{
    return HRR_BIND;
}

static const struct holographic_kind bind_kind = {
    .operands = 2,
    .transforms = true,
    .form = bind_form,
    .begin = bind_begin,
    .end = bind_end,
    .scratch_bytes = bind_scratch_bytes,
    .make = bind_make,
};
HOLOGRAPHIC_PAIRS(bind)

/* ---------------------------------------------------------------- unbind */

static enum status unbind_begin(struct job *j, struct holographic *w)
{
    if (w->request->exact && !hrr_has_plan(w->dimension))
        return failure_set(&j->failure, STATUS_FAILED_PRECONDITION, DETAIL_NO_INVERSE,
                           "exact: there is no spectrum of %" PRIu32 " dimensions", w->dimension);
    return bind_begin(j, w);
}

static enum hrr_form unbind_form(const struct job_request *r)
{
    return r->exact ? HRR_UNBIND_EXACT : HRR_UNBIND;
}

static uint64_t unbind_make(struct holographic *w, uint64_t first, uint64_t count, void *scratch,
                            float *out, struct failure *why)
{
    return make_pairs(w, unbind_form(w->request), first, count, scratch, out, why);
}

static const struct holographic_kind unbind_kind = {
    .operands = 2,
    .transforms = true,
    .form = unbind_form,
    .begin = unbind_begin,
    .end = bind_end,
    .scratch_bytes = bind_scratch_bytes,
    .make = unbind_make,
};
HOLOGRAPHIC_PAIRS(unbind)

/* ---------------------------------------------------------------- bind_many */

static bool goes_on(void *owner)
{
    yield_check();
    return !is_cancelled(owner);
}

/* A list may be as long as a request, so it looks between its rows at whether it is still
 * wanted. */
static uint64_t bind_many_make(struct holographic *w, uint64_t first, uint64_t count, void *scratch,
                               float *out, struct failure *why)
{
    const struct hrr_kernels *kernels = hrr_choose(w->kernels->name);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row, end;
        holographic_rows(w, &w->operands[0], first + i, &row, &end);
        yield_check();
        struct hrr_product product = {
            .plan = w->tables,
            .scratch = scratch,
            .rows = w->operands[0].pointers + row,
            .count = (size_t)(end - row),
            .out = out + i * w->dimension,
            .goes_on = goes_on,
            .owner = w->job,
        };
        struct hrr_fault fault = kernels->many(&product);
        if (fault.status == HRR_OK) continue;
        if (fault.status == HRR_STOPPED) {
            atomic_store_explicit(&w->job->skipped, true, memory_order_relaxed);
            memset(product.out, 0, (count - i) * w->dimension * sizeof *out);
            return count;
        }
        tell_fault(&fault, first + i, why);
        return i;
    }
    return count;
}

static const struct holographic_kind bind_many_kind = {
    .operands = 1,
    .lists = true,
    .transforms = true,
    .begin = bind_begin,
    .end = bind_end,
    .scratch_bytes = bind_scratch_bytes,
    .make = bind_many_make,
};
HOLOGRAPHIC_CPU(bind_many)

static uint64_t bind_many_gpu_pairs(const struct job *j)
{
    return product_gpu_pairs(j, &bind_many_kind);
}

static enum status bind_many_gpu_plan(struct job *j)
{
    return product_gpu_plan(j, &bind_many_kind);
}

const struct operation_ops operation_bind_many = {
    .check = bind_many_check,
    .work = bind_many_work,
    .plan = bind_many_plan,
    .gpu_plan = bind_many_gpu_plan,
    .gpu_pairs = bind_many_gpu_pairs,
};

/* ---------------------------------------------------------------- cleanup */

_Static_assert((int)RESULT_CLEANUP_IDS == (int)RESULT_KNN_IDS &&
                   (int)RESULT_CLEANUP_SCORES == (int)RESULT_KNN_SCORES &&
                   (int)RESULT_CLEANUP_COUNTS == (int)RESULT_KNN_COUNTS,
               "results lie where kNN leaves them");

/* What was unbound becomes the queries of a kNN over the codebook, which is what j names first. */
static enum status ask_codebook(struct job *j, const float *results, uint64_t count,
                                uint32_t dimension)
{
    j->request.queries = (struct tensor){
        .dtype = DTYPE_FLOAT32, .rows = count, .columns = dimension, .data = (float *)results};
    return operation_knn.plan(j);
}

static const struct holographic_kind cleanup_kind = {
    .operands = 2,
    .first_named = 1,
    .transforms = true,
    .begin = unbind_begin,
    .end = bind_end,
    .form = unbind_form,
    .follow = ask_codebook,
    .scratch_bytes = bind_scratch_bytes,
    .make = unbind_make,
};

static enum status cleanup_check(struct job *j)
{
    enum status st = holographic_check(j, &cleanup_kind);
    if (!st) st = check_k(j, 1);
    return st ? st : check_threshold(j);
}

static void cleanup_work(const struct job *j, struct work *w)
{
    enum { FEW = 8 }; /* that many are unbound on the loop */
    holographic_work(j, &cleanup_kind, w);
    w->queries = w->rows;
    w->rows = collection_rows(j->collection);
    w->k = j->request.k;
    w->unbounded = w->queries > FEW;
    w->pairs = work_times(w->queries, w->rows);
    w->bytes_out = work_times(w->queries, smaller(w->k, w->rows) * WORK_BEST_BYTES);
}

static enum status cleanup_plan(struct job *j)
{
    return holographic_plan(j, &cleanup_kind);
}

static uint64_t gpu_pairs(const struct job *j)
{
    return cleanup_gpu_pairs(j, &cleanup_kind);
}

static enum status gpu_plan(struct job *j)
{
    return cleanup_gpu_plan(j, &cleanup_kind);
}

const struct operation_ops operation_cleanup = {
    .check = cleanup_check,
    .work = cleanup_work,
    .plan = cleanup_plan,
    .gpu_plan = gpu_plan,
    .gpu_pairs = gpu_pairs,
};
