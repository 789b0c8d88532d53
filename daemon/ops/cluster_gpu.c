/* cluster_gpu: a clustering for a GPU process, which finds the merges; members, centroids, scores
 * and the reply follow from those on CPU workers. */
#include "daemon/base/yield.h"
#include "daemon/exec/steps.h"
#include "daemon/ops/cluster_inside.h"
#include "daemon/ops/work.h"

_Static_assert((int)ORDER_CLUSTER_CENTROID == (int)CLUSTER_CENTROID &&
                   (int)ORDER_CLUSTER_AVERAGE == (int)CLUSTER_AVERAGE,
               "an order names the rule as a request does");

uint64_t cluster_gpu_pairs(const struct job *j)
{
    struct work w = {0};
    uint64_t rows = is_present(&j->request.ids) ? j->request.ids.rows : work_rows(j);
    if (rows < 2 || rows > CLUSTER_ROWS_MAX) return 0;
    cluster_work(j, &w);
    return w.pairs;
}

/* Whether a collection's rows lie as they are to be taken. */
static bool in_order(const struct cluster_job *w)
{
    bool same = w->rows == collection_rows(w->collection);
    for (uint32_t i = 0; same && i < w->rows; i++) {
        if (i % 4096 == 0) yield_check();
        same = w->positions[i] == i;
    }
    return same;
}

static enum status prepare(struct job *j)
{
    struct cluster_job *w = cluster_of(j);
    struct order_cluster *so_far = j->plan.exchange.data;
    enum status st = cluster_find(j, w);
    if (st) return st; /* the CPU says what is wrong */
    atomic_init(&so_far->merges, 0);
    atomic_init(&so_far->first_merges, UINT32_MAX);
    atomic_init(&so_far->scans, 0);
    atomic_init(&so_far->ended, 0);
    atomic_init(w->stop, 0);
    struct order_run *run = operation_gpu_order(j, RUN_CLUSTER, METRIC_COSINE);
    run->form = w->rule;
    run->list_count = w->rows;
    run->threshold = w->threshold;
    run->total = w->threshold_second;
    run->k = w->size_min;
    run->segments = operation_gpu_place(j, w->stop);
    run->out_ids = operation_gpu_place(j, so_far);
    if (w->positions && !in_order(w)) run->positions = operation_gpu_place(j, w->positions);
    if (w->times) run->weights = operation_gpu_place(j, w->times);
    j->gpu.keeps = true;
    j->gpu.stop = w->stop;
    j->gpu.merged = &so_far->merges;
    return STATUS_OK;
}

/* Rows that came with the request have no norms yet. */
static void finish(struct job *j)
{
    struct cluster_job *w = cluster_of(j);
    if (!cluster_know(w, &j->plan.exchange) || !w->known.ended) {
        j->gpu.unfit = true;
        return;
    }
    j->plan.finish = cluster_end_stage;
    w->stage = cluster_copied;
    if (w->collection) {
        cluster_end_stage(j);
        return;
    }
    j->plan.run_part = cluster_copy_part;
    j->plan.parts = (uint32_t)cluster_copy_parts(w);
    j->step = steps_begin_next_plan;
}

enum status cluster_gpu_plan(struct job *j)
{
    enum { SHORT_MAX = 512 };
    struct cluster_job w = {.on_card = true};
    enum status st = cluster_begin(j, &w);
    if (!st) st = operation_take_own(j, cluster_layout(j, &w));
    if (!st)
        st = operation_take_exchange(j, sizeof(struct order_cluster) +
                                            w.rows * sizeof(struct order_merge));
    if (st) return operation_drop_all(j);
    atomic_init(&w.bad, NO_ROW);
    *cluster_of(j) = w;
    cluster_place(j);
    j->gpu.prepare = prepare;
    j->gpu.finish = finish;
    j->gpu.prepare_is_long = w.rows > SHORT_MAX;
    j->gpu.finish_is_long = true;
    return STATUS_OK;
}
