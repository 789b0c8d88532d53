/* norms: the norms of inline rows. */
#include "daemon/ops/work.h"
#include "daemon/ops/rows.h"
#include "daemon/ops/operation_inside.h"

enum { PART_BYTES = 512 << 10, PART_ROWS_MIN = 8 };

struct norms {
    struct row_source rows;
    uint64_t part_rows, buffers, buffer_bytes;
    _Atomic uint64_t bad_row;
};

static void norms_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct norms *w = j->plan.scratch.data;
    uint64_t row = part * w->part_rows, end = smaller(row + w->part_rows, w->rows.count);
    struct rows_buffer buffer = rows_buffer_at(
        w->rows.dimension, true, scratch_at(j, w->buffers + worker * w->buffer_bytes));
    float *out = j->result.tensors[RESULT_NORMS_NORMS].data;
    while (row < end && !is_cancelled(j)) {
        size_t n = (size_t)smaller(rows_batch(w->rows.dimension), end - row);
        uint64_t bad = NO_ROW;
        struct row_block block = rows_inline(&w->rows, row, n, &buffer, &bad);
        if (bad != NO_ROW) {
            note_smallest(&w->bad_row, bad);
            return;
        }
        memcpy(out + row, block.norms, n * sizeof *out);
        row += n;
    }
}

static void norms_finish(struct job *j)
{
    struct norms *w = j->plan.scratch.data;
    uint64_t bad = atomic_load(&w->bad_row);
    uint32_t d = w->rows.dimension;
    if (!j->failure.code && bad != NO_ROW)
        operation_refuse_row(j, "row", bad, w->rows.inline_rows + bad * d, d);
    if (j->failure.code || is_cancelled(j)) operation_drop_result(j);
}

static enum status norms_plan(struct job *j)
{
    struct norms w = {.rows.kernels = j->kernels,
                      .rows.inline_rows = j->request.rows.data,
                      .rows.count = j->request.rows.rows};
    enum status st = operation_check_dimension(j, &j->request.rows, "rows", &w.rows.dimension);
    if (st) return st;
    w.part_rows = PART_BYTES / (w.rows.dimension * sizeof(float));
    if (w.part_rows < PART_ROWS_MIN) w.part_rows = PART_ROWS_MIN;
    atomic_init(&w.bad_row, NO_ROW);

    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    w.buffer_bytes = rows_buffer_bytes(w.rows.dimension, true);
    w.buffers = layout_add(&bytes, j->worker_count * w.buffer_bytes);
    operation_shape(j, RESULT_NORMS_NORMS, DTYPE_FLOAT32, w.rows.count, 1);
    st = operation_take_result(j, RESULTS_Norms);
    if (!st) st = operation_take_scratch(j, bytes);
    if (st) return operation_drop_all(j);
    *(struct norms *)j->plan.scratch.data = w;
    j->plan.run_part = norms_part;
    j->plan.finish = norms_finish;
    j->plan.parts = w.rows.count ? (uint32_t)pieces_of(w.rows.count, w.part_rows) : 1;
    return STATUS_OK;
}

/* ---- on the GPU process ---- */

static uint64_t norms_gpu_pairs(const struct job *j)
{
    return j->request.rows.rows;
}

static enum status norms_gpu_plan(struct job *j)
{
    uint32_t dimension;
    enum status st = operation_check_dimension(j, &j->request.rows, "rows", &dimension);
    if (st) return st;
    operation_shape(j, RESULT_NORMS_NORMS, DTYPE_FLOAT32, j->request.rows.rows, 1);
    st = operation_take_result(j, RESULTS_Norms);
    if (st) return operation_drop_all(j);
    struct order_run *run = operation_gpu_order(j, RUN_NORMS, METRIC_DOT);
    run->out_scores = operation_gpu_place(j, j->result.tensors[RESULT_NORMS_NORMS].data);
    return STATUS_OK;
}

/* No scores: for the CPU its bytes tell. */
static void norms_work(const struct job *j, struct work *w)
{
    w->rows = j->request.rows.rows;
    w->bytes_out = work_times(w->rows, sizeof(float));
}

const struct operation_ops operation_norms = {
    .work = norms_work,
    .plan = norms_plan,
    .gpu_plan = norms_gpu_plan,
    .gpu_pairs = norms_gpu_pairs,
};
