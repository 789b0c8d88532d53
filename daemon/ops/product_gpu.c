/* product_gpu: products of lists for a GPU process: rows that come or are a replica's, and where
 * each list begins. */
#include "daemon/base/yield.h"
#include "daemon/ops/holographic.h"
#include "daemon/ops/work.h"

/* A list is one after the other on one multiprocessor; longer ones are the CPU's. */
enum { LIST_ROWS_MAX = 256 };

uint64_t product_gpu_pairs(const struct job *j, const struct holographic_kind *kind)
{
    struct work w = {0};
    if (!hrr_has_form(holographic_dimension(j, kind), HRR_BIND) ||
        j->request.offsets.rows > ORDER_QUERIES_MAX)
        return 0;
    holographic_work(j, kind, &w);
    return w.pairs;
}

static struct holographic *state_of(struct job *j)
{
    return j->plan.scratch.data;
}

/* Returns the rows of the longest list; 0: an offset is wrong, and the CPU finds out which, or j
 * was cancelled. */
static uint64_t longest(const struct job *j, const struct holographic *w)
{
    uint64_t most = 0, rows = w->operands[0].count;
    if (w->lists[0] || w->lists[w->count] != rows) return 0;
    for (uint64_t i = 0; i < w->count; i++) {
        if (i % 4096 == 0) yield_check();
        if (w->lists[i + 1] <= w->lists[i] || w->lists[i + 1] > rows || is_cancelled(j)) return 0;
        if (w->lists[i + 1] - w->lists[i] > most) most = w->lists[i + 1] - w->lists[i];
    }
    return most;
}

static enum status prepare(struct job *j)
{
    struct holographic *w = state_of(j);
    uint64_t most = longest(j, w);
    j->gpu.unfit = !most || most > LIST_ROWS_MAX || !holographic_find_positions(j, &w->operands[0]);
    if (j->gpu.unfit) return STATUS_OK;
    struct order_run *run = holographic_order(j, RUN_PRODUCT);
    run->query_count = w->count;
    run->k = (uint32_t)most;
    run->offsets = operation_gpu_place(j, w->lists);
    return STATUS_OK;
}

enum status product_gpu_plan(struct job *j, const struct holographic_kind *kind)
{
    struct holographic w;
    uint64_t bytes = 0;
    enum status st = holographic_begin(j, kind, &w);
    if (st) return st;
    layout_add(&bytes, sizeof w);
    uint64_t rows = w.operands[0].count;
    uint64_t positions = layout_add(&bytes, w.operands[0].collection ? rows * sizeof(uint32_t) : 0);
    st = holographic_gpu_take_results(j, &w);
    if (!st) st = operation_take_own(j, bytes);
    if (st) return operation_drop_all(j);
    w.operands[0].positions = scratch_at(j, positions);
    *state_of(j) = w;
    bool given = is_present(&j->request.offsets);
    state_of(j)->lists = given ? j->request.offsets.data : state_of(j)->offsets;
    j->gpu.prepare = prepare;
    holographic_gpu_ends(j, &w, rows > HOLOGRAPHIC_GPU_SHORT || w.count > HOLOGRAPHIC_GPU_SHORT);
    return STATUS_OK;
}
