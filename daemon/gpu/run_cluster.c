/* run_cluster: the merges of a clustering. Passes find what is near to some rows, or make some
 * merges, each of some milliseconds, and leave everything in VRAM for the next one. After each, its
 * merges are added to those in the heap, from where the daemon goes on if this process ends. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/run.h"

enum {
    STEPS_FIRST = 16,
    STEPS_LEAST = 8,  /* others that run between are no reason to stand still */
    STEPS_MAX = 128,  /* of a pass: a stream takes not many more launches before it blocks */
    NEAR_GROUP = 128, /* queries: a tile of the screen */
    NEAR_MAX = 4096,  /* of a pass */
    PAIR_GROUP = 32,  /* rows */
    PAIR_MAX = 1024,  /* of a pass, if their cosines fit: */
    COSINE_BYTES = 64 << 20
};

#define STEP_NS UINT64_C(15000) /* a step of few clusters on an H200 */

/* Where things lie behind the scratch's start; the search's own scratch is the rest. */
struct cluster_scratch {
    uint64_t ids, scores, counts, search; /* rule average: cosines are at ids */
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool is_average(const struct order_run *r)
{
    return r->form == ORDER_CLUSTER_AVERAGE;
}

/* ---- the plan ---- */

static bool makes_sense(const struct order_run *r)
{
    bool listed = r->rows == PLACE_NONE && r->positions != PLACE_NONE;
    bool rule = r->form == ORDER_CLUSTER_CENTROID || r->form == ORDER_CLUSTER_AVERAGE;
    return rule && r->list_count >= 2 && r->list_count <= CLUSTER_ROWS_MAX && !r->query_count &&
           (listed || r->list_count == r->row_count) && r->metric == METRIC_COSINE &&
           !isnan(r->threshold) && !isnan(r->total) && (is_average(r) || r->weights == PLACE_NONE);
}

static struct cuda_cluster shape_of(const struct order_run *r)
{
    return (struct cuda_cluster){
        .count = (uint32_t)r->list_count, .average = is_average(r), .size_min = r->k};
}

/* The most rows or slots of a pass that compares all with all. */
static uint64_t some_max(const struct order_run *r)
{
    uint64_t fit = COSINE_BYTES / (r->list_count * sizeof(float)) / PAIR_GROUP * PAIR_GROUP;
    if (!is_average(r)) return smaller(NEAR_MAX, r->list_count);
    if (fit < PAIR_GROUP) fit = PAIR_GROUP;
    return smaller(smaller(fit, PAIR_MAX), r->list_count);
}

static struct cluster_scratch scratch_of(const struct order_run *r)
{
    struct cuda_cluster shape = shape_of(r);
    struct cluster_scratch s;
    uint64_t some = some_max(r), found = some * CUDA_CLUSTER_FOUND, bytes;
    bytes = cuda_cluster_layout(r->dimension, NULL, &shape);
    s.ids = bytes;
    if (is_average(r)) {
        cuda_cluster_place(NULL, &bytes, some * r->list_count, sizeof(float));
        s.scores = s.counts = s.search = bytes;
        return s;
    }
    cuda_cluster_place(NULL, &bytes, found, sizeof(uint64_t));
    s.scores = bytes;
    cuda_cluster_place(NULL, &bytes, found, sizeof(float));
    s.counts = bytes;
    cuda_cluster_place(NULL, &bytes, some, sizeof(uint32_t));
    s.search = bytes;
    return s;
}

/* How many rows are compared with all others in some milliseconds. */
static uint64_t soon(const struct gpu *g, const struct order_run *r)
{
    uint64_t group = is_average(r) ? PAIR_GROUP : NEAR_GROUP;
    uint64_t rows = g->ops->multiply_adds(g->device) * (ORDER_PASS_NS / 1000) /
                    (r->list_count * r->dimension + 1);
    if (is_average(r)) rows /= 4; /* nothing is screened */
    rows = rows / group * group;
    return smaller(rows < group ? group : rows, some_max(r));
}

static enum order_result cluster_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t merges = (r->list_count - 1) * sizeof(struct order_merge);
    if (!makes_sense(r) || !gpu_heap(g, r->segments, sizeof(uint32_t)) ||
        r->segments % sizeof(uint32_t) || r->out_ids % sizeof(uint64_t) ||
        !gpu_heap(g, r->out_ids, sizeof(struct order_cluster) + merges) ||
        (run_brings_rows(t) && !plan_rows(g, t)) ||
        (r->positions != PLACE_NONE && !plan_positions(g, t)) ||
        (r->weights != PLACE_NONE && !plan_in_at(g, p, r->weights, r->list_count * sizeof(float))))
        return RESULT_REFUSED;
    plan_out(p, (struct section){.bytes = sizeof(struct cuda_cluster_state)});
    plan_out(p, (struct section){.bytes = STEPS_MAX * sizeof(struct cuda_cluster_merge)});
    p->paced = true;
    p->rereads = !is_average(r);
    p->scratch_best = p->scratch_least = scratch_of(r).search;
    if (!is_average(r)) {
        p->scratch_best +=
            g->ops->topk_scratch_best(some_max(r), CUDA_CLUSTER_FOUND, r->list_count);
        p->scratch_least +=
            g->ops->topk_scratch_min(some_max(r), CUDA_CLUSTER_FOUND, r->list_count);
    }
    t->pass_queries = soon(g, r);
    t->cluster = (struct task_cluster){
        .steps = STEPS_FIRST, .fresh = true, .state.live = (uint32_t)r->list_count};
    return RESULT_OK;
}

