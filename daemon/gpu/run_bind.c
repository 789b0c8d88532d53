/* run_bind: rows bound to rows, pair by pair, in passes over the pairs. Rows that come are checked
 * on the device; tables come from this process's own memory. */
#include <string.h>

#include "daemon/gpu/run.h"

/* What comes back first: which row of an operand is not finite, which pair overflows, which
 * result's norm does. UINT64_MAX: none. */
enum { CHECK_FIRST, CHECK_OTHER, CHECK_PAIRS, CHECK_NORMS, CHECKS };
enum { OUT_CHECKS, OUT_ROWS };

/* A number of a result takes about as long as so many multiply-adds of scores: an H200 binds
 * 100,000 pairs of 1,024 numbers in some 0.4 ms. */
enum { NUMBER_MULTIPLY_ADDS = 256, PASS_PAIRS_MIN = 16 };

enum { NO_SECTION = UINT32_MAX };

static struct order_operand operand_of(const struct order_run *r, uint32_t i)
{
    if (i) return r->other;
    return (struct order_operand){r->rows, r->row_count, r->positions, r->list_count};
}

static uint64_t pairs_of(const struct order_run *r)
{
    return r->list_count == 1 ? r->other.count : r->list_count;
}

static bool comes(const struct task *t, uint32_t i)
{
    return operand_of(&t->order.run, i).rows != PLACE_NONE;
}

/* ---- the plan ---- */

static bool is_operand(const struct order_operand *o, uint64_t pairs)
{
    const uint64_t most = UINT64_C(1) << 40;
    bool counted = o->count >= 1 && o->count <= most && (o->count == 1 || o->count == pairs);
    if (!counted || o->row_count > UINT64_C(1) << 32) return false;
    return (o->rows != PLACE_NONE) == (o->positions == PLACE_NONE) &&
           (o->rows == PLACE_NONE || o->count == o->row_count);
}

static bool makes_sense(const struct order_run *r)
{
    struct order_operand first = operand_of(r, 0);
    return r->form <= HRR_UNBIND && hrr_runs_on_device(r->dimension, (enum hrr_form)r->form) &&
           is_operand(&first, pairs_of(r)) && is_operand(&r->other, pairs_of(r));
}

/* Of one row of a replica the place is looked up here, and the kernel reads no positions. */
static bool plan_one_row(struct gpu *g, struct task *t, uint32_t i)
{
    struct order_operand o = operand_of(&t->order.run, i);
    uint32_t row;
    const void *position = gpu_heap(g, o.positions, sizeof row);
    if (!position) return false;
    memcpy(&row, position, sizeof row);
    t->bind.operands[i] = (struct task_operand){.section = NO_SECTION, .row = row};
    return row < o.row_count;
}

static bool plan_operand(struct gpu *g, struct task *t, uint32_t i)
{
    const struct order_run *r = &t->order.run;
    struct order_operand o = operand_of(r, i);
    struct task_plan *p = &t->plan;
    if (!comes(t, i) && o.count == 1) return plan_one_row(g, t, i);
    t->bind.operands[i] = (struct task_operand){.section = p->in_count};
    if (!comes(t, i))
        return plan_numbers(g, p, o.positions, o.count * sizeof(uint32_t), NUMBERS_POSITIONS,
                            o.row_count);
    char *host = gpu_heap(g, o.rows, o.count * r->dimension * sizeof(float));
    plan_in(p, (struct section){.host = host,
                                .bytes = o.count * vector_stride(r->dimension) * sizeof(float),
                                .rows = o.count,
                                .dimension = r->dimension,
                                .bare = true});
    return host;
}

/* A pass has as many pairs as have results that fit a quarter of the pool, and lasts not long. */
static void plan_passes(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t stride = vector_stride(r->dimension), count = pairs_of(r);
    uint64_t fit = vram_pool_usage(g->pool).slab_bytes / 4 / (stride * sizeof(float));
    uint64_t numbers = g->ops->multiply_adds(g->device) * (ORDER_PASS_NS / 1000);
    uint64_t soon = numbers / (NUMBER_MULTIPLY_ADDS * stride);
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
    if (!makes_sense(r) || !plan_operand(g, t, 0) || !plan_operand(g, t, 1) ||
        !gpu_heap(g, r->out_scores, pairs_of(r) * r->dimension * sizeof(float)))
        return RESULT_REFUSED;
    if (!t->bind.tables) t->bind.tables = bind_tables_take(&g->bind_tables, r->dimension);
    if (!t->bind.tables) return RESULT_NO_MEMORY;
    const struct hrr_plan *plan = t->bind.tables->plan;
    t->bind.section = p->in_count;
    plan_in(p, (struct section){.host = (char *)plan, .bytes = plan->exact_roots * sizeof(float)});
    plan_out(p, (struct section){.bytes = CHECKS * sizeof(uint64_t)});
    p->out_small = p->out_bytes;
    plan_passes(g, t);
    plan_out(p, (struct section){.bytes = t->pass_queries * row});
    if (r->normalize) p->scratch_best = p->scratch_least = t->pass_queries * sizeof(float);
    return RESULT_OK;
}

/* ---- launching ---- */

static const char *section_at(const struct gpu *g, const struct task *t, uint32_t section)
{
    return run_device_at(g, t, t->plan.in[section].at);
}

