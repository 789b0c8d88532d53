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

/* Norms come first in scratch. */
static uint64_t norm_bytes(const struct task *t)
{
    return t->order.run.normalize ? (t->pass_queries * sizeof(float) + 255) / 256 * 256 : 0;
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
    struct cuda_hrr_scratch pairs = run_pairs_scratch(g, t, t->pass_queries);
    p->scratch_best = pairs.best + norm_bytes(t);
    p->scratch_least = pairs.least + norm_bytes(t);
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

static enum device_result bind_launch(struct gpu *g, struct task *t)
{
    float *out = (float *)run_out_at(g, t, OUT_ROWS);
    uint64_t norms = norm_bytes(t);
    char *scratch = run_device_at(g, t, t->plan.scratch_at) + norms;
    enum device_result result = clear_pads(g, t);
    if (!result) result = run_pairs_launch(g, t, out, scratch, t->plan.scratch_bytes - norms);
    if (result || !t->order.run.normalize) return result;
    return run_normalize(g, t, out, (float *)(scratch - norms), run_pairs_norms_check(g, t));
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

static double bind_part(const struct task *t)
{
    return (double)t->pass_queries / (double)run_pairs_count(&t->order.run);
}

const struct run_kind run_bind = {
    .plan = bind_plan,
    .fits = run_fits_rows,
    .launch = bind_launch,
    .drain = bind_drain,
    .next = bind_next,
    .part = bind_part,
};
