/* run_complete_engine: cues completed by an attractor, whose replica is a matrix: its weights, then
 * its dentate matrix. A pass masks some cues, takes their dot products with the dentate matrix,
 * settles their states by the weights, and finds the nearest row of a second replica to each. */
#include <string.h>

#include "daemon/gpu/run.h"

enum { OUT_ENDS, OUT_IDS, OUT_COSINES, OUT_STATES };
enum { IN_CUES, IN_MASK };
/* Of a pass, in spite of ORDER_PASS_NS; what comes back at once is so few bytes. */
enum { PASS_CUES_MIN = 8, PASS_CUES_MAX = 4096 };
/* Gathering what is known pays for so many cues. */
enum { GATHER_CUES_MIN = 64 };
/* The device's multiply-adds are those of a scan on tensor cores; these sums are exact. */
enum { EXACT_TIMES = 6, COMPENSATED_TIMES = 8 };

/* Of the scratch of a pass, a multiple of 256 each; the rest is topk's. */
struct engine_scratch {
    uint64_t states, norms, sums, counts, cues, dentate, topk;
};

static uint64_t matrix_rows(uint32_t dimension)
{
    return (uint64_t)(ATTRACTOR_SPREAD + 1) * dimension;
}

static struct engine_scratch scratch_of(const struct task *t, uint64_t cues)
{
    const struct order_run *r = &t->order.run;
    const uint64_t row = t->width * sizeof(float), rows = matrix_rows(r->dimension) - r->dimension;
    const uint64_t sizes[] = {vector_stride(r->dimension) * sizeof(float), sizeof(float),
                              (uint64_t)ATTRACTOR_SPREAD * r->dimension * sizeof(float),
                              sizeof(uint32_t), row};
    uint64_t at[6] = {0};
    for (int i = 0; i < 5; i++)
        at[i + 1] = at[i] + (cues * sizes[i] + 255) / 256 * 256;
    return (struct engine_scratch){
        at[0], at[1], at[2], at[3], at[4], at[5], at[5] + (rows * row + 255) / 256 * 256};
}

static bool compares(const struct task *t)
{
    return t->order.run.other.row_count != 0;
}

/* ---- the plan ---- */

static bool makes_sense(const struct order_run *r)
{
    return r->rows == PLACE_NONE && r->other.rows == PLACE_NONE && r->query_count >= 1 &&
           r->dimension <= ATTRACTOR_DIMENSION_MAX && r->row_count == matrix_rows(r->dimension) &&
           r->k >= 1 && r->k <= r->dimension && r->other.row_count <= UINT64_C(1) << 32 &&
           (r->list_count <= 1 || r->list_count == r->query_count);
}

static bool engine_fits(const struct task *t, const struct replica *r)
{
    const struct order_run *run = &t->order.run;
    return r->bare && r->dimension == run->dimension && r->rows == run->row_count;
}

/* Returns the width of gathered rows; 0: the mask leaves too little out, or there is none. What the
 * mask says may change until the device has it: what finds no place is then left out. */
static uint32_t width_of(const struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint32_t of[VECTOR_LANES] = {0}, most = 0;
    const uint8_t *known = gpu_heap(g, r->weights, r->dimension);
    if (r->list_count != 1 || !known || r->dimension > VECTOR_COMPENSATED_ABOVE ||
        t->pass_queries < GATHER_CUES_MIN)
        return 0;
    for (uint32_t c = 0; c < r->dimension; c++)
        if (known[c] && ++of[c % VECTOR_LANES] > most) most = of[c % VECTOR_LANES];
    uint64_t width = (uint64_t)most * VECTOR_LANES;
    return 4 * width <= 3 * vector_stride(r->dimension) ? (uint32_t)width : 0;
}

/* A pass has as many cues as fit a quarter of the pool, and lasts not long. */
static void plan_passes(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t fit = vram_pool_usage(g->pool).slab_bytes / 4 / scratch_of(t, 1).topk;
    uint64_t products = g->ops->multiply_adds(g->device) * (ORDER_PASS_NS / 1000) / EXACT_TIMES;
    if (r->dimension > VECTOR_COMPENSATED_ABOVE) products /= COMPENSATED_TIMES;
    uint64_t soon = products / ((r->row_count + r->other.row_count) * vector_stride(r->dimension));
    if (fit < 1) fit = 1;
    if (soon < PASS_CUES_MIN) soon = PASS_CUES_MIN;
    if (soon > PASS_CUES_MAX) soon = PASS_CUES_MAX;
    t->pass_queries = soon < fit ? soon : fit;
    if (t->pass_queries > r->query_count) t->pass_queries = r->query_count;
    p->paced = p->rereads = t->pass_queries < r->query_count;
    p->split = p->paced && fit < soon;
}

