/* run_knn: the k best rows, of one request or of several that run as one (a batch). Where the
 * replica has a shadow, that is asked first; queries that it is of no use for are then asked of the
 * rows, a run of them at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/gpu/replica_shadow.h"
#include "daemon/gpu/run.h"

enum { BEAT_QUERIES = 256 };
enum { OUT_WORK, OUT_IDS, OUT_SCORES, OUT_COUNTS };

/* A pass takes about this long, so that a short request of the space, which has the same stream,
 * waits no longer; how long the first takes is guessed from its multiply-adds. */
/* A tile of the screen has 128 queries: passes of whole tiles waste nothing of it. */
enum { PASS_QUERIES_MIN = 16, PASS_GROUP = 16, PASS_TILE = 128, PASS_GROWTH = 4 };

/* ---- a batch, out of the heap ---- */

/* Numbers of this size at a place of the heap. */
static char *numbers_at(const struct gpu *g, uint64_t place, uint64_t count, uint64_t size)
{
    return place % size ? NULL : gpu_heap(g, place, count * size);
}

static bool add_filter(const struct gpu *g, const struct order_run *r, struct knn_batch *b,
                       const struct order_segment *s, uint32_t *number)
{
    uint64_t bytes = (r->row_count + 63) / 64 * sizeof(uint64_t);
    *number = CUDA_FILTER_NONE;
    if (s->allowed == PLACE_NONE) return true;
    char *host = gpu_heap(g, s->allowed, bytes);
    if (!host) return false;
    *number = b->filter_count;
    b->filter_parts[b->filter_count] =
        (struct scatter_part){.host = host, .end = b->filter_count + 1, .bytes = bytes};
    b->filter_count++;
    return true;
}

/* Adds the i-th segment, whose first query is the batch's query `first`. */
static bool add_segment(const struct gpu *g, const struct order_run *r, struct knn_batch *b,
                        uint32_t i, uint64_t first)
{
    const struct order_segment *s = &b->segments[i];
    if (s->query_count > r->query_count - first || s->k < 1 ||
        (s->has_threshold && isnan(s->threshold)))
        return false;
    uint64_t n = s->query_count, end = first + n, row = r->dimension * sizeof(float);
    char *queries = numbers_at(g, s->queries, n * r->dimension, sizeof(float));
    char *ids = numbers_at(g, s->out_ids, n * s->k, sizeof(uint64_t));
    char *scores = numbers_at(g, s->out_scores, n * s->k, sizeof(float));
    char *counts = numbers_at(g, s->out_counts, n, sizeof(uint32_t));
    uint32_t number;
    if (!queries || !ids || !scores || !counts || !add_filter(g, r, b, s, &number)) return false;
    b->query_parts[i] = (struct scatter_part){queries, end, row};
    b->id_parts[i] = (struct scatter_part){ids, end, s->k * sizeof(uint64_t)};
    b->score_parts[i] = (struct scatter_part){scores, end, s->k * sizeof(float)};
    b->count_parts[i] = (struct scatter_part){counts, end, sizeof(uint32_t)};
    for (uint64_t q = first; q < end; q++)
        b->filter_of[q] = number;
    return true;
}

static bool add_segments(const struct gpu *g, const struct order_run *r, struct knn_batch *b)
{
    uint64_t first = 0;
    uint32_t k = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        if (!add_segment(g, r, b, i, first)) return false;
        first += b->segments[i].query_count;
        if (b->segments[i].k > k) k = b->segments[i].k;
    }
    b->queries = (struct scatter){b->query_parts, r->dimension * sizeof(float)};
    b->filters = (struct scatter){b->filter_parts, b->filter_parts[0].bytes};
    b->ids = (struct scatter){b->id_parts, k * sizeof(uint64_t)};
    b->scores = (struct scatter){b->score_parts, k * sizeof(float)};
    b->counts = (struct scatter){b->count_parts, sizeof(uint32_t)};
    return first == r->query_count && k == r->k;
}

/* Copied before it is checked, because the other process may change it at any time. */
enum order_result run_knn_read(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    if (!r->segment_count || t->batch) return RESULT_OK;
    uint64_t bytes = (uint64_t)r->segment_count * sizeof(struct order_segment);
    const void *segments = gpu_heap(g, r->segments, bytes);
    if (!segments || r->segment_count > ORDER_SEGMENTS_MAX ||
        r->query_count > ORDER_SEGMENT_QUERIES_MAX)
        return RESULT_REFUSED;
    struct knn_batch *b = fault_here("run_knn: batch") ? NULL : malloc(sizeof *b);
    if (!b) return RESULT_NO_MEMORY;
    t->batch = b;
    b->count = r->segment_count;
    b->filter_count = 0;
    b->filter_parts[0] = (struct scatter_part){0};
    memcpy(b->segments, segments, bytes);
    return add_segments(g, r, b) ? RESULT_OK : RESULT_REFUSED;
}

