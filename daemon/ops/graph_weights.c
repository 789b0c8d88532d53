/* graph_weights: adds to the weights of edges, and returns what they became; multiplies all weights
 * of a graph; removes edges of small weight. One writer holds the graph, so one part does
 * everything; a job that is cancelled before it starts changes nothing. */
#include <float.h>
#include <math.h>

#include "daemon/ops/check.h"
#include "daemon/ops/operation_inside.h"
#include "daemon/ops/work.h"

static enum status check_bounds(struct job *j)
{
    struct job_request *q = &j->request;
    if (!q->has_low) q->low = -FLT_MAX;
    if (!q->has_high) q->high = FLT_MAX;
    if (!isfinite(q->low)) return check_refuse(j, DETAIL_BAD_WEIGHT, "low: not a finite number");
    if (!isfinite(q->high)) return check_refuse(j, DETAIL_BAD_WEIGHT, "high: not a finite number");
    if (q->low <= q->high) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT,
                       "low: %.9g, above high, which is %.9g", (double)q->low, (double)q->high);
}

static enum status add_weights_check(struct job *j)
{
    const struct job_request *q = &j->request;
    enum status st = check_same_rows(j, "targets", &q->targets, "sources", &q->ids);
    if (!st) st = check_same_rows(j, "deltas", &q->weights, "sources", &q->ids);
    return st ? st : check_bounds(j);
}

static void add_weights_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct job_request *r = &j->request;
    const struct graph_deltas deltas = {
        .sources = r->ids.data,
        .targets = r->targets.data,
        .deltas = r->weights.data,
        .n = r->ids.rows,
        .low = r->low,
        .high = r->high,
        .create = r->create,
    };
    struct graph_counts counts = {0};
    graph_add_weights((struct graph *)j->resident, &deltas,
                      j->result.tensors[RESULT_ADDED_WEIGHTS].data, &counts, &j->failure);
    j->result.counts[0] = counts.edges_added;
    j->result.counts[2] = counts.nodes_added;
}

static void add_weights_finish(struct job *j)
{
    operation_note_graph(j);
    if (j->failure.code || atomic_load(&j->skipped)) operation_drop_result(j);
}

static enum status add_weights_plan(struct job *j)
{
    operation_shape(j, RESULT_ADDED_WEIGHTS, DTYPE_FLOAT32, j->request.ids.rows, 1);
    enum status st = operation_take_result(j, RESULTS_GraphAddWeights);
    if (st) return operation_drop_all(j);
    operation_note_graph(j);
    j->plan.part_ns = 16 * j->body_bytes;
    j->plan.run_part = add_weights_part;
    j->plan.finish = add_weights_finish;
    j->plan.parts = 1;
    return STATUS_OK;
}

static void add_weights_work(const struct job *j, struct work *w)
{
    w->bytes_out = work_times(j->request.ids.rows, sizeof(float));
}

const struct operation_ops operation_graph_add_weights = {
    .check = add_weights_check, .work = add_weights_work, .plan = add_weights_plan};

/* ---- all edges of a graph ---- */

static enum status check_scalar(struct job *j, const char *name, float least)
{
    const struct job_request *q = &j->request;
    if (q->has_scalar && isfinite(q->scalar) && q->scalar >= least) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT,
                       q->has_scalar ? "%s: %.9g, a finite number%s wanted" : "%s: missing", name,
                       (double)q->scalar, least == 0 ? " of 0 or more" : "");
}

static enum status one_part(struct job *j, void (*run)(struct job *, uint32_t, uint32_t))
{
    operation_note_graph(j);
    j->plan.part_ns = 4 * graph_edges(j->graph);
    j->plan.run_part = run;
    j->plan.finish = operation_note_graph;
    j->plan.parts = 1;
    return STATUS_OK;
}

/* Both orientations are read, and mostly written. */
static void all_edges_work(const struct job *j, struct work *w)
{
    w->bytes_out = work_times(graph_edges(j->graph), 2 * sizeof(struct spread_edge));
}

static enum status scale_check(struct job *j)
{
    return check_scalar(j, "factor", 0);
}

static void scale_part(struct job *j, uint32_t part, uint32_t worker)
{
    graph_scale((struct graph *)j->resident, j->request.scalar, &j->failure);
}

static enum status scale_plan(struct job *j)
{
    return one_part(j, scale_part);
}

static enum status prune_check(struct job *j)
{
    return check_scalar(j, "below", -FLT_MAX);
}

static void prune_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct graph_counts counts = {0};
    graph_prune((struct graph *)j->resident, j->request.scalar, &counts, &j->failure);
    j->result.counts[1] = counts.edges_removed;
}

static enum status prune_plan(struct job *j)
{
    return one_part(j, prune_part);
}

const struct operation_ops operation_graph_scale = {
    .check = scale_check, .work = all_edges_work, .plan = scale_plan};
const struct operation_ops operation_graph_prune = {
    .check = prune_check, .work = all_edges_work, .plan = prune_plan};
