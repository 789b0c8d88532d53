/* run: a request: what moves in, which kernels, what moves out. */
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/inside.h"

enum { ALIGN = 256, BEAT_QUERIES = 256 };
#define PATIENCE_NS UINT64_C(5000000) /* how long one that waits for memory lets others pass */

static uint64_t place(uint64_t *at, uint64_t bytes)
{
    uint64_t from = *at;
    *at = from + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return from;
}

/* ---- the plan ---- */

static bool add_in(struct gpu *g, struct task_plan *p, uint64_t heap_place, uint64_t bytes)
{
    struct section *s = &p->in[p->in_count++];
    *s = (struct section){.host = gpu_heap(g, heap_place, bytes), .bytes = bytes};
    s->at = place(&p->in_bytes, bytes);
    return s->host || !bytes;
}

/* Row numbers, which must be below the replica's rows, or where lists begin and end. */
static bool add_numbers(struct gpu *g, struct task_plan *p, uint64_t heap_place, uint64_t bytes,
                        enum numbers numbers, uint64_t limit)
{
    if (!add_in(g, p, heap_place, bytes)) return false;
    p->in[p->in_count - 1].numbers = numbers;
    p->in[p->in_count - 1].limit = limit;
    return true;
}

static bool add_positions(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    return add_numbers(g, &t->plan, r->positions, r->list_count * sizeof(uint32_t),
                       NUMBERS_POSITIONS, r->row_count);
}

/* The queries are always the first to come in. */
static bool add_queries(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t bytes = r->query_count * vector_stride(r->dimension) * sizeof(float);
    char *host = gpu_heap(g, r->queries, r->query_count * r->dimension * sizeof(float));
    if (!host && r->query_count) return false;
    struct section *s = &p->in[p->in_count++];
    *s = (struct section){
        .host = host, .bytes = bytes, .rows = r->query_count, .dimension = r->dimension};
    s->at = place(&p->in_bytes, bytes);
    s->norms_at = place(&p->in_bytes, r->query_count * sizeof(float));
    return true;
}

static bool add_out(struct gpu *g, struct task_plan *p, uint64_t heap_place, uint64_t bytes)
{
    struct section *s = &p->out[p->out_count++];
    *s = (struct section){.host = gpu_heap(g, heap_place, bytes), .bytes = bytes};
    s->at = place(&p->out_bytes, bytes);
    return s->host || !bytes;
}

static uint64_t columns_of(const struct order_run *r)
{
    return r->positions != PLACE_NONE ? r->list_count : r->row_count;
}

static bool plan_knn(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    if (r->k < 1 || r->k > TOPK_K_MAX || !add_queries(g, t)) return false;
    uint64_t words = (r->row_count + 63) / 64, n = r->query_count * r->k;
    if (r->allowed != PLACE_NONE && !add_in(g, p, r->allowed, words * sizeof(uint64_t)))
        return false;
    p->scratch_bytes = g->ops->topk_scratch_best(r->query_count, r->k, r->row_count);
    p->scratch_least = g->ops->topk_scratch_min(r->query_count, r->k, r->row_count);
    return add_out(g, p, r->out_ids, n * sizeof(uint64_t)) &&
           add_out(g, p, r->out_scores, n * sizeof(float)) &&
           add_out(g, p, r->out_counts, r->query_count * sizeof(uint32_t));
}

/* The scores of as many queries as fit a quarter of the pool make a pass. */
static bool plan_scores(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t columns = columns_of(r), line = columns * sizeof(float);
    if (!gpu_heap(g, r->out_scores, r->query_count * line) || !add_queries(g, t)) return false;
    bool listed = r->positions != PLACE_NONE;
    if (listed && !add_positions(g, t)) return false;
    uint64_t most = vram_pool_usage(g->pool).slab_bytes / 4;
    t->pass_queries = line ? most / line : r->query_count;
    if (t->pass_queries < 1) t->pass_queries = 1;
    if (t->pass_queries > r->query_count) t->pass_queries = r->query_count;
    if (!listed && r->out_ids != PLACE_NONE && !gpu_heap(g, r->out_ids, columns * sizeof(uint64_t)))
        return false;
    return add_out(g, p, r->out_scores, t->pass_queries * line);
}

static bool plan_lists(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    return add_queries(g, t) && add_positions(g, t) &&
           add_numbers(g, &t->plan, r->offsets, (r->query_count + 1) * sizeof(uint64_t),
                       NUMBERS_OFFSETS, r->list_count) &&
           add_out(g, &t->plan, r->out_scores, r->list_count * sizeof(float));
}

static bool plan_average(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    return add_positions(g, t) && add_in(g, &t->plan, r->weights, r->list_count * sizeof(float)) &&
           add_out(g, &t->plan, r->out_scores, r->dimension * sizeof(float));
}

