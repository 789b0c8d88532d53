/* run_direct: one query whose elements travel with the launch, and few results, which the kernel
 * stores into pinned memory: one call of the driver where a copy in, a launch, a copy out and an
 * event are four. */
#include <math.h>
#include <string.h>

#include "daemon/gpu/replica_shadow.h"
#include "daemon/gpu/run.h"

enum { IDS = 0, SCORES = 1, COUNTS = 2, OUTPUTS = 3 };

/* Where the results go in the heap: by the kind of result. */
struct outputs {
    char *at[OUTPUTS];
};

static uint32_t k_of(const struct task *t)
{
    return t->order.run.operation == RUN_KNN ? t->order.run.k : 0;
}

/* False: a place is outside of the heap. */
static bool find_outputs(const struct gpu *g, const struct task *t, struct outputs *out)
{
    const struct order_run *r = &t->order.run;
    uint32_t k = k_of(t);
    *out = (struct outputs){{NULL}};
    out->at[SCORES] = gpu_heap(g, r->out_scores, (k ? k : r->row_count) * sizeof(float));
    if (k) out->at[IDS] = gpu_heap(g, r->out_ids, k * sizeof(uint64_t));
    if (k) out->at[COUNTS] = gpu_heap(g, r->out_counts, sizeof(uint32_t));
    return out->at[SCORES] && (!k || (out->at[IDS] && out->at[COUNTS]));
}

static const float *query_of(const struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    if (r->queries == PLACE_WITH_ORDER) return t->query;
    return gpu_heap(g, r->queries, r->dimension * sizeof(float));
}

/* With room for what a shadow tells: whether it is asked is known at the launch. */
static uint32_t cells_of(const struct task *t)
{
    uint32_t k = k_of(t);
    return (uint32_t)(k ? cells_count_shadow(k) : cells_count(0, t->order.run.row_count));
}

static enum order_result direct_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint32_t k = k_of(t);
    struct outputs out;
    if (!query_of(g, t) || !find_outputs(g, t, &out)) return RESULT_REFUSED;
    t->plan.cell_bytes = cells_of(t) * sizeof(uint64_t);
    t->plan.scratch_best = g->ops->direct_scratch_best(k);
    t->plan.scratch_least = g->ops->direct_scratch_min(k);
    if (k && replica_shadow_helps_direct(g, t->replica, k)) {
        uint64_t bytes = g->ops->shadow_direct_scratch(r->row_count);
        if (bytes > t->plan.scratch_best) t->plan.scratch_best = bytes;
    }
    return RESULT_OK;
}

enum order_result run_direct_fill(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const float *query = query_of(g, t);
    size_t stride = vector_stride(r->dimension);
    if (!query) return RESULT_REFUSED;
    if (query != t->query) memcpy(t->query, query, r->dimension * sizeof *query);
    memset(t->query + r->dimension, 0, (stride - r->dimension) * sizeof *query);
    g->kernels->norms(r->dimension, t->query, 1, &t->query_norm);
    if (vectors_find_bad(&t->query_norm, 1) == 0) {
        t->number = 0;
        return RESULT_BAD_QUERY;
    }
    if (++g->tag == 0) g->tag = 1;
    cells_init(&t->cells, (uint64_t *)(g->pinned + t->pinned.offset), cells_of(t), g->tag);
    return RESULT_OK;
}

/* Decides whether the shadow is asked. */
static bool through_shadow(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    if (r->operation != RUN_KNN) return false;
    replica_shadow_retry(g, t->replica, t->lane->stream);
    if (replica_shadow_helps_direct(g, t->replica, r->k) &&
        g->ops->shadow_direct_scratch(r->row_count) <= t->plan.scratch_bytes)
        return true;
    if (replica_shadow_rest(g, t->replica)) t->screen = SCREEN_RESTED;
    return false;
}

static enum device_result enqueue(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct device_call call = {
        .kernel = t->shadowed ? KERNEL_SHADOW_DIRECT : KERNEL_DIRECT,
        .metric = (enum metric)r->metric,
        .rows = replica_rows(t->replica),
        .direct = {.query = t->query,
                   .query_norm = t->query_norm,
                   .tag = t->cells.tag,
                   .k = k_of(t),
                   .ids = replica_ids(t->replica),
                   .threshold = r->has_threshold ? &r->threshold : NULL,
                   .scratch = run_device_at(g, t, t->plan.scratch_at),
                   .scratch_bytes = t->plan.scratch_bytes,
                   .cells = t->cells.at},
    };
    if (t->shadowed) call.shadow = replica_shadow(t->replica);
    if (!t->shadowed) t->cells.count = (uint32_t)cells_count(k_of(t), r->row_count);
    return g->ops->launch(g->device, &call, t->lane->stream);
}

/* A device that cannot start all blocks of a launch together, for what others do on it, is asked
 * without the shadow. */
static enum device_result direct_launch(struct gpu *g, struct task *t)
{
    t->shadowed = through_shadow(g, t);
    enum device_result result = enqueue(g, t);
    if (result != DEVICE_ERROR || !t->shadowed) return result;
    t->shadowed = false;
    return enqueue(g, t);
}

static void give_scores(const struct task *t, char *to)
{
    for (uint32_t i = 0; i < t->cells.count; i++) {
        uint32_t bits = cells_number(&t->cells, i);
        memcpy(to + i * sizeof bits, &bits, sizeof bits);
    }
}

static void give_best(const struct task *t, const struct outputs *out)
{
    uint64_t ids[ORDER_DIRECT_K_MAX];
    float scores[ORDER_DIRECT_K_MAX];
    const struct cells *c = &t->cells;
    uint32_t k = k_of(t), count = cells_number(c, 0);
    if (count > k) count = k;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = cells_number(c, 1 + 2 * k + i);
        ids[i] = cells_number(c, 1 + i) | (uint64_t)cells_number(c, 1 + k + i) << 32;
        memcpy(&scores[i], &bits, sizeof bits);
    }
    run_fill_rest(ids, scores, count, k);
    memcpy(out->at[IDS], ids, k * sizeof *ids);
    memcpy(out->at[SCORES], scores, k * sizeof *scores);
    memcpy(out->at[COUNTS], &count, sizeof count);
}

static enum order_result direct_drain(struct gpu *g, struct task *t, const char *small)
{
    struct outputs out;
    (void)small;
    if (!find_outputs(g, t, &out)) return RESULT_REFUSED;
    if (k_of(t))
        give_best(t, &out);
    else
        give_scores(t, out.at[SCORES]);
    if (!t->shadowed) return RESULT_OK;
    t->passed = cells_number(&t->cells, t->cells.count - 1);
    t->read_bytes = shadow_bytes(t->order.run.dimension, t->order.run.row_count);
    run_tell_screen(g, t);
    return RESULT_OK;
}

const struct run_kind run_direct = {
    .plan = direct_plan,
    .fits = run_fits_rows,
    .launch = direct_launch,
    .drain = direct_drain,
    .next = run_next_none,
};
