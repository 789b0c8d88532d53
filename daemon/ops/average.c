/* average: the weighted average of rows, by id or inline. Every column sums its rows in the given
 * order, so the work is split by columns; inline rows are checked by separate parts.
 *
 * average[c] = sums[c] / total, one IEEE division, where sums[c] = fma(w, x, sums[c]) and total =
 * total + w for rising i, both float32 from +0. No rows, or a total of 0: zeros. */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/ops/check.h"
#include "daemon/ops/operation_inside.h"
#include "daemon/ops/rows.h"
#include "daemon/ops/work.h"

enum { CHECK_BYTES = 1 << 20, COLUMNS_MIN = 128, SPLIT_FROM = 1 << 16, GPU_SHORT_MAX = 512 };
enum { YIELD_EVERY = 1 << 14 };

struct average {
    struct row_source rows;
    const float *weights;
    float total;
    uint64_t check_rows, check_parts; /* inline rows */
    uint64_t columns;                 /* of a part */
    uint64_t pointers;                /* to the rows; for the GPU, their numbers */
    uint64_t sums, buffers, buffer_bytes;
    _Atomic uint64_t bad_row;
};

static struct average *average_of(struct job *j)
{
    return j->plan.scratch.data;
}

static enum status find_ids(struct job *j, struct average *w, const float **pointers)
{
    enum status st = STATUS_OK;
    for (uint64_t first = 0; first < w->rows.count && !st; first += FIND_BATCH) {
        uint32_t rows[FIND_BATCH];
        size_t n = (size_t)smaller(FIND_BATCH, w->rows.count - first);
        st = operation_find_rows(j, NULL, j->collection, j->request.ids.data, first, n, rows);
        for (size_t i = 0; i < n && !st; i++)
            pointers[first + i] = collection_row(j->collection, rows[i]);
    }
    return st;
}

static enum status add_weights(struct job *j, struct average *w)
{
    for (uint64_t i = 0; i < w->rows.count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        if (!isfinite(w->weights[i]))
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE,
                               "weight %" PRIu64 " is not a finite number", i);
        w->total += w->weights[i];
    }
    return STATUS_OK;
}

static enum status average_prepare(struct job *j)
{
    struct average *w = average_of(j);
    const float **pointers = scratch_at(j, w->pointers);
    enum status st = add_weights(j, w);
    if (st) return st;
    if (j->collection) return find_ids(j, w, pointers);
    for (uint64_t i = 0; i < w->rows.count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        pointers[i] = w->rows.inline_rows + i * w->rows.dimension;
    }
    return STATUS_OK;
}

static void check_part(struct job *j, struct average *w, uint64_t part, uint32_t worker)
{
    uint64_t row = part * w->check_rows, end = smaller(row + w->check_rows, w->rows.count);
    struct rows_buffer buffer = rows_buffer_at(
        w->rows.dimension, true, scratch_at(j, w->buffers + worker * w->buffer_bytes));
    uint64_t bad = rows_find_bad(&w->rows, row, end, &buffer);
    if (bad != NO_ROW) note_smallest(&w->bad_row, bad);
}

/* Sums the columns in runs of rows. A run begins with what was summed before it, as a row of weight
 * 1: fma(1, sum, +0) is that sum, since none is ever -0. */
static void sum_columns(struct job *j, struct average *w, uint64_t first, size_t columns)
{
    enum { RUN = 1024 };
    const float *const *pointers = scratch_at(j, w->pointers);
    float *sums = (float *)scratch_at(j, w->sums) + first;
    const float *rows[RUN + 1];
    float weights[RUN + 1];
    for (uint64_t at = 0; at < w->rows.count && !is_cancelled(j); at += RUN) {
        size_t count = (size_t)smaller(RUN, w->rows.count - at);
        size_t before = at != 0;
        rows[0] = sums - first;
        weights[0] = 1;
        memcpy(rows + before, pointers + at, count * sizeof *rows);
        memcpy(weights + before, w->weights + at, count * sizeof *weights);
        w->rows.kernels->weighted_sum(rows, weights, before + count, first, columns, sums);
        yield_check();
    }
}

static void average_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct average *w = average_of(j);
    if (part < w->check_parts) {
        check_part(j, w, part, worker);
        return;
    }
    uint64_t first = (part - w->check_parts) * w->columns;
    size_t columns = (size_t)smaller(w->columns, w->rows.dimension - first);
    float *out = (float *)j->result.tensors[RESULT_AVERAGE_ROW].data + first;
    if (w->rows.count == 0 || w->total == 0) {
        memset(out, 0, columns * sizeof *out);
        return;
    }
    float *sums = (float *)scratch_at(j, w->sums) + first;
    sum_columns(j, w, first, columns);
    for (size_t i = 0; i < columns; i++)
        out[i] = sums[i] / w->total;
}

static void average_finish(struct job *j)
{
    struct average *w = average_of(j);
    uint64_t bad = atomic_load(&w->bad_row);
    uint32_t d = w->rows.dimension;
    if (!j->failure.code && bad != NO_ROW)
        operation_refuse_row(j, "row", bad, w->rows.inline_rows + bad * d, d);
    if (j->failure.code || is_cancelled(j)) operation_drop_result(j);
}

