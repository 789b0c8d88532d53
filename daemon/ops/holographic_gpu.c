/* holographic_gpu: pairs of rows for a GPU process. Operands come with the request, or are rows of
 * replicas; results come back to the heap, and are stored from there as the CPU's are. */
#include "daemon/base/yield.h"
#include "daemon/ops/holographic.h"
#include "daemon/ops/work.h"

uint64_t holographic_gpu_pairs(const struct job *j, const struct holographic_kind *kind)
{
    struct work w = {0};
    if (!hrr_has_form(holographic_dimension(j, kind), kind->form(&j->request))) return 0;
    holographic_work(j, kind, &w);
    return w.pairs;
}

static struct holographic *state_of(struct job *j)
{
    return j->plan.scratch.data;
}

bool holographic_find_positions(const struct job *j, const struct operand *o)
{
    enum { BATCH = 64 };
    const uint64_t *ids = o->ids->data;
    for (uint64_t first = 0; o->collection && first < o->count; first += BATCH) {
        size_t n = (size_t)smaller(BATCH, o->count - first);
        yield_check();
        if (is_cancelled(j) ||
            collection_find_rows(o->collection, ids + first, n, o->positions + first) < n)
            return false;
    }
    return true;
}

struct order_operand holographic_place(struct job *j, const struct operand *o)
{
    struct order_operand at = {.rows = PLACE_NONE, .positions = PLACE_NONE, .count = o->count};
    if (o->collection) {
        at.row_count = collection_rows(o->collection);
        at.positions = operation_gpu_place(j, o->positions);
    } else {
        at.row_count = o->count;
        at.rows = operation_gpu_place(j, o->rows->data);
    }
    return at;
}

struct order_run *holographic_order(struct job *j, enum run_operation operation)
{
    struct holographic *w = state_of(j);
    struct order_operand first = holographic_place(j, &w->operands[0]);
    struct order *o = &j->gpu.order;
    *o = (struct order){.kind = ORDER_RUN, .space = operation_owner(j)};
    o->run = order_run_of(operation);
    o->run.metric = METRIC_DOT; /* it has none, so any will do */
    o->run.dimension = w->dimension;
    o->run.rows = first.rows;
    o->run.row_count = first.row_count;
    o->run.positions = first.positions;
    o->run.list_count = first.count;
    o->run.normalize = w->request->normalize;
    o->run.out_scores = operation_gpu_place(j, w->out);
    return &o->run;
}

static enum status prepare(struct job *j)
{
    struct holographic *w = state_of(j);
    for (uint32_t i = 0; i < w->kind->operands && !j->gpu.unfit; i++)
        j->gpu.unfit = !holographic_find_positions(j, &w->operands[i]);
    if (j->gpu.unfit) return STATUS_OK;
    struct order_run *run = holographic_order(j, RUN_BIND);
    run->other = holographic_place(j, &w->operands[1]);
    run->form = w->kind->form(w->request);
    return STATUS_OK;
}

static void finish(struct job *j)
{
    holographic_end(j, state_of(j));
    if (j->failure.code) operation_drop_result(j);
}

void holographic_gpu_ends(struct job *j, const struct holographic *w, bool is_long)
{
    j->gpu.prepare_is_long = is_long;
    j->gpu.finish = finish;
    j->gpu.finish_is_long = holographic_into(j, w->kind) != NULL;
}

enum status holographic_gpu_take_results(struct job *j, struct holographic *w)
{
    uint64_t bytes = 0, at;
    enum status st = holographic_take_results(j, w, &bytes, &at);
    if (!st) st = operation_take_exchange(j, bytes);
    w->out =
        j->result.block.data ? j->result.tensors[RESULT_HOLOGRAPHIC_ROWS].data : exchange_at(j, at);
    return st;
}

enum status holographic_gpu_plan(struct job *j, const struct holographic_kind *kind)
{
    struct holographic w;
    uint64_t bytes = 0, positions[HOLOGRAPHIC_OPERANDS_MAX], ids = 0;
    enum status st = holographic_begin(j, kind, &w);
    if (st) return st;
    layout_add(&bytes, sizeof w);
    for (uint32_t i = 0; i < kind->operands; i++) {
        uint64_t count = w.operands[i].collection ? w.operands[i].count : 0;
        positions[i] = layout_add(&bytes, count * sizeof(uint32_t));
        ids += count;
    }
    st = holographic_gpu_take_results(j, &w);
    if (!st) st = operation_take_own(j, bytes);
    if (st) return operation_drop_all(j);
    for (uint32_t i = 0; i < kind->operands; i++)
        w.operands[i].positions = scratch_at(j, positions[i]);
    *state_of(j) = w;
    j->gpu.prepare = prepare;
    holographic_gpu_ends(j, &w, ids > HOLOGRAPHIC_GPU_SHORT);
    return STATUS_OK;
}