/* ---- the plan ---- */

static void plan_scratch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t queries = t->plan.paced ? t->pass_queries_max : r->query_count;
    t->plan.scratch_best = g->ops->topk_scratch_best(queries, r->k, r->row_count);
    if (replica_shadow_helps(g, t->replica, queries, r->k)) {
        uint64_t bytes = g->ops->shadow_scratch(queries, r->k, r->row_count, r->dimension);
        if (bytes > t->plan.scratch_best) t->plan.scratch_best = bytes;
    }
    t->plan.scratch_least = g->ops->topk_scratch_min(queries, r->k, r->row_count);
}

/* What the search through a shadow counts, which comes back first, so always as one copy. */
static void plan_work(struct task *t)
{
    struct task_plan *p = &t->plan;
    plan_out(p, (struct section){.bytes = sizeof(struct cuda_topk_work)});
    p->out_small = p->out_bytes;
}

static bool plan_one_in(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t words = (r->row_count + 63) / 64;
    return plan_queries(g, t) && (r->allowed == PLACE_NONE ||
                                  plan_in_at(g, &t->plan, r->allowed, words * sizeof(uint64_t)));
}

static bool plan_one_out(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t n = r->query_count * r->k;
    return plan_out_at(g, p, r->out_ids, n * sizeof(uint64_t)) &&
           plan_out_at(g, p, r->out_scores, n * sizeof(float)) &&
           plan_out_at(g, p, r->out_counts, r->query_count * sizeof(uint32_t));
}

static void plan_batch_in(struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct knn_batch *b = t->batch;
    struct task_plan *p = &t->plan;
    uint64_t row = vector_stride(r->dimension) * sizeof(float);
    plan_in(p, (struct section){.scatter = &b->queries,
                                .bytes = r->query_count * row,
                                .rows = r->query_count,
                                .dimension = r->dimension});
    if (b->filter_count) {
        plan_in(p, (struct section){.scatter = &b->filters,
                                    .bytes = b->filter_count * b->filters.line});
        plan_in(p, (struct section){.host = (char *)b->filter_of,
                                    .bytes = r->query_count * sizeof *b->filter_of});
    }
}

bool run_knn_plan_in(struct gpu *g, struct task *t)
{
    if (!t->batch) return plan_one_in(g, t);
    plan_batch_in(t);
    return true;
}

static void plan_batch_out(struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct knn_batch *b = t->batch;
    struct task_plan *p = &t->plan;
    uint64_t n = r->query_count * r->k;
    plan_out(p, (struct section){.scatter = &b->ids, .bytes = n * sizeof(uint64_t)});
    plan_out(p, (struct section){.scatter = &b->scores, .bytes = n * sizeof(float)});
    plan_out(p,
             (struct section){.scatter = &b->counts, .bytes = r->query_count * sizeof(uint32_t)});
}

static uint64_t in_groups(uint64_t queries)
{
    uint64_t group = queries < PASS_TILE ? PASS_GROUP : PASS_TILE;
    queries = queries / group * group;
    return queries < PASS_QUERIES_MIN ? PASS_QUERIES_MIN : queries;
}

/* The multiplications of a query, and one that keeps it from being 0. */
static uint64_t line_of(const struct order_run *r)
{
    return r->row_count * r->dimension + 1;
}

uint64_t run_knn_rate(const struct gpu *g, const struct task *t)
{
    uint64_t known = t->replica ? t->replica->multiply_adds : 0;
    return known ? known : g->ops->multiply_adds(g->device);
}

static void plan_passes(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    t->pass_queries = in_groups(run_knn_rate(g, t) * (ORDER_PASS_NS / 1000) / line_of(r));
    t->pass_queries_max = t->pass_queries * PASS_GROWTH; /* for which there is scratch */
    if (t->pass_queries_max > r->query_count) t->pass_queries_max = r->query_count;
    t->plan.paced = t->plan.rereads = t->pass_queries < r->query_count;
}

static enum order_result knn_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    if (r->k < 1 || r->k > TOPK_K_MAX) return RESULT_REFUSED;
    enum order_result result = run_knn_read(g, t);
    if (result) return result;
    plan_work(t);
    if (!run_knn_plan_in(g, t) || (!t->batch && !plan_one_out(g, t))) return RESULT_REFUSED;
    if (t->batch) plan_batch_out(t);
    plan_passes(g, t);
    plan_scratch(g, t);
    return RESULT_OK;
}

/* ---- launching ---- */

