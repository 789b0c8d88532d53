/* run_product: products of lists of rows, in passes over the lists. */
#include <string.h>

#include "daemon/gpu/run_pairs.h"

/* Rows that come with the order, or positions, come first; offsets and tables follow. */
enum { IN_POSITIONS = 0, IN_OFFSETS = 1, IN_TABLES = 2 };

/* The last but one of the results: which list has no product, and which product no norm. */
enum { CHECK_LISTS, CHECK_LIST_NORMS, PRODUCT_CHECKS };

/* A kernel for any list takes about so many times what that of pairs does. */
enum { LIST_TIMES = 8, PASS_LISTS_MIN = 16 };

static bool makes_sense(const struct order_run *r)
{
    return hrr_has_form(r->dimension, HRR_BIND) && r->query_count >= 1 && r->k >= 1 &&
           (r->rows == PLACE_NONE) == (r->positions != PLACE_NONE);
}

/* A pass has as many lists as have results that fit a quarter of the pool, and lasts not long. */
static void plan_passes(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t stride = vector_stride(r->dimension);
    uint64_t fit = vram_pool_usage(g->pool).slab_bytes / 4 / (stride * sizeof(float));
    uint64_t a_list = (uint64_t)LIST_TIMES * BIND_NUMBER_MULTIPLY_ADDS * stride * r->k;
    uint64_t soon = g->ops->multiply_adds(g->device) * (ORDER_PASS_NS / 1000) / a_list;
    if (fit < 1) fit = 1;
    if (soon < PASS_LISTS_MIN) soon = PASS_LISTS_MIN;
    t->pass_queries = soon < fit ? soon : fit;
    if (t->pass_queries > r->query_count) t->pass_queries = r->query_count;
    p->paced = t->pass_queries < r->query_count;
    p->split = p->paced && fit < soon;
    p->rereads = p->paced && t->replica;
}

/* Norms come first in scratch. */
static uint64_t norm_bytes(const struct task *t)
{
    return t->order.run.normalize ? (t->pass_queries * sizeof(float) + 255) / 256 * 256 : 0;
}

static enum order_result product_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t row = vector_stride(r->dimension) * sizeof(float), lists = r->query_count;
    if (!makes_sense(r) || !gpu_heap(g, r->out_scores, lists * r->dimension * sizeof(float)) ||
        !(run_brings_rows(t) ? plan_rows(g, t) : plan_positions(g, t)) ||
        !plan_numbers(g, p, r->offsets, (lists + 1) * sizeof(uint64_t), NUMBERS_OFFSETS,
                      r->list_count))
        return RESULT_REFUSED;
    if (!t->bind.tables) t->bind.tables = bind_tables_take(&g->bind_tables, r->dimension);
    if (!t->bind.tables) return RESULT_NO_MEMORY;
    const struct hrr_plan *plan = t->bind.tables->plan;
    plan_in(p, (struct section){.host = (char *)plan, .bytes = plan->exact_roots * sizeof(float)});
    plan_out(p, (struct section){.bytes = PRODUCT_CHECKS * sizeof(uint64_t)});
    p->out_small = p->out_bytes;
    plan_passes(g, t);
    plan_out(p, (struct section){.bytes = t->pass_queries * row});
    struct cuda_hrr_scratch scratch = run_pairs_scratch(g, t, t->pass_queries);
    p->scratch_best = scratch.best + norm_bytes(t);
    p->scratch_least = scratch.least + norm_bytes(t);
    return RESULT_OK;
}

static const char *in_at(const struct gpu *g, const struct task *t, uint32_t i)
{
    return run_device_at(g, t, t->plan.in[i].at);
}

static uint64_t *checks_at(const struct gpu *g, const struct task *t)
{
    return (uint64_t *)run_out_at(g, t, t->plan.out_count - 2);
}

static enum device_result product_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    struct cuda_rows rows = run_rows(g, t);
    float *out = (float *)run_out_at(g, t, p->out_count - 1);
    char *scratch = run_device_at(g, t, p->scratch_at);
    uint64_t left = r->query_count - t->first_query, norms = norm_bytes(t);
    bool padded = r->dimension % VECTOR_LANES != 0;
    if (t->pass_queries > left) t->pass_queries = left;
    struct device_call call = {
        .kernel = KERNEL_BIND,
        .bind = {.plan = t->bind.tables->plan,
                 .tables = (const float *)in_at(g, t, IN_TABLES),
                 .a = {.rows = rows.rows, .step = vector_stride(r->dimension)},
                 .offsets = (const uint64_t *)in_at(g, t, IN_OFFSETS) + t->first_query,
                 .count = t->pass_queries,
                 .out = out,
                 .out_step = vector_stride(r->dimension),
                 .failed = checks_at(g, t) + CHECK_LISTS,
                 .scratch = scratch + norms,
                 .scratch_bytes = p->scratch_bytes - norms},
    };
    if (!run_brings_rows(t)) call.bind.a.positions = (const uint32_t *)in_at(g, t, IN_POSITIONS);
    enum device_result result = DEVICE_OK;
    if (padded && r->normalize && t->first_query == 0)
        result = g->ops->clear(g->device, out, p->out[p->out_count - 1].bytes, t->lane->stream);
    if (!result) result = g->ops->launch(g->device, &call, t->lane->stream);
    if (result || !r->normalize) return result;
    return run_normalize(g, t, out, (float *)scratch, checks_at(g, t) + CHECK_LIST_NORMS);
}

static enum order_result product_drain(struct gpu *g, struct task *t, const char *small)
{
    uint64_t checks[PRODUCT_CHECKS];
    memcpy(checks, small + t->plan.out[t->plan.out_count - 2].at, sizeof checks);
    uint64_t bad = checks[CHECK_LISTS];
    if (t->order.run.normalize && checks[CHECK_LIST_NORMS] < bad) bad = checks[CHECK_LIST_NORMS];
    if (bad != UINT64_MAX) {
        t->number = t->first_query + bad;
        return bad < t->pass_queries ? RESULT_BAD_ROW : RESULT_ERROR;
    }
    run_give_rows(g, t, t->first_query, t->pass_queries, small);
    return RESULT_OK;
}

static bool product_next(struct gpu *g, struct task *t)
{
    (void)g;
    t->first_query += t->pass_queries;
    return t->first_query < t->order.run.query_count;
}

const struct run_kind run_product = {
    .plan = product_plan,
    .fits = run_fits_rows,
    .launch = product_launch,
    .drain = product_drain,
    .next = product_next,
    .part = run_part_queries,
};