static void plan_outs(struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t n = t->pass_queries, compared = compares(t) ? n : 0;
    plan_out(p, (struct section){.bytes = n * sizeof(struct cuda_attractor_end)});
    plan_out(p, (struct section){.bytes = compared * sizeof(uint64_t)});
    plan_out(p, (struct section){.bytes = compared * sizeof(float)});
    p->out_small = p->out_bytes;
    plan_out(p, (struct section){.bytes = n * r->dimension * sizeof(float)});
}

static enum order_result complete_engine_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    if (!makes_sense(r) ||
        !plan_in_at(g, p, r->queries, r->query_count * r->dimension * sizeof(float)) ||
        (r->list_count && !plan_in_at(g, p, r->weights, r->list_count * r->dimension)) ||
        !gpu_heap(g, r->out_scores, r->query_count * r->dimension * sizeof(float)) ||
        !gpu_heap(g, r->out_ids, r->query_count * sizeof(struct order_engine_end)))
        return RESULT_REFUSED;
    t->width = 0;
    plan_passes(g, t);
    plan_outs(t);
    uint64_t best = 0, least = 0, rows = r->other.row_count;
    if (compares(t)) {
        best = g->ops->topk_scratch_best(t->pass_queries, 1, rows);
        least = g->ops->topk_scratch_min(t->pass_queries, 1, rows);
    }
    t->width = width_of(g, t);
    if (scratch_of(t, t->pass_queries).topk > vram_pool_usage(g->pool).slab_bytes / 2) t->width = 0;
    p->scratch_best = scratch_of(t, t->pass_queries).topk + best;
    p->scratch_least = scratch_of(t, t->pass_queries).topk + least;
    return RESULT_OK;
}

/* ---- launching ---- */

static struct device_call call_of(const struct gpu *g, const struct task *t, char *scratch,
                                  const struct engine_scratch *at)
{
    const struct order_run *r = &t->order.run;
    const struct section *in = t->plan.in;
    uint64_t step = r->list_count > 1 ? r->dimension : 0;
    const uint8_t *known = NULL;
    if (r->list_count)
        known = (const uint8_t *)run_device_at(g, t, in[IN_MASK].at) + t->first_query * step;
    return (struct device_call){
        .kernel = KERNEL_ATTRACTOR,
        .rows = {.dimension = r->dimension,
                 .rows = replica_rows(t->replica).rows,
                 .count = r->dimension},
        .attractor = {.kept = r->k,
                      .count = t->pass_queries,
                      .cues = (const float *)run_device_at(g, t, in[IN_CUES].at) +
                              t->first_query * r->dimension,
                      .known = known,
                      .known_step = step,
                      .width = t->width,
                      .gathered = (float *)(scratch + at->cues),
                      .states = (float *)(scratch + at->states),
                      .norms = (float *)(scratch + at->norms),
                      .sums = (float *)(scratch + at->sums),
                      .settled = (float *)run_out_at(g, t, OUT_STATES),
                      .ends = (struct cuda_attractor_end *)run_out_at(g, t, OUT_ENDS)},
    };
}

static struct device_call dots_of(const struct task *t, const struct device_call *a, char *scratch,
                                  const struct engine_scratch *at)
{
    struct cuda_rows dentate = a->rows;
    dentate.rows += dentate.count * vector_stride(dentate.dimension);
    dentate.count *= ATTRACTOR_SPREAD;
    const float *cues = a->attractor.states;
    if (t->width) {
        dentate.dimension = t->width;
        dentate.rows = (const float *)(scratch + at->dentate);
        cues = a->attractor.gathered;
    }
    return (struct device_call){
        .kernel = t->pass_queries == 1 ? KERNEL_SCAN : KERNEL_TILE,
        .metric = METRIC_DOT,
        .rows = dentate,
        .queries = {cues, a->attractor.norms, t->pass_queries},
        .scores = {.out = (float *)(scratch + at->sums), .stride = dentate.count},
    };
}