/* The rows of a pass. */
static struct cuda_hrr_rows rows_of(const struct gpu *g, const struct task *t, uint32_t i)
{
    struct order_operand o = operand_of(&t->order.run, i);
    const struct task_operand *at = &t->bind.operands[i];
    const struct replica *replica = i ? t->other : t->replica;
    uint64_t stride = vector_stride(t->order.run.dimension);
    struct cuda_hrr_rows rows = {.step = o.count == 1 ? 0 : stride};
    if (comes(t, i)) {
        rows.rows = (const float *)section_at(g, t, at->section) + t->first_query * rows.step;
    } else if (o.count == 1) {
        rows.rows = replica_rows(replica).rows + at->row * stride;
    } else {
        rows.rows = replica_rows(replica).rows;
        rows.positions = (const uint32_t *)section_at(g, t, at->section) + t->first_query;
    }
    return rows;
}

static enum device_result check_rows(struct gpu *g, struct task *t, uint32_t i)
{
    const struct section *s = &t->plan.in[t->bind.operands[i].section];
    float *norms = (float *)run_device_at(g, t, s->norms_at);
    struct cuda_rows rows = {.dimension = s->dimension,
                             .rows = (const float *)run_device_at(g, t, s->at),
                             .count = s->rows};
    return run_measure(g, t, &rows, norms, (uint64_t *)run_out_at(g, t, OUT_CHECKS) + i);
}

/* Once: rows are checked, and results that get norms begin with their pads. */
static enum device_result begin(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    enum device_result result = DEVICE_OK;
    for (uint32_t i = 0; i < 2 && result == DEVICE_OK; i++)
        if (comes(t, i)) result = check_rows(g, t, i);
    if (result || !r->normalize || r->dimension % VECTOR_LANES == 0) return result;
    return g->ops->clear(g->device, run_out_at(g, t, OUT_ROWS), t->plan.out[OUT_ROWS].bytes,
                         t->lane->stream);
}

static enum device_result normalize(struct gpu *g, struct task *t)
{
    float *norms = (float *)run_device_at(g, t, t->plan.scratch_at);
    float *out = (float *)run_out_at(g, t, OUT_ROWS);
    struct cuda_rows rows = {
        .dimension = t->order.run.dimension, .rows = out, .count = t->pass_queries};
    enum device_result result =
        run_measure(g, t, &rows, norms, (uint64_t *)run_out_at(g, t, OUT_CHECKS) + CHECK_NORMS);
    if (result) return result;
    rows.norms = norms;
    struct device_call divide = {
        .kernel = KERNEL_NORMALIZE, .rows = rows, .normalize = {.rows = out, .norms = norms}};
    return g->ops->launch(g->device, &divide, t->lane->stream);
}

static enum device_result bind_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t left = pairs_of(r) - t->first_query;
    if (t->pass_queries > left) t->pass_queries = left;
    enum device_result result = t->first_query == 0 ? begin(g, t) : DEVICE_OK;
    if (result) return result;
    struct device_call call = {
        .kernel = KERNEL_BIND,
        .bind = {.plan = t->bind.tables->plan,
                 .tables = (const float *)section_at(g, t, t->bind.section),
                 .form = (enum hrr_form)r->form,
                 .a = rows_of(g, t, 0),
                 .b = rows_of(g, t, 1),
                 .count = t->pass_queries,
                 .out = (float *)run_out_at(g, t, OUT_ROWS),
                 .out_step = vector_stride(r->dimension),
                 .failed = (uint64_t *)run_out_at(g, t, OUT_CHECKS) + CHECK_PAIRS},
    };
    result = g->ops->launch(g->device, &call, t->lane->stream);
    return result || !r->normalize ? result : normalize(g, t);
}

/* ---- the way back ---- */

/* Returns the first pair that an operand, or a pass, spoils; UINT64_MAX: none. */
static uint64_t bad_pair(const struct task *t, const uint64_t checks[CHECKS])
{
    const struct order_run *r = &t->order.run;
    uint64_t bad = UINT64_MAX;
    for (uint32_t i = 0; i < CHECKS; i++) {
        uint64_t at = checks[i];
        bool looked_at = i < CHECK_PAIRS ? comes(t, i) : i == CHECK_PAIRS || r->normalize;
        if (!looked_at || at == UINT64_MAX) continue;
        if (i >= CHECK_PAIRS) at += t->first_query;
        if (at < bad) bad = at;
    }
    return bad;
}

static enum order_result bind_drain(struct gpu *g, struct task *t, const char *small)
{
    const struct order_run *r = &t->order.run;
    uint64_t checks[CHECKS];
    memcpy(checks, small + t->plan.out[OUT_CHECKS].at, sizeof checks);
    uint64_t bad = bad_pair(t, checks);
    if (bad != UINT64_MAX) {
        t->number = bad;
        return bad < pairs_of(r) ? RESULT_BAD_ROW : RESULT_ERROR;
    }
    run_give_rows(g, t, t->first_query, t->pass_queries, small);
    return RESULT_OK;
}

static bool bind_next(struct gpu *g, struct task *t)
{
    (void)g;
    t->first_query += t->pass_queries;
    return t->first_query < pairs_of(&t->order.run);
}

const struct run_kind run_bind = {
    .plan = bind_plan,
    .fits = run_fits_rows,
    .launch = bind_launch,
    .drain = bind_drain,
    .next = bind_next,
};
