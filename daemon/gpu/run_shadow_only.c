/* run_shadow_only: the k best rows, of one request or of several, where the device has only what
 * codes the rows (replica.shadow_only). A pass leaves for each query a list of rows that may be
 * among the best, and all of the others (kernels/shadow_list.h); those are scored here, from the
 * heap, by the copiers: with the CPU's kernels, so the scores are the CPU's. A query whose list is
 * not whole is asked again, alone, where the list has more room. Where many are, or it is not whole
 * then, the request is the CPU's (RESULT_NO_MEMORY), as is any for a while after it. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/gpu/replica_shadow.h"
#include "daemon/gpu/run.h"
#include "kernels/topk.h"

enum {
    PASS_QUERIES = 128,
    PASS_QUERIES_MIN = 16,
    SURVIVORS = 512,       /* of a query there is room for so many, */
    SURVIVORS_A_PLACE = 8, /* for each of its k places so many more, */
    SURVIVORS_MIN = 8192,  /* and for all of a pass for at least so many */
    AGAIN_FEW = 4,         /* queries that are asked again in any case, */
    AGAIN_SHARE = 16,      /* or one of so many */
    CHUNK = 64,            /* rows that are scored together, of one query */
    CHUNKS_HERE = 2,       /* so many are not worth waking a copier */
    SLICE_BYTES = 8 << 20, /* of rows that are scored at a time */
};
enum { OUT_HEAD, OUT_LIST };

struct chunk {
    uint32_t query; /* of the pass */
    uint32_t first, count;
};

/* Where a query's result goes, and what it is to be. */
struct result_line {
    uint64_t *ids;
    float *scores;
    uint32_t *count;
    uint32_t k;
    const float *threshold;
};

/* What a task has beside its plan; one block of memory. */
struct survivors {
    /* of a copier's work */
    const struct gpu *gpu;
    const struct task *task;
    const uint64_t *places; /* of segments; in the heap */
    uint64_t segment_rows;
    atomic_bool unsound; /* a row's place is none */
    struct copy_work work;
    const struct chunk *slice;

    uint32_t pass_max, out_max;
    uint32_t *head; /* as struct cuda_shadow_list: total, firsts, counts */
    struct shadow_survivor *list;
    float *scores;
    float *queries, *norms; /* of the pass, padded */
    void *entries;
    struct chunk *chunks;
    uint32_t chunk_count, chunks_done;
    uint64_t again; /* queries without a result so far */
};

/* ---- the plan ---- */

static uint64_t at_least(uint64_t value, uint64_t least)
{
    return value > least ? value : least;
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* Queries of a pass: about as many as the device answers in ORDER_PASS_NS. */
static uint32_t pass_of(const struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t each = r->row_count * r->dimension + 1;
    uint64_t pass = run_knn_rate(g, t) * (ORDER_PASS_NS / 1000) / each;
    pass = pass / PASS_QUERIES_MIN * PASS_QUERIES_MIN;
    pass = at_most(at_most(at_least(pass, PASS_QUERIES_MIN), PASS_QUERIES), r->query_count);
    bool suits = g->ops->shadow_suits(g->device, r->dimension, pass, r->k, r->row_count);
    return suits ? (uint32_t)pass : 1;
}

static uint64_t head_bytes(uint32_t pass)
{
    return (1 + 2 * (uint64_t)pass) * sizeof(uint32_t);
}

/* Cuts the block into its parts. NULL: returns how long it must be. */
static uint64_t cut(struct survivors *s, const struct order_run *r, uint32_t pass, uint32_t out_max)
{
    uint64_t at = sizeof *s, chunks = out_max / CHUNK + pass;
    const uint64_t bytes[] = {head_bytes(pass),
                              out_max * sizeof *s->list,
                              out_max * sizeof *s->scores,
                              pass * vector_stride(r->dimension) * sizeof(float),
                              pass * sizeof(float),
                              topk_bytes(r->k),
                              chunks * sizeof *s->chunks};
    char *parts[sizeof bytes / sizeof *bytes] = {NULL};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        at = (at + 63) / 64 * 64;
        if (s) parts[i] = (char *)s + at;
        at += bytes[i];
    }
    if (!s) return (at + 63) / 64 * 64;
    s->pass_max = pass;
    s->out_max = out_max;
    s->head = (uint32_t *)parts[0];
    s->list = (struct shadow_survivor *)parts[1];
    s->scores = (float *)parts[2];
    s->queries = (float *)parts[3];
    s->norms = (float *)parts[4];
    s->entries = parts[5];
    s->chunks = (struct chunk *)parts[6];
    return at;
}

