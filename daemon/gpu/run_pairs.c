#include "daemon/gpu/run_pairs.h"

#include <string.h>

enum { OUT_CHECKS = 0 };
enum { NO_SECTION = UINT32_MAX };

/* A cleanup's own replica is the codebook, before those of its operands. */
static bool is_cleanup(const struct order_run *r)
{
    return r->operation == RUN_CLEANUP;
}

static struct order_operand operand_of(const struct order_run *r, uint32_t i)
{
    if (i) return r->other;
    if (is_cleanup(r)) return r->cue;
    return (struct order_operand){r->rows, r->row_count, r->positions, r->list_count};
}

static const struct replica *replica_of(const struct task *t, uint32_t i)
{
    if (is_cleanup(&t->order.run)) return i ? t->third : t->other;
    return i ? t->other : t->replica;
}

uint64_t run_pairs_count(const struct order_run *r)
{
    uint64_t count = operand_of(r, 0).count;
    return count == 1 ? r->other.count : count;
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
    return r->form <= HRR_UNBIND_EXACT && hrr_has_form(r->dimension, (enum hrr_form)r->form) &&
           is_operand(&first, run_pairs_count(r)) && is_operand(&r->other, run_pairs_count(r));
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

enum order_result run_pairs_plan(struct gpu *g, struct task *t)
{
    struct task_plan *p = &t->plan;
    if (!makes_sense(&t->order.run) || !plan_operand(g, t, 0) || !plan_operand(g, t, 1))
        return RESULT_REFUSED;
    if (!t->bind.tables) t->bind.tables = bind_tables_take(&g->bind_tables, t->order.run.dimension);
    if (!t->bind.tables) return RESULT_NO_MEMORY;
    const struct hrr_plan *plan = t->bind.tables->plan;
    t->bind.section = p->in_count;
    bool exact = t->order.run.form == HRR_UNBIND_EXACT;
    uint32_t numbers = exact ? plan->end : plan->exact_roots;
    plan_in(p, (struct section){.host = (char *)plan, .bytes = numbers * sizeof(float)});
    plan_out(p, (struct section){.bytes = BIND_CHECKS * sizeof(uint64_t)});
    p->out_small = p->out_bytes;
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
    const struct replica *replica = replica_of(t, i);
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

static uint64_t *checks_at(const struct gpu *g, const struct task *t)
{
    return (uint64_t *)run_out_at(g, t, OUT_CHECKS);
}

static enum device_result check_rows(struct gpu *g, struct task *t, uint32_t i)
{
    const struct section *s = &t->plan.in[t->bind.operands[i].section];
    float *norms = (float *)run_device_at(g, t, s->norms_at);
    struct cuda_rows rows = {.dimension = s->dimension,
                             .rows = (const float *)run_device_at(g, t, s->at),
                             .count = s->rows};
    return run_measure(g, t, &rows, norms, checks_at(g, t) + i);
}

struct cuda_hrr_scratch run_pairs_scratch(const struct gpu *g, const struct task *t, uint64_t pairs)
{
    return g->ops->bind_scratch(t->bind.tables->plan, pairs);
}

enum device_result run_pairs_launch(struct gpu *g, struct task *t, float *out, void *scratch,
                                    uint64_t scratch_bytes)
{
    const struct order_run *r = &t->order.run;
    enum device_result result = DEVICE_OK;
    uint64_t left = run_pairs_count(r) - t->first_query;
    if (t->pass_queries > left) t->pass_queries = left;
    for (uint32_t i = 0; i < 2 && t->first_query == 0 && result == DEVICE_OK; i++)
        if (comes(t, i)) result = check_rows(g, t, i);
    if (result) return result;
    struct device_call call = {
        .kernel = KERNEL_BIND,
        .bind = {.plan = t->bind.tables->plan,
                 .tables = (const float *)section_at(g, t, t->bind.section),
                 .form = (enum hrr_form)r->form,
                 .a = rows_of(g, t, 0),
                 .b = rows_of(g, t, 1),
                 .count = t->pass_queries,
                 .out = out,
                 .out_step = vector_stride(r->dimension),
                 .failed = checks_at(g, t) + CHECK_PAIRS,
                 .scratch = scratch,
                 .scratch_bytes = scratch_bytes},
    };
    return g->ops->launch(g->device, &call, t->lane->stream);
}

uint64_t *run_pairs_norms_check(const struct gpu *g, const struct task *t)
{
    return checks_at(g, t) + CHECK_NORMS;
}

/* ---- results ---- */

enum device_result run_measure_results(struct gpu *g, struct task *t, const float *out,
                                       float *norms, uint64_t *bad)
{
    struct cuda_rows rows = {
        .dimension = t->order.run.dimension, .rows = out, .count = t->pass_queries};
    return run_measure(g, t, &rows, norms, bad);
}

enum device_result run_normalize(struct gpu *g, struct task *t, float *out, float *norms,
                                 uint64_t *bad)
{
    enum device_result result = run_measure_results(g, t, out, norms, bad);
    if (result) return result;
    struct device_call divide = {.kernel = KERNEL_NORMALIZE,
                                 .rows = {.dimension = t->order.run.dimension,
                                          .rows = out,
                                          .norms = norms,
                                          .count = t->pass_queries},
                                 .normalize = {.rows = out, .norms = norms}};
    return g->ops->launch(g->device, &divide, t->lane->stream);
}

/* ---- the way back ---- */

enum order_result run_pairs_checked(struct task *t, const char *small, bool measured)
{
    uint64_t checks[BIND_CHECKS], bad = UINT64_MAX;
    memcpy(checks, small + t->plan.out[OUT_CHECKS].at, sizeof checks);
    for (uint32_t i = 0; i < BIND_CHECKS; i++) {
        uint64_t at = checks[i];
        bool looked_at = i < CHECK_PAIRS ? comes(t, i) : i == CHECK_PAIRS || measured;
        if (!looked_at || at == UINT64_MAX) continue;
        if (i >= CHECK_PAIRS) at += t->first_query;
        if (at < bad) bad = at;
    }
    if (bad == UINT64_MAX) return RESULT_OK;
    t->number = bad;
    return bad < run_pairs_count(&t->order.run) ? RESULT_BAD_ROW : RESULT_ERROR;
}