struct cuda_filter run_knn_filter(const struct gpu *g, const struct task *t)
{
    const struct task_plan *p = &t->plan;
    if (p->in_count == 1) return (struct cuda_filter){0};
    struct cuda_filter f = {.allowed = (const uint64_t *)run_device_at(g, t, p->in[1].at)};
    if (!t->batch) return f;
    f.of = (const uint32_t *)run_device_at(g, t, p->in[2].at) + t->first_query;
    f.words = t->batch->filters.line / sizeof(uint64_t);
    return f;
}

/* Before the first pass: decides whether the shadow is asked. */
static enum device_result begin(struct gpu *g, struct task *t)
{
    struct replica *r = t->replica;
    replica_shadow_retry(g, r, t->lane->stream);
    t->shadowed = replica_shadow_helps(g, r, t->pass_queries, t->order.run.k);
    if (!t->shadowed) {
        if (replica_shadow_rest(g, r)) t->screen = SCREEN_RESTED;
        return DEVICE_OK;
    }
    return g->ops->clear(g->device, run_out_at(g, t, OUT_WORK), sizeof(struct cuda_topk_work),
                         t->lane->stream);
}

/* True if the pass can go through the shadow. */
static bool through_shadow(const struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    return t->shadowed && !t->redoes &&
           g->ops->shadow_suits(g->device, r->dimension, t->pass_queries, r->k, r->row_count) &&
           g->ops->shadow_scratch(t->pass_queries, r->k, r->row_count, r->dimension) <=
               t->plan.scratch_bytes;
}

/* What a pass goes through. */
static uint64_t pass_bytes(const struct order_run *r, bool shadow)
{
    if (shadow) return shadow_bytes(r->dimension, r->row_count);
    return r->row_count * vector_stride(r->dimension) * sizeof(float);
}

static enum device_result knn_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct task_plan *p = &t->plan;
    uint64_t first = t->first_query, left = r->query_count - first;
    if (t->pass_queries > left) t->pass_queries = left;
    t->pass_began_ns = clock_read_ns(g->clock);
    enum device_result result = first || t->redoes ? DEVICE_OK : begin(g, t);
    if (result != DEVICE_OK) return result;
    bool shadow = through_shadow(g, t);
    struct device_call call = {.kernel = shadow ? KERNEL_SHADOW_TOPK : KERNEL_TOPK,
                               .metric = (enum metric)r->metric,
                               .rows = replica_rows(t->replica),
                               .queries = run_queries(g, t, first, t->pass_queries)};
    call.topk = (struct cuda_topk){
        .k = r->k,
        .ids = replica_ids(t->replica),
        .filter = run_knn_filter(g, t),
        .threshold = r->has_threshold && !t->batch ? &r->threshold : NULL,
        .scratch = run_device_at(g, t, p->scratch_at),
        .scratch_bytes = p->scratch_bytes,
        .out_ids = (uint64_t *)run_out_at(g, t, OUT_IDS) + first * r->k,
        .out_scores = (float *)run_out_at(g, t, OUT_SCORES) + first * r->k,
        .out_counts = (uint32_t *)run_out_at(g, t, OUT_COUNTS) + first,
        .work = shadow ? (struct cuda_topk_work *)run_out_at(g, t, OUT_WORK) : NULL,
    };
    if (shadow) call.shadow = replica_shadow(t->replica);
    t->read_bytes += pass_bytes(r, shadow);
    return g->ops->launch(g->device, &call, t->lane->stream);
}

/* ---- the way back ---- */

void run_fill_rest(uint64_t *ids, float *scores, uint32_t count, uint32_t k)
{
    static const uint32_t no_score = 0x7fc00000;
    for (uint32_t i = count; i < k; i++) {
        ids[i] = UINT64_MAX;
        memcpy(&scores[i], &no_score, sizeof no_score);
    }
}

static void finish_one(struct gpu *g, const struct task *t)
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

/* How many of the count best, which are in order, reach the threshold. */
static uint32_t cut_at(const struct order_segment *s, bool lower_is_better, const float *scores,
                       uint32_t count)
{
    uint32_t worst = topk_key(s->threshold, lower_is_better);
    while (count > 0 && topk_key(scores[count - 1], lower_is_better) > worst)
        count--;
    return count;
}

/* The device's count is for the batch's k, and ignores thresholds. */
static void finish_segment(struct gpu *g, const struct task *t, uint32_t i)
{
    const struct knn_batch *b = t->batch;
    const struct order_segment *s = &b->segments[i];
    bool lower_is_better = metric_lower_is_better(t->order.run.metric);
    uint64_t *ids = (uint64_t *)b->id_parts[i].host;
    float *scores = (float *)b->score_parts[i].host;
    uint32_t *counts = (uint32_t *)b->count_parts[i].host;
    for (uint64_t q = 0; q < s->query_count; q++, ids += s->k, scores += s->k) {
        uint32_t count = counts[q];
        if (count > s->k) count = s->k;
        if (s->has_threshold) count = cut_at(s, lower_is_better, scores, count);
        counts[q] = count;
        run_fill_rest(ids, scores, count, s->k);
    }
    gpu_beat(g);
}