/* Where the rows are. False: the order does not say it, or nonsense. */
static bool find_rows(struct gpu *g, const struct task *t, struct survivors *s)
{
    const struct order_run *r = &t->order.run;
    uint64_t each = r->host_segment_rows;
    if (r->host_rows == PLACE_NONE || r->host_rows % sizeof(uint64_t) || !each) return false;
    s->segment_rows = each;
    s->places = gpu_heap(g, r->host_rows, (r->row_count + each - 1) / each * sizeof(uint64_t));
    return s->places != NULL;
}

/* Once, as long as t waits. */
static enum order_result make_survivors(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    if (t->survivors) return RESULT_OK;
    uint32_t pass = pass_of(g, t);
    uint64_t room = pass * (SURVIVORS + SURVIVORS_A_PLACE * (uint64_t)r->k);
    uint32_t out_max = (uint32_t)at_most(at_least(room, SURVIVORS_MIN), pass * r->row_count);
    uint64_t bytes = cut(NULL, r, pass, out_max);
    struct survivors *s = fault_here("run_shadow_only: memory") ? NULL : aligned_alloc(64, bytes);
    if (!s) return RESULT_NO_MEMORY;
    *s = (struct survivors){.gpu = g, .task = t};
    t->survivors = s;
    cut(s, r, pass, out_max);
    return find_rows(g, t, s) ? RESULT_OK : RESULT_REFUSED;
}

/* True if all places of results are in the heap; those of a batch have been looked at. */
static bool has_places(struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t n = r->query_count * r->k;
    if (t->batch) return true;
    return gpu_heap(g, r->out_ids, n * sizeof(uint64_t)) && r->out_ids % sizeof(uint64_t) == 0 &&
           gpu_heap(g, r->out_scores, n * sizeof(float)) && r->out_scores % sizeof(float) == 0 &&
           gpu_heap(g, r->out_counts, r->query_count * sizeof(uint32_t)) &&
           r->out_counts % sizeof(uint32_t) == 0;
}

static uint64_t scratch_of(const struct gpu *g, const struct task *t, uint32_t pass)
{
    const struct order_run *r = &t->order.run;
    return g->ops->shadow_list_scratch(pass, r->k, r->row_count, r->dimension);
}

static enum order_result shadow_only_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct replica *replica = t->replica;
    struct task_plan *p = &t->plan;
    if (r->k < 1 || r->k > TOPK_K_MAX || !r->query_count) return RESULT_REFUSED;
    if (!replica->shadow.whole ||
        !g->ops->shadow_suits(g->device, r->dimension, 1, r->k, r->row_count))
        return RESULT_NO_MEMORY;
    if (replica->shadow.exact_left) {
        replica_shadow_rest(g, replica);
        return RESULT_NO_MEMORY;
    }
    enum order_result result = run_knn_read(g, t);
    if (!result) result = make_survivors(g, t);
    if (result) return result;
    if (!run_knn_plan_in(g, t) || !has_places(g, t)) return RESULT_REFUSED;
    const struct survivors *s = t->survivors;
    plan_out(p, (struct section){.bytes = head_bytes(s->pass_max)});
    p->out_small = p->out_bytes;
    plan_out(p, (struct section){.host = (char *)s->list, .bytes = s->out_max * sizeof *s->list});
    p->scratch_least = scratch_of(g, t, s->pass_max);
    p->scratch_best = at_least(p->scratch_least, scratch_of(g, t, 1));
    t->pass_queries = t->pass_queries_max = s->pass_max;
    p->paced = p->rereads = s->pass_max < r->query_count;
    return RESULT_OK;
}

/* ---- launching ---- */

static enum device_result shadow_only_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct task_plan *p = &t->plan;
    const struct survivors *s = t->survivors;
    uint64_t first = t->first_query, left = r->query_count - first;
    if (t->pass_queries > left) t->pass_queries = left;
    uint32_t *head = (uint32_t *)run_out_at(g, t, OUT_HEAD);
    enum device_result result =
        g->ops->clear(g->device, head, head_bytes(s->pass_max), t->lane->stream);
    if (result != DEVICE_OK) return result;
    struct device_call call = {.kernel = KERNEL_SHADOW_LIST,
                               .metric = (enum metric)r->metric,
                               .rows = replica_rows(t->replica),
                               .queries = run_queries(g, t, first, t->pass_queries),
                               .shadow = replica_shadow(t->replica)};
    call.topk =
        (struct cuda_topk){.k = r->k,
                           .ids = replica_ids(t->replica),
                           .filter = run_knn_filter(g, t),
                           .threshold = r->has_threshold && !t->batch ? &r->threshold : NULL,
                           .scratch = run_device_at(g, t, p->scratch_at),
                           .scratch_bytes = p->scratch_bytes};
    call.list =
        (struct cuda_shadow_list){.out = (struct shadow_survivor *)run_out_at(g, t, OUT_LIST),
                                  .out_max = s->out_max,
                                  .total = head,
                                  .firsts = head + 1,
                                  .counts = head + 1 + s->pass_max};
    t->read_bytes += shadow_bytes(r->dimension, r->row_count);
    return g->ops->launch(g->device, &call, t->lane->stream);
}