static bool make_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t most = UINT64_C(1) << 40; /* of anything: products below cannot overflow */
    if (r->dimension < 1 || r->dimension > VECTOR_DIMENSION_MAX || r->query_count > most >> 16 ||
        r->row_count > UINT64_C(1) << 32 || r->list_count > most || r->metric < METRIC_COSINE ||
        r->metric > METRIC_SQUARED_EUCLIDEAN)
        return false;
    memset(p, 0, sizeof *p);
    bool sound = false;
    switch (r->operation) {
    case RUN_KNN: sound = plan_knn(g, t); break;
    case RUN_SCORES: sound = plan_scores(g, t); break;
    case RUN_LISTS: sound = plan_lists(g, t); break;
    case RUN_AVERAGE: sound = plan_average(g, t); break;
    default: break;
    }
    p->out_at = p->bytes = p->in_bytes;
    place(&p->bytes, p->out_bytes);
    p->scratch_at = p->bytes;
    return sound;
}

/* ---- starting ---- */

/* Ids of all rows, where the front asked for them: they go out once. */
static bool ids_are_next(const struct task *t)
{
    const struct order_run *r = &t->order.run;
    return r->operation == RUN_SCORES && r->positions == PLACE_NONE && r->out_ids != PLACE_NONE &&
           !t->ids_sent;
}

/* Device memory for all of it, with less scratch where there is less. */
static enum status take_block(struct gpu *g, struct task *t)
{
    struct task_plan *p = &t->plan;
    uint64_t largest = vram_pool_largest(g->pool);
    if (p->scratch_bytes > p->scratch_least && p->bytes + p->scratch_bytes > largest)
        p->scratch_bytes =
            largest >= p->bytes + p->scratch_least ? largest - p->bytes : p->scratch_least;
    uint64_t bytes = p->bytes + p->scratch_bytes;
    return vram_pool_take(g->pool, bytes ? bytes : 1, t->order.space, &t->block);
}

static bool in_is_small(const struct task *t)
{
    return t->plan.in_bytes <= SMALL_BYTES;
}

static bool out_is_small(const struct task *t)
{
    return t->plan.out_bytes <= SMALL_BYTES;
}

/* Small requests must not take each gap before a large one that waits. */
static bool may_take(const struct gpu *g, const struct task *t)
{
    return !g->hungry || g->hungry == t || clock_now_ns() - g->hungry_ns < PATIENCE_NS;
}

/* VRAM and pinned memory, all or nothing. *never: there will not be enough. */
static bool take_memory(struct gpu *g, struct task *t, bool *never)
{
    uint64_t pinned =
        (in_is_small(t) ? t->plan.in_bytes : 0) + (out_is_small(t) ? t->plan.out_bytes : 0);
    struct vram_pool_usage pool = vram_pool_usage(g->pool);
    *never = t->plan.bytes + t->plan.scratch_least > pool.slab_bytes;
    if (*never || !may_take(g, t)) return false;
    if (take_block(g, t)) {
        *never = pool.blocks == 0;
        return false;
    }
    if (vram_pool_take(g->pinned_pool, pinned ? pinned : 1, t->order.space, &t->pinned)) {
        vram_pool_give(g->pool, &t->block);
        return false; /* others' come back */
    }
    return true;
}

/* The whole input by this thread: it is small. */
static enum order_result fill_small(struct gpu *g, struct task *t)
{
    const struct task_plan *p = &t->plan;
    char *pinned = g->pinned + t->pinned.offset;
    for (uint32_t i = 0; i < p->in_count; i++) {
        const struct section *s = &p->in[i];
        if (!s->bytes) continue;
        if (!s->dimension) {
            memcpy(pinned + s->at, s->host, s->bytes);
            if (!transfer_sound(s->numbers, s->limit, pinned + s->at, s->bytes, 0))
                return RESULT_REFUSED;
            continue;
        }
        uint64_t good = transfer_pad(g->kernels, s->dimension, (const float *)s->host, s->rows,
                                     (float *)(pinned + s->at), (float *)(pinned + s->norms_at));
        if (good == s->rows) continue;
        t->number = good;
        return RESULT_BAD_QUERY;
    }
    return RESULT_OK;
}

static void fill_large(struct gpu *g, struct task *t)
{
    char *device = g->slab + t->block.offset;
    for (uint32_t i = 0; i < t->plan.in_count; i++) {
        const struct section *s = &t->plan.in[i];
        t->in.moves[i] = (struct move){.host = s->host,
                                       .device = device + s->at,
                                       .norms = (float *)(device + s->norms_at),
                                       .bytes = s->bytes,
                                       .rows = s->rows,
                                       .dimension = s->dimension,
                                       .numbers = s->numbers,
                                       .limit = s->limit};
    }
    t->in.move_count = t->plan.in_count;
}