/* ---- what the shadow was of no use for ---- */

static uint32_t count_of(const struct task *t, uint64_t query)
{
    if (!t->batch) return ((const uint32_t *)t->plan.out[OUT_COUNTS].host)[query];
    const struct scatter_part *parts = t->batch->count_parts;
    uint32_t i = 0;
    while (parts[i].end <= query)
        i++;
    uint64_t first = i ? parts[i - 1].end : 0;
    return ((const uint32_t *)parts[i].host)[query - first];
}

/* Sets the next run of such queries from `from` on; false: there is none. */
static bool find_redo(struct task *t, uint64_t from)
{
    uint64_t count = t->order.run.query_count, first = from;
    while (first < count && count_of(t, first) != CUDA_SHADOW_REDO)
        first++;
    uint64_t end = first;
    while (end < count && end - first < t->pass_queries_max && count_of(t, end) == CUDA_SHADOW_REDO)
        end++;
    t->first_query = first;
    t->pass_queries = end - first;
    return first < count;
}

/* After the last pass, and after each run of queries that were asked again. The heap has their
 * results as soon as a pass has been drained. */
static bool redo_next(struct gpu *g, struct task *t)
{
    uint64_t from = t->redoes ? t->first_query + t->pass_queries : 0;
    if (!t->shadowed || !find_redo(t, from)) return false;
    if (!t->redoes && !run_reread(t)) { /* an upload has changed the replica: the CPU's */
        t->result = RESULT_NO_VERSION;
        return false;
    }
    t->redone += t->pass_queries;
    t->redoes = true;
    return true;
}

/* All results come back after the last pass. */
static enum order_result knn_drain(struct gpu *g, struct task *t, const char *small)
{
    bool last = t->first_query + t->pass_queries == t->order.run.query_count;
    if (t->shadowed && !t->redoes) {
        struct cuda_topk_work work;
        memcpy(&work, small + t->plan.out[OUT_WORK].at, sizeof work);
        t->passed = work.passed;
    }
    return last || t->redoes ? run_drain_all(g, t, small) : RESULT_OK;
}

/* How fast rows are compared depends on them: where the screen lets many pass, a sixth as fast. The
 * replica remembers it for its next request. A short pass does not fill the device and tells
 * nothing, unless it was faster. */
static void learn_rate(const struct gpu *g, struct task *t, uint64_t took_ns)
{
    uint64_t us = took_ns / 1000, known = run_knn_rate(g, t);
    uint64_t rate = us ? t->pass_queries * line_of(&t->order.run) / us : 0;
    if (!rate || (took_ns < ORDER_PASS_NS / 2 && rate < known)) return;
    t->replica->multiply_adds = (known + rate) / 2;
}

/* How many queries the next pass has, after the time that the last took; what others ran between
 * counts, too. */
static uint64_t next_pass(const struct task *t, uint64_t took_ns)
{
    uint64_t queries = t->pass_queries;
    if (took_ns < ORDER_PASS_NS / 2)
        queries *= 2;
    else
        queries = took_ns > ORDER_PASS_NS * 2 ? queries / 2 : queries * ORDER_PASS_NS / took_ns;
    queries = in_groups(queries);
    return queries < t->pass_queries_max ? queries : t->pass_queries_max;
}

void run_tell_screen(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    bool useful = replica_shadow_learn(g, t->replica, r->query_count, t->passed, t->redone);
    t->screen = SCREEN_ASKED | (useful ? 0 : SCREEN_USELESS);
    t->number = t->passed + t->redone * r->row_count;
    t->read_bytes += t->passed * vector_stride(r->dimension) * sizeof(float);
}

/* Goes on with the next pass, or fills the rest of each line and, for a batch, applies
 * thresholds. */
static bool knn_next(struct gpu *g, struct task *t)
{
    uint64_t took_ns = clock_read_ns(g->clock) - t->pass_began_ns;
    if (!t->redoes) learn_rate(g, t, took_ns);
    if (!t->redoes && t->first_query + t->pass_queries < t->order.run.query_count) {
        t->first_query += t->pass_queries;
        t->pass_queries = next_pass(t, took_ns);
        return true;
    }
    if (redo_next(g, t)) return true;
    if (t->result != RESULT_OK) return false;
    if (t->shadowed) run_tell_screen(g, t);
    if (!t->batch) finish_one(g, t);
    for (uint32_t i = 0; t->batch && i < t->batch->count; i++)
        finish_segment(g, t, i);
    return false;
}

const struct run_kind run_knn = {
    .plan = knn_plan,
    .fits = run_fits_rows,
    .launch = knn_launch,
    .drain = knn_drain,
    .next = knn_next,
    .part = run_part_queries,
};