/* ---- launching ---- */

static struct device_call call_of(const struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct task_plan *p = &t->plan;
    const struct task_cluster *c = &t->cluster;
    uint32_t next = run_brings_rows(t);
    struct device_call call = {.kernel = KERNEL_CLUSTER, .rows = run_rows(g, t)};
    struct cuda_cluster *w = &call.cluster;
    *w = shape_of(r);
    cuda_cluster_layout(r->dimension, run_device_at(g, t, p->scratch_at), w);
    w->threshold = c->second ? r->total : r->threshold;
    w->live = c->state.live;
    w->first = (uint32_t)t->first_query;
    w->merges = c->state.merges;
    w->steps = c->steps;
    w->fresh = c->fresh;
    w->state = (struct cuda_cluster_state *)run_out_at(g, t, p->out_count - 2);
    w->window = (struct cuda_cluster_merge *)run_out_at(g, t, p->out_count - 1);
    if (r->positions != PLACE_NONE)
        w->positions = (const uint32_t *)run_device_at(g, t, p->in[next++].at);
    if (r->weights != PLACE_NONE) w->times = (const float *)run_device_at(g, t, p->in[next].at);
    return call;
}

static enum device_result launch(struct gpu *g, struct task *t, struct device_call *call,
                                 enum cuda_cluster_stage stage)
{
    call->cluster.stage = stage;
    return g->ops->launch(g->device, call, t->lane->stream);
}

/* The slots of this pass as queries against `count` slots. */
static struct device_call search_of(const struct cuda_cluster *w, uint32_t dimension,
                                    enum device_kernel kernel, uint64_t count)
{
    return (struct device_call){
        .kernel = kernel,
        .metric = METRIC_COSINE,
        .rows = {dimension, w->rows, w->norms, count},
        .queries = {w->rows + w->first * vector_stride(dimension), w->norms + w->first, w->some}};
}

static enum device_result launch_near(struct gpu *g, struct task *t, struct device_call *call)
{
    struct cuda_cluster *w = &call->cluster;
    const struct cluster_scratch at = scratch_of(&t->order.run);
    char *scratch = run_device_at(g, t, t->plan.scratch_at);
    struct device_call search =
        search_of(w, t->order.run.dimension, KERNEL_TOPK, t->cluster.state.live);
    search.topk = (struct cuda_topk){.k = CUDA_CLUSTER_FOUND,
                                     .ids = w->wide_ids,
                                     .threshold = &w->threshold,
                                     .scratch = scratch + at.search,
                                     .scratch_bytes = t->plan.scratch_bytes - at.search,
                                     .out_ids = (uint64_t *)(scratch + at.ids),
                                     .out_scores = (float *)(scratch + at.scores),
                                     .out_counts = (uint32_t *)(scratch + at.counts)};
    w->found_ids = search.topk.out_ids;
    w->found_scores = search.topk.out_scores;
    w->found_counts = search.topk.out_counts;
    enum device_result result = g->ops->launch(g->device, &search, t->lane->stream);
    return result ? result : launch(g, t, call, CUDA_CLUSTER_NEAR);
}

static enum device_result launch_pairs(struct gpu *g, struct task *t, struct device_call *call)
{
    struct cuda_cluster *w = &call->cluster;
    uint64_t rows = (uint64_t)w->first + w->some;
    float *cosines =
        (float *)(run_device_at(g, t, t->plan.scratch_at) + scratch_of(&t->order.run).ids);
    struct device_call tile = search_of(w, t->order.run.dimension, KERNEL_TILE, rows);
    tile.scores.out = cosines;
    tile.scores.stride = rows;
    w->cosines = cosines;
    enum device_result result = g->ops->launch(g->device, &tile, t->lane->stream);
    return result ? result : launch(g, t, call, CUDA_CLUSTER_PAIRS);
}

