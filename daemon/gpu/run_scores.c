/* run_scores: scores of every query against all rows or listed ones, in as many passes over the
 * queries as their scores need; and of each query against a list of its own. */
#include "daemon/gpu/run.h"

/* ---- of all pairs ---- */

static uint64_t columns_of(const struct order_run *r)
{
    return r->positions != PLACE_NONE ? r->list_count : r->row_count;
}

/* True if the front asked for the ids of all rows, which are sent once. */
static bool wants_ids(const struct order_run *r)
{
    return r->positions == PLACE_NONE && r->out_ids != PLACE_NONE;
}

/* A pass has as many queries as have scores that fit a quarter of the pool. */
static enum order_result scores_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t columns = columns_of(r), line = columns * sizeof(float);
    bool listed = r->positions != PLACE_NONE;
    if (!gpu_heap(g, r->out_scores, r->query_count * line) || !plan_queries(g, t) ||
        !plan_rows(g, t) || (listed && !plan_positions(g, t)) ||
        (wants_ids(r) && (run_brings_rows(t) || !gpu_heap(g, r->out_ids, columns * 8))))
        return RESULT_REFUSED;
    uint64_t most = vram_pool_usage(g->pool).slab_bytes / 4;
    t->pass_queries = line ? most / line : r->query_count;
    if (t->pass_queries < 1) t->pass_queries = 1;
    if (t->pass_queries > r->query_count) t->pass_queries = r->query_count;
    p->split = t->pass_queries < r->query_count;
    p->rereads = !run_brings_rows(t) && (p->split || wants_ids(r));
    return plan_sense(plan_out_at(g, p, r->out_scores, t->pass_queries * line));
}

static enum device_result scores_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t left = r->query_count - t->first_query;
    if (t->pass_queries > left) t->pass_queries = left;
    float *out = (float *)run_out_at(g, t, t->plan.out_count - 1);
    struct device_call call = {
        .metric = (enum metric)r->metric,
        .rows = run_rows(g, t),
        .queries = run_queries(g, t, t->first_query, t->pass_queries),
    };
    if (r->positions != PLACE_NONE) {
        const char *positions = run_device_at(g, t, t->plan.in[1].at);
        call.kernel = KERNEL_GATHER_LISTS;
        call.lists.positions = (const uint32_t *)positions;
        call.lists.count = r->list_count;
        call.lists.out = out;
    } else {
        call.kernel = call.queries.count == 1 ? KERNEL_SCAN : KERNEL_TILE;
        call.scores.out = out;
        call.scores.stride = call.rows.count;
    }
    return g->ops->launch(g->device, &call, t->lane->stream);
}

static enum order_result scores_drain(struct gpu *g, struct task *t, const char *small)
{
    const struct order_run *r = &t->order.run;
    uint64_t line = columns_of(r) * sizeof(float), id_bytes = r->row_count * sizeof(uint64_t);
    struct section pass = t->plan.out[t->plan.out_count - 1];
    pass.bytes = t->pass_queries * line;
    pass.host += t->first_query * line;
    run_give(g, t, &pass, small);
    if (!wants_ids(r) || t->ids_sent) return RESULT_OK;
    t->ids_sent = true;
    t->out.moves[t->out.move_count++] = (struct move){
        .from = {.host = gpu_heap(g, r->out_ids, id_bytes), .bytes = id_bytes},
        .device = (char *)replica_ids(t->replica),
    };
    return RESULT_OK;
}

static bool scores_next(struct gpu *g, struct task *t)
{
    (void)g;
    t->first_query += t->pass_queries;
    return t->first_query < t->order.run.query_count;
}

const struct run_kind run_scores = {
    .plan = scores_plan,
    .fits = run_fits_rows,
    .launch = scores_launch,
    .drain = scores_drain,
    .next = scores_next,
    .part = run_part_queries,
};

/* ---- of lists ---- */

enum { IN_LIST = 1, IN_OFFSETS = 2 }; /* rows that come with the order take the place of the list */

static enum order_result lists_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    return plan_sense(plan_queries(g, t) &&
                      (run_brings_rows(t) ? plan_rows(g, t) : plan_positions(g, t)) &&
                      plan_numbers(g, &t->plan, r->offsets, (r->query_count + 1) * sizeof(uint64_t),
                                   NUMBERS_OFFSETS, r->list_count) &&
                      plan_out_at(g, &t->plan, r->out_scores, r->list_count * sizeof(float)));
}

static enum device_result lists_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct task_plan *p = &t->plan;
    const char *list = run_device_at(g, t, p->in[IN_LIST].at);
    struct device_call call = {
        .kernel = KERNEL_GATHER_LISTS,
        .metric = (enum metric)r->metric,
        .rows = run_rows(g, t),
        .queries = run_queries(g, t, 0, r->query_count),
        .lists = {.positions = run_brings_rows(t) ? NULL : (const uint32_t *)list,
                  .offsets = (const uint64_t *)run_device_at(g, t, p->in[IN_OFFSETS].at),
                  .count = r->list_count,
                  .out = (float *)run_out_at(g, t, p->out_count - 1)},
    };
    return g->ops->launch(g->device, &call, t->lane->stream);
}

const struct run_kind run_lists = {
    .plan = lists_plan,
    .fits = run_fits_rows,
    .launch = lists_launch,
    .drain = run_drain_all,
    .next = run_next_none,
};
