/* cleanup_gpu: a cleanup for a GPU process: one order unbinds and finds the best, so that what was
 * unbound never comes back. */
#include "daemon/ops/holographic.h"
#include "daemon/ops/work.h"

struct cleanup_plan {
    struct holographic pairs;
    uint32_t k;
};

uint64_t cleanup_gpu_pairs(const struct job *j, const struct holographic_kind *kind)
{
    struct work w = {0};
    if (!holographic_gpu_pairs(j, kind)) return 0;
    holographic_work(j, kind, &w);
    return work_times(w.rows, collection_rows(j->collection));
}

static struct cleanup_plan *plan_of(struct job *j)
{
    return j->plan.scratch.data;
}

static void order(struct job *j)
{
    struct cleanup_plan *w = plan_of(j);
    struct operand *operands = w->pairs.operands;
    struct order_run *run = operation_gpu_order(j, RUN_CLEANUP, collection_metric(j->collection));
    run->form = w->pairs.kind->form(w->pairs.request);
    run->cue = holographic_place(j, &operands[0]);
    run->other = holographic_place(j, &operands[1]);
    run->k = w->k;
    run->has_threshold = j->request.has_threshold;
    run->threshold = j->request.threshold;
    run->query_count = w->pairs.count;
    run->out_ids = operation_gpu_place(j, j->result.tensors[RESULT_CLEANUP_IDS].data);
    run->out_scores = operation_gpu_place(j, j->result.tensors[RESULT_CLEANUP_SCORES].data);
    run->out_counts = operation_gpu_place(j, j->result.tensors[RESULT_CLEANUP_COUNTS].data);
}

static enum status prepare(struct job *j)
{
    const struct operand *operands = plan_of(j)->pairs.operands;
    for (uint32_t i = 0; i < HOLOGRAPHIC_OPERANDS_MAX && !j->gpu.unfit; i++)
        j->gpu.unfit = !holographic_find_positions(j, &operands[i]);
    if (!j->gpu.unfit) order(j);
    return STATUS_OK;
}

static void finish(struct job *j)
{
    operation_note_objects(j);
    operation_note_collection(j);
}

static enum status take_result(struct job *j, const struct cleanup_plan *w)
{
    operation_shape(j, RESULT_CLEANUP_IDS, DTYPE_UINT64, w->pairs.count, w->k);
    operation_shape(j, RESULT_CLEANUP_SCORES, DTYPE_FLOAT32, w->pairs.count, w->k);
    operation_shape(j, RESULT_CLEANUP_COUNTS, DTYPE_UINT32, w->pairs.count, 1);
    return operation_take_result(j, RESULTS_Cleanup);
}

enum status cleanup_gpu_plan(struct job *j, const struct holographic_kind *kind)
{
    struct cleanup_plan w = {.k = j->request.k};
    uint64_t bytes = 0, positions[HOLOGRAPHIC_OPERANDS_MAX], ids = 0;
    enum status st = holographic_begin(j, kind, &w.pairs);
    if (st) return st;
    w.k = (uint32_t)smaller(w.k, collection_rows(j->collection));
    layout_add(&bytes, sizeof w);
    for (uint32_t i = 0; i < HOLOGRAPHIC_OPERANDS_MAX; i++) {
        uint64_t count = w.pairs.operands[i].collection ? w.pairs.operands[i].count : 0;
        positions[i] = layout_add(&bytes, count * sizeof(uint32_t));
        ids += count;
    }
    st = take_result(j, &w);
    if (!st) st = operation_take_own(j, bytes);
    if (st) return operation_drop_all(j);
    for (uint32_t i = 0; i < HOLOGRAPHIC_OPERANDS_MAX; i++)
        w.pairs.operands[i].positions = scratch_at(j, positions[i]);
    *plan_of(j) = w;
    j->gpu.prepare = prepare;
    j->gpu.prepare_is_long = ids > HOLOGRAPHIC_GPU_SHORT;
    j->gpu.finish = finish;
    return STATUS_OK;
}
