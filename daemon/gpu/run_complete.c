/* run_complete: states completed from the rows of a replica. A pass is one round of a group of
 * states; what is known of them comes back after each, and their numbers after the last. */
#include "daemon/gpu/run_complete.h"

#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/run.h"
#include "kernels/complete.h"

enum { OUT_RECORDS, OUT_STATES };
enum { IN_CUES, IN_MASK };
enum { BLOCKS_MAX = 65535 }; /* of the kernel */

/* What was measured on an H200 (docs/performance-complete.md). A round does 13.6 million
 * multiply-adds in a microsecond where a screened kNN does 60; to read the rows twice takes as long
 * as the products of 12 states; and kernels have groups of 8, 16 or 32 states. Few states at once
 * would read the rows again and again, so that a pass has at least 8, in spite of ORDER_PASS_NS. */
enum { SCREENED = 22, EXACT = 5, READING = 12, STATES_FEW = 8, STATES_SOME = 16, STATES_MANY = 32 };

/* Of the scratch of a pass, a multiple of 256 each. */
struct complete_scratch {
    uint64_t moved, scores, bests, runs, totals, sums, bytes;
};

static struct complete_scratch scratch_of(const struct order_run *r, uint64_t states)
{
    uint64_t stride = vector_stride(r->dimension), blocks = complete_blocks(r->row_count);
    const uint64_t sizes[] = {stride * sizeof(float),
                              r->row_count * sizeof(float),
                              blocks * sizeof(struct complete_block_best),
                              blocks * sizeof(uint32_t),
                              blocks * sizeof(double),
                              blocks * stride * sizeof(float)};
    uint64_t at[7] = {0};
    for (int i = 0; i < 6; i++)
        at[i + 1] = at[i] + (states * sizes[i] + 255) / 256 * 256;
    return (struct complete_scratch){at[0], at[1], at[2], at[3], at[4], at[5], at[6]};
}

/* ---- the plan ---- */

static bool makes_sense(const struct order_run *r)
{
    return r->rows == PLACE_NONE && r->query_count >= 1 && r->row_count >= 1 &&
           complete_blocks(r->row_count) <= BLOCKS_MAX && r->k >= 1 &&
           r->k <= COMPLETE_ROUNDS_MAX && r->threshold >= COMPLETE_BETA_MIN &&
           r->threshold <= COMPLETE_BETA_MAX && r->has_threshold <= 1 &&
           (r->list_count <= 1 || r->list_count == r->query_count);
}

uint64_t run_complete_rate(uint64_t multiply_adds)
{
    uint64_t rate = multiply_adds / SCREENED * EXACT;
    return rate ? rate : 1;
}

uint64_t run_complete_states(uint64_t rate, uint64_t rows, uint32_t dimension)
{
    uint64_t state = 2 * rows * vector_stride(dimension);
    uint64_t states = rate * (ORDER_PASS_NS / 1000) / state;
    states = states > READING ? states - READING : 0;
    if (states < STATES_SOME) return STATES_FEW;
    if (states < STATES_MANY) return STATES_SOME;
    states = states / STATES_MANY * STATES_MANY;
    return states < CUDA_COMPLETION_STATES_MAX ? states : CUDA_COMPLETION_STATES_MAX;
}

static uint64_t rate_of(const struct gpu *g, const struct task *t)
{
    uint64_t known = t->replica ? t->replica->completes : 0;
    return known ? known : run_complete_rate(g->ops->multiply_adds(g->device));
}

/* The replica remembers how fast its rounds are for its next request. Of a group the first round
 * counts, in which no state stands still yet. A short one does not fill the device and tells
 * nothing, unless it was faster. */
static void learn_rate(const struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t took_ns = clock_read_ns(g->clock) - t->pass_began_ns, us = took_ns / 1000;
    uint64_t state = 2 * r->row_count * vector_stride(r->dimension), known = rate_of(g, t);
    uint64_t rate = us ? (t->pass_queries + READING) * state / us : 0;
    if (!rate || (took_ns < ORDER_PASS_NS / 2 && rate < known)) return;
    t->replica->completes = (known + rate) / 2;
}

/* A pass has as many states as fit a quarter of the pool, and lasts not long. */
static void plan_passes(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t fit = vram_pool_usage(g->pool).slab_bytes / 4 / scratch_of(r, 1).bytes;
    uint64_t soon = run_complete_states(rate_of(g, t), r->row_count, r->dimension);
    if (fit < 1) fit = 1;
    t->pass_queries = soon < fit ? soon : fit;
    if (t->pass_queries > r->query_count) t->pass_queries = r->query_count;
    t->pass_queries_max = t->pass_queries; /* for which there is scratch */
    p->paced = p->rereads = t->pass_queries < r->query_count || r->k > 1;
    p->split = t->pass_queries < r->query_count && fit < soon;
}

/* The cues, of which what is not known may be anything, and the mask that says so. */
static bool plan_cues(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    if (!plan_queries(g, t)) return false;
    if (!r->list_count) return true;
    if (!plan_in_at(g, p, r->weights, r->list_count * r->dimension)) return false;
    p->in[IN_CUES].known = (const uint8_t *)p->in[IN_MASK].host;
    p->in[IN_CUES].known_step = r->list_count > 1 ? r->dimension : 0;
    return true;
}

