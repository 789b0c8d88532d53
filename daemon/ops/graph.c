/* graph: changes of a graph. One writer holds the graph, so one part does everything; a job that
 * is cancelled before it starts changes nothing. */
#include "daemon/ops/check.h"
#include "daemon/ops/operation_inside.h"

static enum status one_part(struct job *j, void (*run)(struct job *, uint32_t, uint32_t))
{
    operation_note_graph(j);
    j->plan.part_ns = 16 * j->body_bytes; /* an edge takes some 20 bytes, and 300 ns */
    j->plan.run_part = run;
    j->plan.finish = operation_note_graph;
    j->plan.parts = 1;
    return STATUS_OK;
}

static void note_counts(struct job *j, const struct graph_counts *c)
{
    const uint64_t counts[] = {c->edges_added,   c->edges_removed, c->nodes_added,
                               c->nodes_removed, c->missing,       c->edges_doubled};
    _Static_assert(sizeof counts == sizeof j->result.counts, "one for each");
    memcpy(j->result.counts, counts, sizeof counts);
}

static struct graph *graph_of(const struct job *j)
{
    return (struct graph *)j->resident;
}

/* ---- edges ---- */

static void add_edges_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct job_request *r = &j->request;
    struct graph_counts counts = {0};
    if (r->count_doubled && !r->replace)
        graph_add_counted(graph_of(j), r->ids.data, r->targets.data, r->weights.data, r->ids.rows,
                          &counts, &j->failure);
    else
        graph_add_edges(graph_of(j), r->ids.data, r->targets.data, r->weights.data, r->ids.rows,
                        r->replace, &counts, &j->failure);
    note_counts(j, &counts);
}

static enum status add_edges_plan(struct job *j)
{
    return one_part(j, add_edges_part);
}

static void add_csr_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct job_request *r = &j->request;
    struct graph_counts counts = {0};
    graph_add_csr(graph_of(j), is_present(&r->ids) ? r->ids.data : NULL, r->offsets.rows - 1,
                  r->offsets.data, r->targets.data, r->weights.data, r->targets.rows, r->replace,
                  &counts, &j->failure);
    note_counts(j, &counts);
}

static enum status add_csr_plan(struct job *j)
{
    return one_part(j, add_csr_part);
}

static void remove_edges_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct job_request *r = &j->request;
    struct graph_counts counts = {0};
    graph_remove_edges(graph_of(j), r->ids.data, r->targets.data, r->ids.rows, &counts,
                       &j->failure);
    note_counts(j, &counts);
}

static enum status remove_edges_plan(struct job *j)
{
    return one_part(j, remove_edges_part);
}

/* ---- nodes ---- */

static void set_nodes_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct job_request *r = &j->request;
    struct graph_counts counts = {0};
    graph_set_nodes(graph_of(j), r->ids.data, is_present(&r->kinds) ? r->kinds.data : NULL,
                    is_present(&r->factors) ? r->factors.data : NULL, r->ids.rows, &counts,
                    &j->failure);
    note_counts(j, &counts);
}

static enum status set_nodes_plan(struct job *j)
{
    return one_part(j, set_nodes_part);
}

static void remove_nodes_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct job_request *r = &j->request;
    struct graph_counts counts = {0};
    graph_remove_nodes(graph_of(j), r->ids.data, r->ids.rows, &counts, &j->failure);
    note_counts(j, &counts);
}

static enum status remove_nodes_plan(struct job *j)
{
    return one_part(j, remove_nodes_part);
}

/* ---- drop ---- */

/* Frees the pages, the slow part of a drop; the pipeline destroys the rest of the graph. What a
 * snapshot reads stays. */
static void drop_part(struct job *j, uint32_t part, uint32_t worker)
{
    j->result.counts[0] = graph_nodes(j->graph);
    j->result.counts[1] = graph_edges(j->graph);
    if (!resident_is_saved(j->resident)) graph_clear(graph_of(j));
}

static enum status drop_plan(struct job *j)
{
    return one_part(j, drop_part);
}

static enum status add_edges_check(struct job *j)
{
    const struct job_request *q = &j->request;
    enum status st = check_same_rows(j, "targets", &q->targets, "sources", &q->ids);
    return st ? st : check_same_rows(j, "weights", &q->weights, "sources", &q->ids);
}

const struct operation_ops operation_graph_add_edges = {.check = add_edges_check,
                                                        .plan = add_edges_plan};
static enum status add_csr_check(struct job *j)
{
    const struct job_request *q = &j->request;
    enum status st = STATUS_OK;
    if (q->offsets.rows == 0)
        st = check_refuse(j, DETAIL_BAD_OFFSETS, "offsets: 0, one more than rows wanted");
    else if (is_present(&q->ids) && q->ids.rows != q->offsets.rows - 1)
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                         "offsets: %" PRIu64 " for %" PRIu64 " ids, one more wanted",
                         q->offsets.rows, q->ids.rows);
    return st ? st : check_same_rows(j, "weights", &q->weights, "columns", &q->targets);
}

const struct operation_ops operation_graph_add_csr = {.check = add_csr_check, .plan = add_csr_plan};
static enum status remove_edges_check(struct job *j)
{
    return check_same_rows(j, "targets", &j->request.targets, "sources", &j->request.ids);
}

const struct operation_ops operation_graph_remove_edges = {.check = remove_edges_check,
                                                           .plan = remove_edges_plan};
static enum status set_nodes_check(struct job *j)
{
    const struct job_request *q = &j->request;
    enum status st = STATUS_OK;
    if (is_present(&q->kinds)) st = check_same_rows(j, "kinds", &q->kinds, "ids", &q->ids);
    if (!st && is_present(&q->factors))
        st = check_same_rows(j, "factors", &q->factors, "ids", &q->ids);
    return st;
}

const struct operation_ops operation_graph_set_nodes = {.check = set_nodes_check,
                                                        .plan = set_nodes_plan};
const struct operation_ops operation_graph_remove_nodes = {.plan = remove_nodes_plan};
const struct operation_ops operation_graph_drop = {.plan = drop_plan};
