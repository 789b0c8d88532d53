/* cluster: clusters of similar rows, by one of two rules that have one result (kernels/cluster.h).
 */
#include "daemon/base/yield.h"
#include "daemon/exec/steps.h"
#include "daemon/ops/cluster_inside.h"

void cluster_link(struct cluster_job *w, uint32_t low, uint32_t high)
{
    uint32_t *end = &w->next[low], other = high;
    uint32_t seen = 0;
    w->sizes[low] += w->sizes[high];
    while (other != CLUSTER_NO_ROW) {
        if (++seen % 4096 == 0) yield_check();
        if (*end == CLUSTER_NO_ROW || other < *end) {
            uint32_t rest = *end;
            *end = other;
            other = rest;
        }
        end = &w->next[*end];
    }
}

bool cluster_copied(struct job *j, struct cluster_job *w)
{
    if (cluster_refuse(j, w)) return false;
    if (w->known.merges) return cluster_resume(j, w);
    return w->rule == CLUSTER_AVERAGE ? cluster_average(j, w) : cluster_centroid(j, w);
}

void cluster_end_stage(struct job *j)
{
    struct cluster_job *w = cluster_of(j);
    if (!j->failure.code && is_cancelled(j)) atomic_store(&j->skipped, true);
    bool stopped = j->failure.code || atomic_load(&j->skipped);
    if (!stopped && w->stage(j, w)) {
        j->plan.prepare = NULL;
        j->step = steps_begin_next_plan;
    } else if (stopped || j->failure.code) {
        operation_drop_result(j);
    }
}

static enum status prepare(struct job *j)
{
    progress_begin(&j->progress, PROGRESS_ROWS, 0);
    struct cluster_job *w = cluster_of(j);
    if (j->kept.data && !cluster_know(w, &j->kept)) w->known.merges = NULL;
    return cluster_find(j, w);
}

static enum status cluster_plan(struct job *j)
{
    struct cluster_job w = {0};
    enum status st = cluster_begin(j, &w);
    if (!st && j->request.dry_run) return operation_rehearse(j);
    if (!st) st = operation_take_scratch(j, cluster_layout(j, &w));
    if (st) return operation_drop_all(j);
    atomic_init(&w.bad, NO_ROW);
    *cluster_of(j) = w;
    cluster_place(j);
    cluster_of(j)->stage = cluster_copied;
    j->plan.prepare = prepare;
    j->plan.run_part = cluster_copy_part;
    j->plan.finish = cluster_end_stage;
    j->plan.parts = (uint32_t)cluster_copy_parts(&w);
    return STATUS_OK;
}

const struct operation_ops operation_cluster = {
    .check = cluster_check,
    .work = cluster_work,
    .plan = cluster_plan,
    .gpu_plan = cluster_gpu_plan,
    .gpu_pairs = cluster_gpu_pairs,
};