/* ---- the way back ---- */

static uint32_t first_of(const struct survivors *s, uint64_t q)
{
    return s->head[1 + q];
}

static uint32_t count_of(const struct survivors *s, uint64_t q)
{
    return s->head[1 + s->pass_max + q];
}

static bool is_whole(const struct survivors *s, uint64_t q)
{
    uint64_t count = count_of(s, q);
    return count != CUDA_SHADOW_REDO && first_of(s, q) + count <= s->out_max;
}

/* Cuts the lists into chunks, and returns how many places of them are used. */
static uint64_t cut_chunks(struct survivors *s, uint64_t queries)
{
    uint64_t used = 0;
    s->chunk_count = s->chunks_done = 0;
    for (uint64_t q = 0; q < queries; q++) {
        if (!is_whole(s, q)) continue;
        uint32_t at = first_of(s, q), end = at + count_of(s, q);
        used = at_least(used, end);
        for (; at < end; at += CHUNK)
            s->chunks[s->chunk_count++] =
                (struct chunk){(uint32_t)q, at, (uint32_t)at_most(end - at, CHUNK)};
    }
    return used;
}

/* Lists of one pass do not overlap, so there are no more chunks than there is room for. */
static bool makes_sense(const struct survivors *s, uint64_t queries)
{
    uint64_t all = 0;
    for (uint64_t q = 0; q < queries; q++)
        if (is_whole(s, q)) all += count_of(s, q);
    return all <= s->out_max;
}

static enum order_result shadow_only_drain(struct gpu *g, struct task *t, const char *small)
{
    struct survivors *s = t->survivors;
    memcpy(s->head, small + t->plan.out[OUT_HEAD].at, head_bytes(s->pass_max));
    if (!makes_sense(s, t->pass_queries)) return RESULT_ERROR;
    struct section list = t->plan.out[OUT_LIST];
    list.bytes = cut_chunks(s, t->pass_queries) * sizeof *s->list;
    if (list.bytes) run_give(g, t, &list, small);
    transfer_rows(g->kernels, &t->plan.in[0], t->first_query, t->pass_queries, s->queries,
                  s->norms);
    return RESULT_OK;
}

/* ---- scoring ---- */

static const float *row_at(const struct survivors *s, uint64_t row)
{
    const struct order_run *r = &s->task->order.run;
    uint64_t bytes = vector_stride(r->dimension) * sizeof(float);
    if (row >= r->row_count) return NULL;
    uint64_t place = s->places[row / s->segment_rows] + row % s->segment_rows * bytes;
    return place % 64 ? NULL : gpu_heap(s->gpu, place, bytes);
}

/* By any thread. */
static void score_chunk(void *owner, uint32_t part)
{
    struct survivors *s = owner;
    const struct order_run *r = &s->task->order.run;
    const struct chunk *c = &s->slice[part];
    const struct shadow_survivor *list = s->list + c->first;
    const float *rows[CHUNK];
    float norms[CHUNK];
    for (uint32_t i = 0; i < c->count; i++) {
        rows[i] = row_at(s, list[i].row);
        norms[i] = list[i].norm;
        if (rows[i]) continue;
        atomic_store_explicit(&s->unsound, true, memory_order_relaxed);
        return;
    }
    s->gpu->kernels->gather((enum metric)r->metric, r->dimension,
                            s->queries + c->query * vector_stride(r->dimension), s->norms[c->query],
                            rows, norms, c->count, s->scores + c->first);
}

static bool shadow_only_settle(struct gpu *g, struct task *t)
{
    struct survivors *s = t->survivors;
    uint64_t chunk_bytes = CHUNK * vector_stride(t->order.run.dimension) * sizeof(float);
    uint32_t left = s->chunk_count - s->chunks_done;
    uint32_t parts = (uint32_t)at_most(left, SLICE_BYTES / chunk_bytes + 1);
    if (!left) return false;
    s->slice = s->chunks + s->chunks_done;
    s->chunks_done += parts;
    if (parts > CHUNKS_HERE) {
        s->work = (struct copy_work){.run = score_chunk, .owner = s, .parts = parts};
        copiers_start(g->copiers, &s->work);
        copiers_finish(g->copiers, &s->work);
    } else {
        for (uint32_t i = 0; i < parts; i++)
            score_chunk(s, i);
    }
    gpu_beat(g);
    return true;
}

/* ---- results ---- */