static struct device_call nearest_of(const struct gpu *g, const struct task *t,
                                     const struct device_call *a, char *scratch,
                                     const struct engine_scratch *at)
{
    return (struct device_call){
        .kernel = KERNEL_TOPK,
        .metric = METRIC_COSINE,
        .rows = replica_rows(t->other),
        .queries = {a->attractor.states, a->attractor.norms, t->pass_queries},
        .topk = {.k = 1,
                 .ids = replica_ids(t->other),
                 .scratch = scratch + at->topk,
                 .scratch_bytes = t->plan.scratch_bytes - at->topk,
                 .out_ids = (uint64_t *)run_out_at(g, t, OUT_IDS),
                 .out_scores = (float *)run_out_at(g, t, OUT_COSINES),
                 .out_counts = (uint32_t *)(void *)(scratch + at->counts)},
    };
}

static enum device_result complete_engine_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    /* of the largest pass: the last one is shorter */
    struct engine_scratch at =
        scratch_of(t, t->plan.out[OUT_ENDS].bytes / sizeof(struct cuda_attractor_end));
    char *scratch = run_device_at(g, t, t->plan.scratch_at);
    uint64_t left = r->query_count - t->first_query;
    if (t->pass_queries > left) t->pass_queries = left;
    struct device_call a = call_of(g, t, scratch, &at);
    struct device_call dots = dots_of(t, &a, scratch, &at), gather = a;
    gather.attractor.step = CUDA_ATTRACTOR_GATHER;
    gather.attractor.gathered = (float *)(scratch + at.dentate);
    a.attractor.step = CUDA_ATTRACTOR_MASK;
    enum device_result result = g->ops->launch(g->device, &a, t->lane->stream);
    if (!result && t->width) result = g->ops->launch(g->device, &gather, t->lane->stream);
    if (!result) result = g->ops->launch(g->device, &dots, t->lane->stream);
    a.attractor.step = CUDA_ATTRACTOR_SETTLE;
    if (!result) result = g->ops->launch(g->device, &a, t->lane->stream);
    if (result || !compares(t)) return result;
    struct device_call nearest = nearest_of(g, t, &a, scratch, &at);
    return g->ops->launch(g->device, &nearest, t->lane->stream);
}

/* ---- the way back ---- */

static struct order_engine_end end_of(const struct task *t, const char *small, uint64_t i)
{
    const struct section *out = t->plan.out;
    struct cuda_attractor_end end;
    struct order_engine_end whole = {0};
    memcpy(&end, small + out[OUT_ENDS].at + i * sizeof end, sizeof end);
    whole.rounds = end.rounds;
    whole.converged = end.converged;
    if (!compares(t)) return whole;
    memcpy(&whole.id, small + out[OUT_IDS].at + i * sizeof whole.id, sizeof whole.id);
    memcpy(&whole.cosine, small + out[OUT_COSINES].at + i * sizeof whole.cosine,
           sizeof whole.cosine);
    return whole;
}

static bool was_refused(const struct task *t, const char *small, uint64_t i)
{
    struct cuda_attractor_end end;
    memcpy(&end, small + t->plan.out[OUT_ENDS].at + i * sizeof end, sizeof end);
    return end.refused != 0;
}

static enum order_result complete_engine_drain(struct gpu *g, struct task *t, const char *small)
{
    const struct order_run *r = &t->order.run;
    const uint64_t size = sizeof(struct order_engine_end), line = r->dimension * sizeof(float);
    char *ends = gpu_heap(g, r->out_ids + t->first_query * size, t->pass_queries * size);
    for (uint64_t i = 0; i < t->pass_queries; i++) {
        struct order_engine_end end = end_of(t, small, i);
        t->number = t->first_query + i;
        if (was_refused(t, small, i)) return RESULT_BAD_ROW;
        memcpy(ends + i * size, &end, size);
    }
    t->number = 0;
    struct section states = t->plan.out[OUT_STATES];
    states.host = gpu_heap(g, r->out_scores + t->first_query * line, t->pass_queries * line);
    states.bytes = t->pass_queries * line;
    run_give(g, t, &states, small);
    return RESULT_OK;
}

static bool complete_engine_next(struct gpu *g, struct task *t)
{
    (void)g;
    t->first_query += t->pass_queries;
    return t->first_query < t->order.run.query_count;
}

const struct run_kind run_complete_engine = {
    .plan = complete_engine_plan,
    .fits = engine_fits,
    .launch = complete_engine_launch,
    .drain = complete_engine_drain,
    .next = complete_engine_next,
    .part = run_part_queries,
};