static enum device_result cluster_launch(struct gpu *g, struct task *t)
{
    struct device_call call = call_of(g, t);
    enum device_result result = DEVICE_OK;
    bool average = call.cluster.average;
    t->pass_began_ns = clock_read_ns(g->clock);
    if (t->rounds_done == 0) result = launch(g, t, &call, CUDA_CLUSTER_BEGIN);
    if (result) return result;
    switch (t->cluster.stage) {
    case TASK_CLUSTER_ALL:
        call.cluster.some =
            (uint32_t)smaller(t->pass_queries, t->cluster.state.live - t->first_query);
        return average ? launch_pairs(g, t, &call) : launch_near(g, t, &call);
    case TASK_CLUSTER_MERGE:
        return launch(g, t, &call, average ? CUDA_CLUSTER_ADD : CUDA_CLUSTER_MERGE);
    case TASK_CLUSTER_AGAIN: return launch(g, t, &call, CUDA_CLUSTER_AGAIN);
    }
    return DEVICE_ERROR;
}

/* ---- the way back ---- */

static struct order_cluster *result_of(const struct gpu *g, const struct task *t)
{
    return gpu_heap(g, t->order.run.out_ids, sizeof(struct order_cluster));
}

/* Merges first, so that whoever counts them finds them. */
static enum order_result cluster_drain(struct gpu *g, struct task *t, const char *small)
{
    const struct task_plan *p = &t->plan;
    struct task_cluster *c = &t->cluster;
    struct order_cluster *end = result_of(g, t);
    struct order_merge *merges = (struct order_merge *)(end + 1);
    uint32_t before = c->state.merges;
    memcpy(&c->state, small + p->out[p->out_count - 2].at, sizeof c->state);
    if (c->state.merges < before || c->state.merges - before > STEPS_MAX ||
        c->state.merges >= t->order.run.list_count)
        return RESULT_ERROR;
    memcpy(merges + before, small + p->out[p->out_count - 1].at,
           (c->state.merges - before) * sizeof *merges);
    atomic_store_explicit(&end->scans, c->state.scans, memory_order_relaxed);
    atomic_store_explicit(&end->merges, c->state.merges, memory_order_release);
    t->rounds_done++;
    return RESULT_OK;
}

/* Passes come to last some milliseconds. */
static uint64_t paced(uint64_t count, uint64_t took_ns, uint64_t least, uint64_t most)
{
    if (took_ns > 2 * ORDER_PASS_NS) count /= 2;
    if (took_ns < ORDER_PASS_NS / 2) count *= 2;
    return count < least ? least : smaller(count, most);
}

static bool end_of(const struct gpu *g, const struct task *t)
{
    atomic_store_explicit(&result_of(g, t)->ended, 1, memory_order_release);
    return false;
}

/* After a pass of merges: whether the second pass of the rule follows. */
static bool is_over(const struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_cluster *c = &t->cluster;
    c->fresh = false;
    if (!c->state.ended) return false;
    if (is_average(r) || c->second || r->total >= r->threshold) return true;
    atomic_store_explicit(&result_of(g, t)->first_merges, c->state.merges, memory_order_release);
    c->stage = TASK_CLUSTER_AGAIN;
    return false;
}

/* A little less than the last one took, so that waking late does not become the rule. */
static void learn(struct task *t, uint64_t took_ns, uint64_t count)
{
    t->cluster.each_ns = count ? took_ns / count * 7 / 8 : 0;
}

static bool cluster_next(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_cluster *c = &t->cluster;
    uint64_t took_ns = clock_read_ns(g->clock) - t->pass_began_ns;
    const _Atomic uint32_t *stop = gpu_heap(g, r->segments, sizeof *stop);
    if (atomic_load_explicit(stop, memory_order_relaxed)) return false;
    switch (c->stage) {
    case TASK_CLUSTER_ALL:
        learn(t, took_ns, t->pass_queries);
        t->first_query += t->pass_queries;
        t->pass_queries = paced(t->pass_queries, took_ns, PAIR_GROUP, some_max(r));
        if (t->first_query < c->state.live) return true;
        c->stage = TASK_CLUSTER_MERGE;
        c->each_ns = STEP_NS;
        return true;
    case TASK_CLUSTER_MERGE:
        learn(t, took_ns, c->steps);
        c->steps = (uint32_t)paced(c->steps, took_ns, STEPS_LEAST, STEPS_MAX);
        return !is_over(g, t) || end_of(g, t);
    case TASK_CLUSTER_AGAIN:
        c->each_ns = 0;
        c->second = c->fresh = true;
        c->stage = TASK_CLUSTER_ALL;
        t->first_query = 0;
        return !c->state.ended || end_of(g, t);
    }
    return false;
}

/* What is foreseen of the order is about all of its passes, however many there will be. */
static double cluster_part(const struct task *t)
{
    const struct task_cluster *c = &t->cluster;
    uint64_t count = c->stage == TASK_CLUSTER_ALL ? t->pass_queries : c->steps;
    double foreseen = (double)t->order.foreseen_ns;
    return foreseen > 0 ? (double)(c->each_ns * count) / foreseen : 1;
}

const struct run_kind run_cluster = {
    .plan = cluster_plan,
    .fits = run_fits_rows,
    .launch = cluster_launch,
    .drain = cluster_drain,
    .next = cluster_next,
    .part = cluster_part,
};