static enum order_result complete_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t row = vector_stride(r->dimension) * sizeof(float);
    if (!makes_sense(r) || !plan_cues(g, t) ||
        !gpu_heap(g, r->out_scores, r->query_count * r->dimension * sizeof(float)) ||
        !gpu_heap(g, r->out_ids, r->query_count * sizeof(struct complete_record)))
        return RESULT_REFUSED;
    plan_passes(g, t);
    plan_out(p, (struct section){.bytes = t->pass_queries * sizeof(struct complete_record)});
    p->out_small = p->out_bytes;
    plan_out(p, (struct section){.bytes = t->pass_queries * row});
    p->scratch_best = p->scratch_least = scratch_of(r, t->pass_queries).bytes;
    return RESULT_OK;
}

/* ---- launching ---- */

static struct device_call call_of(const struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct complete_scratch at = scratch_of(r, t->pass_queries);
    char *scratch = run_device_at(g, t, t->plan.scratch_at);
    uint64_t step = r->list_count > 1 ? r->dimension : 0;
    const uint8_t *known = NULL;
    if (r->list_count)
        known =
            (const uint8_t *)run_device_at(g, t, t->plan.in[IN_MASK].at) + t->first_query * step;
    return (struct device_call){
        .kernel = KERNEL_COMPLETE,
        .rows = run_rows(g, t),
        .complete = {.states = t->pass_queries,
                     .rounds = r->k,
                     .beta = r->threshold,
                     .unit = r->has_threshold,
                     .cues = run_queries(g, t, t->first_query, t->pass_queries).rows,
                     .known = known,
                     .known_step = step,
                     .ids = replica_ids(t->replica),
                     .state = (float *)run_out_at(g, t, OUT_STATES),
                     .moved = (float *)(scratch + at.moved),
                     .scores = (float *)(scratch + at.scores),
                     .bests = (struct complete_block_best *)(scratch + at.bests),
                     .runs = (uint32_t *)(scratch + at.runs),
                     .totals = (double *)(scratch + at.totals),
                     .sums = (float *)(scratch + at.sums),
                     .records = (struct complete_record *)run_out_at(g, t, OUT_RECORDS)},
    };
}

static enum device_result complete_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t left = r->query_count - t->first_query;
    if (t->pass_queries > left) t->pass_queries = left;
    t->pass_began_ns = clock_read_ns(g->clock);
    struct device_call round = call_of(g, t);
    if (t->rounds_done == 0) {
        round.complete.begin = 1;
        enum device_result result = g->ops->launch(g->device, &round, t->lane->stream);
        if (result) return result;
        round.complete.begin = 0;
    }
    struct device_call dots = {
        .kernel = t->pass_queries == 1 ? KERNEL_SCAN : KERNEL_TILE,
        .metric = METRIC_DOT,
        .rows = round.rows,
        .queries = {.rows = round.complete.state,
                    .norms = run_queries(g, t, t->first_query, t->pass_queries).norms,
                    .count = t->pass_queries},
        .scores = {.out = round.complete.scores, .stride = round.rows.count},
    };
    enum device_result result = g->ops->launch(g->device, &dots, t->lane->stream);
    return result ? result : g->ops->launch(g->device, &round, t->lane->stream);
}

/* ---- the way back ---- */

static bool all_done(const struct task *t, const char *records)
{
    for (uint64_t i = 0; i < t->pass_queries; i++) {
        struct complete_record record;
        memcpy(&record, records + i * sizeof record, sizeof record);
        if (!record.done) return false;
    }
    return true;
}

/* Another round, or the group's results. */
static enum order_result complete_drain(struct gpu *g, struct task *t, const char *small)
{
    const struct order_run *r = &t->order.run;
    const uint64_t record = sizeof(struct complete_record);
    struct section records = t->plan.out[OUT_RECORDS];
    if (t->rounds_done == 0) learn_rate(g, t);
    t->rounds_done++;
    if (t->rounds_done < r->k && !all_done(t, small + records.at)) return RESULT_OK;
    t->rounds_done = 0;
    records.host = gpu_heap(g, r->out_ids + t->first_query * record, t->pass_queries * record);
    records.bytes = t->pass_queries * record;
    run_give(g, t, &records, small);
    run_give_rows(g, t, t->first_query, t->pass_queries, small);
    return RESULT_OK;
}

static bool complete_next(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    if (t->rounds_done) return true;
    t->first_query += t->pass_queries;
    t->pass_queries = run_complete_states(rate_of(g, t), r->row_count, r->dimension);
    if (t->pass_queries > t->pass_queries_max) t->pass_queries = t->pass_queries_max;
    return t->first_query < r->query_count;
}

/* One round of so many that there may be. */
static double complete_part(const struct task *t)
{
    return run_part_queries(t) / t->order.run.k;
}

const struct run_kind run_complete = {
    .plan = complete_plan,
    .fits = run_fits_rows,
    .launch = complete_launch,
    .drain = complete_drain,
    .next = complete_next,
    .part = complete_part,
};
