/* run_bind: rows bound to rows, pair by pair, in passes over the pairs. Rows that come are checked
 * on the device; tables come from this process's own memory. */
#include "daemon/gpu/run_pairs.h"

enum { OUT_ROWS = 1, PASS_PAIRS_MIN = 16 };

/* A pass has as many pairs as have results that fit a quarter of the pool, and lasts not long. */
static void plan_passes(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t stride = vector_stride(r->dimension), count = run_pairs_count(r);
    uint64_t fit = vram_pool_usage(g->pool).slab_bytes / 4 / (stride * sizeof(float));
    uint64_t numbers = g->ops->multiply_adds(g->device) * (ORDER_PASS_NS / 1000);
    uint64_t soon = numbers / (BIND_NUMBER_MULTIPLY_ADDS * stride);
    if (fit < 1) fit = 1;
    if (soon < PASS_PAIRS_MIN) soon = PASS_PAIRS_MIN;
    t->pass_queries = soon < fit ? soon : fit;
    if (t->pass_queries > count) t->pass_queries = count;
    p->paced = t->pass_queries < count;
    p->split = p->paced && fit < soon;
    p->rereads = p->paced && (t->replica || t->other);
}

static enum order_result bind_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t row = vector_stride(r->dimension) * sizeof(float);
    enum order_result result = run_pairs_plan(g, t);
    if (result) return result;
    if (!gpu_heap(g, r->out_scores, run_pairs_count(r) * r->dimension * sizeof(float)))
        return RESULT_REFUSED;
    plan_passes(g, t);
    plan_out(p, (struct section){.bytes = t->pass_queries * row});
    if (r->normalize) p->scratch_best = p->scratch_least = t->pass_queries * sizeof(float);
    return RESULT_OK;
}

/* Once: results that get norms begin with their pads. */
static enum device_result clear_pads(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    if (t->first_query || !r->normalize || r->dimension % VECTOR_LANES == 0) return DEVICE_OK;
    return g->ops->clear(g->device, run_out_at(g, t, OUT_ROWS), t->plan.out[OUT_ROWS].bytes,
                         t->lane->stream);
}

static enum device_result normalize(struct gpu *g, struct task *t, float *out)
{
    float *norms = (float *)run_device_at(g, t, t->plan.scratch_at);
    enum device_result result = run_pairs_measure(g, t, out, norms);
    if (result) return result;
    struct device_call divide = {.kernel = KERNEL_NORMALIZE,
                                 .rows = {.dimension = t->order.run.dimension,
                                          .rows = out,
                                          .norms = norms,
                                          .count = t->pass_queries},
                                 .normalize = {.rows = out, .norms = norms}};
    return g->ops->launch(g->device, &divide, t->lane->stream);
}

static enum device_result bind_launch(struct gpu *g, struct task *t)
{
    float *out = (float *)run_out_at(g, t, OUT_ROWS);
    enum device_result result = clear_pads(g, t);
    if (!result) result = run_pairs_launch(g, t, out);
    return result || !t->order.run.normalize ? result : normalize(g, t, out);
}

static enum order_result bind_drain(struct gpu *g, struct task *t, const char *small)
{
    enum order_result result = run_pairs_checked(t, small, t->order.run.normalize);
    if (!result) run_give_rows(g, t, t->first_query, t->pass_queries, small);
    return result;
}

static bool bind_next(struct gpu *g, struct task *t)
{
    (void)g;
    t->first_query += t->pass_queries;
    return t->first_query < run_pairs_count(&t->order.run);
}

const struct run_kind run_bind = {
    .plan = bind_plan,
    .fits = run_fits_rows,
    .launch = bind_launch,
    .drain = bind_drain,
    .next = bind_next,
};