static enum status check(struct job *j, struct average *w)
{
    const struct job_request *r = &j->request;
    bool by_id = is_present(&r->ids);
    if (by_id != (j->collection != NULL))
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "rows are ids of a collection, or inline without one");
    w->rows.count = by_id ? r->ids.rows : r->rows.rows;
    if (r->weights.rows != w->rows.count)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "%" PRIu64 " weights for %" PRIu64 " rows", r->weights.rows,
                           w->rows.count);
    if (!by_id) return operation_check_dimension(j, &r->rows, "rows", &w->rows.dimension);
    w->rows.dimension = collection_dimension(j->collection);
    return STATUS_OK;
}

static void cut(struct job *j, struct average *w)
{
    uint64_t d = w->rows.dimension;
    w->columns = d;
    if (w->rows.count * d >= SPLIT_FROM) {
        w->columns = pieces_of(pieces_of(d, j->worker_count), 64) * 64;
        if (w->columns < COLUMNS_MIN) w->columns = COLUMNS_MIN;
    }
    w->check_rows = CHECK_BYTES / (d * sizeof(float)) + 1;
    w->check_parts = j->collection ? 0 : pieces_of(w->rows.count, w->check_rows);
}

static enum status begin(struct job *j, struct average *w)
{
    *w = (struct average){.rows.kernels = j->kernels,
                          .rows.collection = j->collection,
                          .rows.inline_rows = j->request.rows.data,
                          .weights = j->request.weights.data};
    enum status st = check(j, w);
    if (st) return st;
    operation_note_collection(j);
    operation_shape(j, RESULT_AVERAGE_ROW, DTYPE_FLOAT32, 1, w->rows.dimension);
    return STATUS_OK;
}

static enum status average_plan(struct job *j)
{
    struct average w;
    enum status st = begin(j, &w);
    if (st) return st;
    cut(j, &w);
    atomic_init(&w.bad_row, NO_ROW);

    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    w.pointers = layout_add(&bytes, w.rows.count * sizeof(float *));
    w.sums = layout_add(&bytes, w.rows.dimension * sizeof(float));
    w.buffer_bytes = rows_buffer_bytes(w.rows.dimension, true);
    w.buffers = layout_add(&bytes, w.check_parts ? j->worker_count * w.buffer_bytes : 0);
    st = operation_take_result(j, RESULTS_WeightedAverage);
    if (!st) st = operation_take_scratch(j, bytes);
    if (st) return operation_drop_all(j);
    *average_of(j) = w;
    j->plan.prepare = average_prepare;
    j->plan.run_part = average_part;
    j->plan.finish = average_finish;
    j->plan.parts = (uint32_t)(w.check_parts + pieces_of(w.rows.dimension, w.columns));
    return STATUS_OK;
}

/* ---- on the GPU process ---- */

static uint64_t average_gpu_pairs(const struct job *j)
{
    bool by_id = is_present(&j->request.ids);
    if (by_id != (j->collection != NULL)) return 0;
    return by_id ? j->request.ids.rows : j->request.rows.rows;
}

static enum status average_gpu_prepare(struct job *j)
{
    struct average *w = average_of(j);
    uint32_t *rows = scratch_at(j, w->pointers);
    enum status st = add_weights(j, w);
    if (st) return st;
    if (j->collection && collection_find_rows(j->collection, j->request.ids.data, w->rows.count,
                                              rows) < w->rows.count) {
        j->gpu.unfit = true; /* the CPU finds out which id is unknown */
        return STATUS_OK;
    }
    /* An average has no metric, so any will do. */
    struct order_run *run = operation_gpu_order(j, RUN_AVERAGE, METRIC_DOT);
    if (j->collection) run->positions = operation_gpu_place(j, rows);
    run->list_count = w->rows.count;
    run->weights = operation_gpu_place(j, w->weights);
    run->total = w->total;
    run->out_scores = operation_gpu_place(j, j->result.tensors[RESULT_AVERAGE_ROW].data);
    return STATUS_OK;
}

static enum status average_gpu_plan(struct job *j)
{
    struct average w;
    enum status st = begin(j, &w);
    if (st) return st;
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    w.pointers = layout_add(&bytes, w.rows.count * sizeof(uint32_t));
    st = operation_take_result(j, RESULTS_WeightedAverage);
    if (!st) st = operation_take_own(j, bytes);
    if (st) return operation_drop_all(j);
    *average_of(j) = w;
    j->gpu.prepare = average_gpu_prepare;
    j->gpu.prepare_is_long = w.rows.count > GPU_SHORT_MAX;
    return STATUS_OK;
}

static enum status average_check(struct job *j)
{
    const struct job_request *q = &j->request;
    enum status st = check_ids_or_rows(j);
    if (st) return st;
    return check_inline(j) ? check_same_rows(j, "weights", &q->weights, "rows", &q->rows)
                           : check_same_rows(j, "weights", &q->weights, "ids", &q->ids);
}

static void average_work(const struct job *j, struct work *w)
{
    const struct job_request *r = &j->request;
    w->listed = true;
    w->queries = 1;
    w->rows = w->pairs = is_present(&r->ids) ? r->ids.rows : r->rows.rows;
    w->bytes_out = work_dimension(j) * sizeof(float);
}

const struct operation_ops operation_weighted_average = {
    .check = average_check,
    .work = average_work,
    .plan = average_plan,
    .gpu_plan = average_gpu_plan,
    .gpu_pairs = average_gpu_pairs,
};
