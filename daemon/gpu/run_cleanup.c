/* run_cleanup: rows unbound from rows, and the k best rows of a codebook for each result, in passes
 * over the pairs; what was unbound stays in VRAM. */
#include "daemon/gpu/run_pairs.h"

enum { OUT_IDS = 1, OUT_SCORES, OUT_COUNTS };
enum { PASS_PAIRS_MIN = 16, PASS_TILE = 128, BEAT_QUERIES = 256 };

static uint64_t in_blocks(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* The scratch of a pass: what was unbound, its norms, for binding, and for the best. */
struct cleanup_scratch {
    uint64_t row_bytes, norm_bytes, bind_bytes;
};

static struct cleanup_scratch scratch_of(const struct gpu *g, const struct task *t)
{
    uint64_t row = vector_stride(t->order.run.dimension) * sizeof(float), pairs = t->pass_queries;
    return (struct cleanup_scratch){in_blocks(pairs * row), in_blocks(pairs * sizeof(float)),
                                    run_pairs_scratch(g, t, pairs).best};
}

/* A pass takes about ORDER_PASS_NS, so that others of the space run between them. */
static void plan_passes(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t known = t->replica->multiply_adds;
    uint64_t rate = known ? known : g->ops->multiply_adds(g->device);
    uint64_t a_pair = (r->row_count + BIND_NUMBER_MULTIPLY_ADDS) * vector_stride(r->dimension);
    uint64_t pairs = rate * (ORDER_PASS_NS / 1000) / a_pair;
    if (pairs > PASS_TILE) pairs = pairs / PASS_TILE * PASS_TILE;
    if (pairs < PASS_PAIRS_MIN) pairs = PASS_PAIRS_MIN;
    t->pass_queries = pairs < r->query_count ? pairs : r->query_count;
    p->paced = p->rereads = t->pass_queries < r->query_count;
    struct cleanup_scratch s = scratch_of(g, t);
    uint64_t rows = s.row_bytes + s.norm_bytes + s.bind_bytes;
    p->scratch_best = rows + g->ops->topk_scratch_best(t->pass_queries, r->k, r->row_count);
    p->scratch_least = rows + g->ops->topk_scratch_min(t->pass_queries, r->k, r->row_count);
}

static enum order_result cleanup_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    if (r->form == HRR_BIND || r->k < 1 || r->k > TOPK_K_MAX || !r->row_count)
        return RESULT_REFUSED;
    enum order_result result = run_pairs_plan(g, t);
    if (result) return result;
    uint64_t places = r->query_count * r->k;
    if (r->query_count != run_pairs_count(r) ||
        !plan_out_at(g, p, r->out_ids, places * sizeof(uint64_t)) ||
        !plan_out_at(g, p, r->out_scores, places * sizeof(float)) ||
        !plan_out_at(g, p, r->out_counts, r->query_count * sizeof(uint32_t)))
        return RESULT_REFUSED;
    plan_passes(g, t);
    return RESULT_OK;
}

static enum device_result find_best(struct gpu *g, struct task *t, const float *rows,
                                    const float *norms, char *scratch, uint64_t scratch_bytes)
{
    const struct order_run *r = &t->order.run;
    uint64_t first = t->first_query;
    struct device_call call = {
        .kernel = KERNEL_TOPK,
        .metric = (enum metric)r->metric,
        .rows = replica_rows(t->replica),
        .queries = {.rows = rows, .norms = norms, .count = t->pass_queries},
        .topk = {.k = r->k,
                 .ids = replica_ids(t->replica),
                 .threshold = r->has_threshold ? &r->threshold : NULL,
                 .scratch = scratch,
                 .scratch_bytes = scratch_bytes,
                 .out_ids = (uint64_t *)run_out_at(g, t, OUT_IDS) + first * r->k,
                 .out_scores = (float *)run_out_at(g, t, OUT_SCORES) + first * r->k,
                 .out_counts = (uint32_t *)run_out_at(g, t, OUT_COUNTS) + first},
    };
    return g->ops->launch(g->device, &call, t->lane->stream);
}

static enum device_result cleanup_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    char *at = run_device_at(g, t, t->plan.scratch_at);
    struct cleanup_scratch s = scratch_of(g, t);
    float *rows = (float *)at, *norms = (float *)(at + s.row_bytes);
    char *binding = at + s.row_bytes + s.norm_bytes;
    uint64_t before = s.row_bytes + s.norm_bytes + s.bind_bytes;
    bool padded = r->dimension % VECTOR_LANES != 0;
    enum device_result result =
        padded ? g->ops->clear(g->device, at, s.row_bytes, t->lane->stream) : DEVICE_OK;
    if (!result) result = run_pairs_launch(g, t, rows, binding, s.bind_bytes);
    if (!result) result = run_measure_results(g, t, rows, norms, run_pairs_norms_check(g, t));
    if (!result) result = find_best(g, t, rows, norms, at + before, t->plan.scratch_bytes - before);
    return result;
}

/* The best come back after the last pass. */
static enum order_result cleanup_drain(struct gpu *g, struct task *t, const char *small)
{
    enum order_result result = run_pairs_checked(t, small, true);
    bool last = t->first_query + t->pass_queries == t->order.run.query_count;
    return result || !last ? result : run_drain_all(g, t, small);
}

static void fill_lines(struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t *ids = (uint64_t *)t->plan.out[OUT_IDS].host;
    float *scores = (float *)t->plan.out[OUT_SCORES].host;
    const uint32_t *counts = (const uint32_t *)t->plan.out[OUT_COUNTS].host;
    for (uint64_t q = 0; q < r->query_count; q++) {
        if (q % BEAT_QUERIES == 0) gpu_beat(g);
        run_fill_rest(ids + q * r->k, scores + q * r->k, counts[q], r->k);
    }
}

static bool cleanup_next(struct gpu *g, struct task *t)
{
    t->first_query += t->pass_queries;
    if (t->first_query < t->order.run.query_count) return true;
    fill_lines(g, t);
    return false;
}

const struct run_kind run_cleanup = {
    .plan = cleanup_plan,
    .fits = run_fits_rows,
    .launch = cleanup_launch,
    .drain = cleanup_drain,
    .next = cleanup_next,
    .part = run_part_queries,
};