static enum order_result find_replica(struct gpu *g, struct task *t)
{
    const struct order *o = &t->order;
    struct replica *r = replica_find(g, o->replica);
    if (!r || r->version != o->version || r->version == 0) return RESULT_NO_REPLICA;
    if (r->space != o->space || r->dimension != o->run.dimension || r->rows != o->run.row_count)
        return RESULT_REFUSED;
    replica_hold(g, r);
    t->replica = r;
    return RESULT_OK;
}

/* Others' bytes are gone before this space can read them. */
static enum device_result clear_block(struct gpu *g, struct task *t)
{
    char *pinned = g->pinned + t->pinned.offset;
    memset(pinned, 0, t->pinned.dirty_bytes);
    t->pinned.dirty_bytes = 0;
    if (!t->block.dirty_bytes) return DEVICE_OK;
    enum device_result result =
        g->ops->clear(g->device, g->slab + t->block.offset, t->block.dirty_bytes, t->lane->stream);
    if (result == DEVICE_OK) t->block.dirty_bytes = 0;
    return result;
}

static enum order_result result_of(struct gpu *g, enum device_result result)
{
    return gpu_ok(g, result)            ? RESULT_OK
           : result == DEVICE_NO_MEMORY ? RESULT_NO_MEMORY
                                        : RESULT_ERROR;
}

/* It has its memory. */
static void begin(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    if (g->hungry == t) g->hungry = NULL;
    t->rereads =
        r->operation == RUN_SCORES && (ids_are_next(t) || t->pass_queries < r->query_count);
    t->replica->rereaders += t->rereads;
    enum order_result filled = result_of(g, clear_block(g, t));
    t->state = TASK_FILL;
    if (!filled && in_is_small(t)) filled = fill_small(g, t);
    if (filled)
        task_end(g, t, filled);
    else if (!in_is_small(t))
        fill_large(g, t);
}

bool run_start(struct gpu *g, struct task *t)
{
    enum order_result found = find_replica(g, t);
    bool never = false;
    if (!found && !make_plan(g, t)) found = RESULT_REFUSED;
    if (!found && !take_memory(g, t, &never)) {
        replica_let_go(t->replica);
        t->replica = NULL;
        if (!never && !g->hungry) {
            g->hungry = t;
            g->hungry_ns = clock_now_ns();
        }
        if (!never) return false;
        found = RESULT_NO_MEMORY;
    }
    if (found) {
        task_end(g, t, found);
        return true;
    }
    begin(g, t);
    return true;
}

/* ---- launching ---- */

static char *device_at(const struct gpu *g, const struct task *t, uint64_t at)
{
    return g->slab + t->block.offset + at;
}

static struct cuda_queries queries_of(const struct gpu *g, const struct task *t, uint64_t first,
                                      uint64_t count)
{
    const struct section *s = &t->plan.in[0];
    return (struct cuda_queries){.rows = (const float *)device_at(g, t, s->at) +
                                         first * vector_stride(s->dimension),
                                 .norms = (const float *)device_at(g, t, s->norms_at) + first,
                                 .count = count};
}

static enum device_result launch_knn(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct task_plan *p = &t->plan;
    struct cuda_queries queries = queries_of(g, t, 0, r->query_count);
    struct cuda_rows rows = replica_rows(t->replica);
    char *out = device_at(g, t, p->out_at);
    struct cuda_topk topk = {
        .k = r->k,
        .ids = replica_ids(t->replica),
        .filter.allowed = p->in_count > 1 ? (const uint64_t *)device_at(g, t, p->in[1].at) : NULL,
        .threshold = r->has_threshold ? &r->threshold : NULL,
        .scratch = device_at(g, t, p->scratch_at),
        .scratch_bytes = p->scratch_bytes,
        .out_ids = (uint64_t *)(out + p->out[0].at),
        .out_scores = (float *)(out + p->out[1].at),
        .out_counts = (uint32_t *)(out + p->out[2].at),
    };
    return g->ops->topk(g->device, r->metric, &queries, &rows, &topk, t->lane->stream);
}

static enum device_result launch_scores(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    float *scores = (float *)device_at(g, t, t->plan.out_at);
    uint64_t left = r->query_count - t->first_query;
    if (t->pass_queries > left) t->pass_queries = left;
    struct cuda_queries queries = queries_of(g, t, t->first_query, t->pass_queries);
    struct cuda_rows rows = replica_rows(t->replica);
    if (r->positions != PLACE_NONE)
        return g->ops->gather_lists(g->device, r->metric, &queries, &rows,
                                    (const uint32_t *)device_at(g, t, t->plan.in[1].at), NULL,
                                    r->list_count, scores, t->lane->stream);
    if (queries.count == 1)
        return g->ops->scan(g->device, r->metric, &queries, &rows, scores, t->lane->stream);
    return g->ops->tile(g->device, r->metric, &queries, &rows, scores, rows.count, t->lane->stream);
}