static struct result_line line_of(struct gpu *g, struct task *t, uint64_t query)
{
    const struct order_run *r = &t->order.run;
    if (!t->batch)
        return (struct result_line){(uint64_t *)(g->heap + r->out_ids) + query * r->k,
                                    (float *)(g->heap + r->out_scores) + query * r->k,
                                    (uint32_t *)(g->heap + r->out_counts) + query, r->k,
                                    r->has_threshold ? &r->threshold : NULL};
    const struct knn_batch *b = t->batch;
    uint32_t i = 0;
    while (b->count_parts[i].end <= query)
        i++;
    const struct order_segment *s = &b->segments[i];
    uint64_t at = query - (i ? b->count_parts[i - 1].end : 0);
    return (struct result_line){
        (uint64_t *)b->id_parts[i].host + at * s->k, (float *)b->score_parts[i].host + at * s->k,
        (uint32_t *)b->count_parts[i].host + at, s->k, s->has_threshold ? &s->threshold : NULL};
}

/* Of query q of the pass: the k best of its list. */
static void select_best(struct gpu *g, struct task *t, uint64_t q)
{
    struct survivors *s = t->survivors;
    struct result_line line = line_of(g, t, t->first_query + q);
    uint64_t ids[CHUNK];
    uint32_t positions[CHUNK + 16], first = first_of(s, q), count = count_of(s, q);
    struct topk best;
    topk_init(&best, s->entries, line.k, metric_lower_is_better((enum metric)t->order.run.metric),
              line.threshold);
    for (uint32_t at = 0; at < count; at += CHUNK) {
        uint32_t n = (uint32_t)at_most(count - at, CHUNK);
        for (uint32_t i = 0; i < n; i++)
            ids[i] = s->list[first + at + i].id;
        topk_offer(&best, g->kernels, s->scores + first + at, ids, n, NULL, 0, positions);
    }
    *line.count = topk_finish(&best, line.ids, line.scores);
    run_fill_rest(line.ids, line.scores, *line.count, line.k);
    t->passed += count;
}

/* The shadow does not tell rows apart: t is the CPU's. */
static bool give_up(struct gpu *g, struct task *t)
{
    uint64_t queries = t->order.run.query_count;
    replica_shadow_learn(g, t->replica, queries, queries * t->replica->rows, queries);
    t->result = RESULT_NO_MEMORY;
    return false;
}

/* The next query without a result, from `from` on. */
static bool find_again(struct gpu *g, struct task *t, uint64_t from)
{
    uint64_t count = t->order.run.query_count;
    while (from < count && *line_of(g, t, from).count != CUDA_SHADOW_REDO)
        from++;
    t->first_query = from;
    t->pass_queries = 1;
    return from < count;
}

/* Asks again for what has no result, one query at a time. */
static bool ask_again(struct gpu *g, struct task *t)
{
    struct survivors *s = t->survivors;
    uint64_t most = at_least(t->order.run.query_count / AGAIN_SHARE, AGAIN_FEW);
    if (!s->again) return false;
    if (s->again > most || t->plan.scratch_bytes < scratch_of(g, t, 1)) return give_up(g, t);
    if (!t->redoes && !run_reread(t)) {
        t->result = RESULT_NO_VERSION;
        return false;
    }
    uint64_t from = t->redoes ? t->first_query + 1 : 0;
    t->redoes = true;
    return find_again(g, t, from);
}

static bool shadow_only_next(struct gpu *g, struct task *t)
{
    struct survivors *s = t->survivors;
    const struct order_run *r = &t->order.run;
    if (atomic_load_explicit(&s->unsound, memory_order_relaxed)) {
        t->result = RESULT_REFUSED;
        return false;
    }
    for (uint64_t q = 0; q < t->pass_queries; q++) {
        if (is_whole(s, q)) {
            select_best(g, t, q);
            continue;
        }
        if (t->redoes || t->pass_queries == 1) return give_up(g, t);
        *line_of(g, t, t->first_query + q).count = CUDA_SHADOW_REDO;
        s->again++;
    }
    gpu_beat(g);
    if (!t->redoes && t->first_query + t->pass_queries < r->query_count) {
        t->first_query += t->pass_queries;
        return true;
    }
    if (ask_again(g, t)) return true;
    if (t->result != RESULT_OK) return false;
    bool useful = replica_shadow_learn(g, t->replica, r->query_count, t->passed, s->again);
    t->screen = SCREEN_ASKED | (useful ? 0 : SCREEN_USELESS);
    t->read_bytes += t->passed * vector_stride(r->dimension) * sizeof(float);
    t->number = t->passed;
    return false;
}

const struct run_kind run_shadow_only = {
    .plan = shadow_only_plan,
    .fits = run_fits_rows,
    .launch = shadow_only_launch,
    .drain = shadow_only_drain,
    .settle = shadow_only_settle,
    .next = shadow_only_next,
    .part = run_part_queries,
};