static enum device_result launch_lists(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct task_plan *p = &t->plan;
    struct cuda_queries queries = queries_of(g, t, 0, r->query_count);
    struct cuda_rows rows = replica_rows(t->replica);
    return g->ops->gather_lists(g->device, r->metric, &queries, &rows,
                                (const uint32_t *)device_at(g, t, p->in[1].at),
                                (const uint64_t *)device_at(g, t, p->in[2].at), r->list_count,
                                (float *)device_at(g, t, p->out_at), t->lane->stream);
}

static enum device_result launch_average(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct task_plan *p = &t->plan;
    struct cuda_rows rows = replica_rows(t->replica);
    return g->ops->average(g->device, &rows, (const uint32_t *)device_at(g, t, p->in[0].at),
                           (const float *)device_at(g, t, p->in[1].at), r->list_count, r->total,
                           (float *)device_at(g, t, p->out_at), t->lane->stream);
}

static enum device_result launch_kernels(struct gpu *g, struct task *t)
{
    switch (t->order.run.operation) {
    case RUN_KNN: return launch_knn(g, t);
    case RUN_SCORES: return launch_scores(g, t);
    case RUN_LISTS: return launch_lists(g, t);
    default: return launch_average(g, t);
    }
}

/* Where a small result waits for the event, in the pinned block. */
static char *small_out(const struct gpu *g, const struct task *t)
{
    return g->pinned + t->pinned.offset + (in_is_small(t) ? t->plan.in_bytes : 0);
}

enum device_result run_launch(struct gpu *g, struct task *t)
{
    const struct task_plan *p = &t->plan;
    enum device_result result = DEVICE_OK;
    bool first = t->first_query == 0;
    if (first && in_is_small(t) && p->in_bytes)
        result = g->ops->copy_in(g->device, device_at(g, t, 0), g->pinned + t->pinned.offset,
                                 p->in_bytes, t->lane->stream);
    if (result == DEVICE_OK) result = launch_kernels(g, t);
    if (result == DEVICE_OK && out_is_small(t) && p->out_bytes)
        result = g->ops->copy_out(g->device, small_out(g, t), device_at(g, t, p->out_at),
                                  p->out_bytes, t->lane->stream);
    return result;
}

/* ---- the way back ---- */

/* Past each query's count: no id, no score. */
static void fill_rest(struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    static const uint32_t no_score = 0x7fc00000;
    uint64_t *ids = (uint64_t *)t->plan.out[0].host;
    char *scores = t->plan.out[1].host;
    const uint32_t *counts = (const uint32_t *)t->plan.out[2].host;
    for (uint64_t q = 0; q < r->query_count; q++) {
        if (q % BEAT_QUERIES == 0) gpu_beat(g);
        for (uint64_t i = counts[q]; i < r->k; i++) {
            ids[q * r->k + i] = UINT64_MAX;
            memcpy(scores + (q * r->k + i) * sizeof no_score, &no_score, sizeof no_score);
        }
    }
}

void run_drain(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t line = columns_of(r) * sizeof(float);
    uint64_t skip = r->operation == RUN_SCORES ? t->first_query * line : 0;
    uint64_t bytes = r->operation == RUN_SCORES ? t->pass_queries * line : 0;
    for (uint32_t i = 0; i < t->plan.out_count; i++) {
        const struct section *s = &t->plan.out[i];
        uint64_t now = r->operation == RUN_SCORES ? bytes : s->bytes;
        if (now == 0) continue;
        if (out_is_small(t))
            memcpy(s->host + skip, small_out(g, t) + s->at, now);
        else
            t->out.moves[t->out.move_count++] =
                (struct move){.host = s->host + skip,
                              .device = device_at(g, t, t->plan.out_at + s->at),
                              .bytes = now};
    }
    uint64_t id_bytes = r->row_count * sizeof(uint64_t);
    if (ids_are_next(t)) {
        t->ids_sent = true;
        t->out.moves[t->out.move_count++] = (struct move){.host = gpu_heap(g, r->out_ids, id_bytes),
                                                          .device = (char *)replica_ids(t->replica),
                                                          .bytes = id_bytes};
    }
}

bool run_next(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    if (r->operation == RUN_KNN) fill_rest(g, t);
    if (r->operation != RUN_SCORES) return false;
    t->first_query += t->pass_queries;
    return t->first_query < r->query_count;
}
