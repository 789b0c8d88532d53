#include "daemon/gpu/sim_work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/gpu/device_cells.h"
#include "daemon/gpu/sim_attractor.h"
#include "daemon/gpu/sim_bind.h"
#include "daemon/gpu/sim_cells.h"
#include "daemon/gpu/sim_cluster.h"
#include "daemon/gpu/sim_complete.h"
#include "daemon/gpu/sim_covariance.h"
#include "daemon/gpu/sim_recall.h"
#include "daemon/gpu/sim_shadow.h"
#include "daemon/gpu/sim_spread.h"
#include "daemon/gpu/sim_sums.h"
#include "daemon/heap/order.h"

enum {
    BATCH_ROWS = 2048,      /* of a top-k or a gather */
    SCRATCH_SPOILT = 65536, /* most bytes of scratch that are overwritten at each end */
};

struct sim_bench {
    const struct vector_kernels *kernels;
    float scores[BATCH_ROWS];
    uint64_t ids[BATCH_ROWS];
    uint32_t positions[BATCH_ROWS + 16];
    const float *rows[BATCH_ROWS];
    float norms[BATCH_ROWS];
    _Alignas(64) float query[ORDER_DIRECT_DIMENSION_MAX];
    void *entries, *bind_scratch, *attractor_scratch, *covariance_scratch;
    struct sim_shadow *shadow;
    const struct sim_memory *memory;
    struct sim_spread_room spread_room;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct sim_work sim_work_of(const struct device_call *call)
{
    struct sim_work w = {.kind = WORK_KERNEL, .call = *call};
    bool best = call->kernel == KERNEL_TOPK || call->kernel == KERNEL_SHADOW_TOPK ||
                call->kernel == KERNEL_SHADOW_LIST;
    const float *threshold = best ? call->topk.threshold : NULL;
    if (device_kernel_is_direct(call->kernel)) threshold = call->direct.threshold;
    if (threshold) w.threshold = *threshold;
    if (call->kernel == KERNEL_SCAN && call->queries.count > 1) w.call.queries.count = 1;
    return w;
}

const char *sim_work_name(const struct sim_work *w)
{
    switch (w->kind) {
    case WORK_COPY_IN: return "copy_in";
    case WORK_COPY_OUT: return "copy_out";
    case WORK_COPY: return "copy";
    case WORK_CLEAR: return "clear";
    case WORK_KERNEL: return device_kernel_name(w->call.kernel);
    }
    return "no work";
}

struct sim_bench *sim_bench_create(const struct sim_memory *m, const struct clock *clock,
                                   uint32_t pass_sets)
{
    struct sim_bench *b = aligned_alloc(64, sizeof *b);
    if (!b) return NULL;
    memset(b, 0, sizeof *b);
    b->kernels = vectors_choose("auto");
    b->memory = m;
    b->spread_room.clock = clock;
    b->spread_room.pass_sets = pass_sets;
    b->entries = aligned_alloc(64, topk_bytes(TOPK_K_MAX));
    b->bind_scratch = aligned_alloc(64, sim_bind_scratch_bytes());
    b->attractor_scratch = aligned_alloc(64, sim_attractor_scratch_bytes());
    b->covariance_scratch = aligned_alloc(64, sim_covariance_scratch_bytes());
    b->shadow = sim_shadow_create(b->kernels);
    bool all = b->entries && b->bind_scratch && b->attractor_scratch && b->covariance_scratch;
    if (all && b->shadow) return b;
    sim_bench_destroy(b);
    return NULL;
}

void sim_bench_destroy(struct sim_bench *b)
{
    if (!b) return;
    sim_spread_room_finish(&b->spread_room);
    sim_shadow_destroy(b->shadow);
    free(b->entries);
    free(b->bind_scratch);
    free(b->attractor_scratch);
    free(b->covariance_scratch);
    free(b);
}

/* ---- what it may touch ---- */

struct checker {
    const struct sim_memory *memory;
    const char *call;
};

/* Checks count elements of `size` bytes, aligned to that or to `alignment`. */
static void check(const struct checker *c, const void *address, uint64_t count, uint64_t size,
                  uint64_t alignment)
{
    sim_device_check_array(c->memory, c->call, address, count, size, alignment);
}

static void check_rows(const struct checker *c, const struct device_call *call, const float *rows,
                       const float *norms, uint64_t count)
{
    uint32_t dimension = call->rows.dimension;
    if (dimension == 0 || dimension > VECTOR_DIMENSION_MAX)
        sim_misuse(c->call, "dimension %u", (unsigned)dimension);
    check(c, rows, count, vector_stride(dimension) * sizeof(float), 64);
    if (call->metric == METRIC_COSINE) check(c, norms, count, sizeof(float), sizeof(float));
}

static void check_own_rows(const struct checker *c, const struct device_call *call)
{
    check_rows(c, call, call->rows.rows, call->rows.norms, call->rows.count);
}

/* Checks what all kernels that score rows for queries have in common. */
static void check_pairs(const struct checker *c, const struct device_call *call)
{
    if (call->metric < METRIC_COSINE || call->metric > METRIC_SQUARED_EUCLIDEAN)
        sim_misuse(c->call, "metric %d", (int)call->metric);
    check_own_rows(c, call);
    check_rows(c, call, call->queries.rows, call->queries.norms, call->queries.count);
}

static void check_filter(const struct checker *c, const struct device_call *call)
{
    const struct cuda_filter *f = &call->topk.filter;
    uint64_t words = (call->rows.count + 63) / 64;
    if (!f->allowed) return;
    check(c, f->allowed, words, sizeof *f->allowed, 8);
    if (!f->of) return;
    check(c, f->of, call->queries.count, sizeof *f->of, 4);
    if (f->words < words) sim_misuse(c->call, "bitmaps overlap");
}

static void check_topk(const struct checker *c, const struct device_call *call)
{
    const struct cuda_topk *t = &call->topk;
    uint64_t queries = call->queries.count, rows = call->rows.count;
    if (t->k == 0 || t->k > TOPK_K_MAX) sim_misuse(c->call, "k = %u", (unsigned)t->k);
    uint64_t least = sim_topk_scratch_min(queries, t->k, rows);
    if (t->scratch_bytes < least)
        sim_misuse(c->call, "%llu bytes of scratch, %llu are needed",
                   (unsigned long long)t->scratch_bytes, (unsigned long long)least);
    check(c, t->scratch, t->scratch_bytes, 1, 256);
    if (t->ids) check(c, t->ids, rows, sizeof *t->ids, 8);
    check_filter(c, call);
    check(c, t->out_ids, queries * t->k, sizeof *t->out_ids, 8);
    check(c, t->out_scores, queries * t->k, sizeof *t->out_scores, 4);
    check(c, t->out_counts, queries, sizeof *t->out_counts, 4);
}

static void check_lists(const struct checker *c, const struct device_call *call)
{
    uint64_t queries = call->queries.count, count = call->lists.count;
    if (call->lists.positions)
        check(c, call->lists.positions, count, sizeof *call->lists.positions, 4);
    if (call->lists.offsets)
        check(c, call->lists.offsets, queries + 1, sizeof *call->lists.offsets, 8);
    check(c, call->lists.out, call->lists.offsets ? count : queries * count, sizeof(float), 4);
}

static void check_scores(const struct checker *c, const struct device_call *call, uint64_t stride)
{
    uint64_t queries = call->queries.count, rows = call->rows.count;
    if (stride < rows) sim_misuse(c->call, "the stride of scores is less than the rows");
    if (queries && rows)
        check(c, call->scores.out, (queries - 1) * stride + rows, sizeof(float), 4);
}

static void check_direct(const struct checker *c, const struct device_call *call)
{
    const struct cuda_direct *direct = &call->direct;
    if (call->rows.dimension > ORDER_DIRECT_DIMENSION_MAX || direct->k > CUDA_DIRECT_K_MAX)
        sim_misuse(c->call, "dimension %u, k = %u", call->rows.dimension, direct->k);
    if (!direct->tag) sim_misuse(c->call, "the tag of cells that nobody has written");
    check_own_rows(c, call);
    if (direct->ids) check(c, direct->ids, call->rows.count, sizeof *direct->ids, 8);
    if (direct->scratch_bytes < sim_direct_scratch_min(direct->k))
        sim_misuse(c->call, "too little scratch");
    check(c, direct->scratch, direct->k ? direct->scratch_bytes : 0, 1, 256);
    uint64_t cells = call->kernel == KERNEL_SHADOW_DIRECT
                         ? cells_count_shadow(direct->k)
                         : cells_count(direct->k, call->rows.count);
    sim_pinned_check(c->memory, c->call, direct->cells, cells * sizeof *direct->cells);
    for (uint64_t i = 0; i < cells; i++)
        if (direct->cells[i] >> 32 == direct->tag)
            sim_misuse(c->call, "cell %llu has the tag before it has come", (unsigned long long)i);
}

static void check_call(const struct checker *c, const struct device_call *call)
{
    switch (call->kernel) {
    case KERNEL_NORMS:
        check_own_rows(c, call);
        check(c, call->norms.out, call->rows.count, sizeof(float), 4);
        break;
    case KERNEL_FIND_BAD:
        check(c, call->rows.norms, call->rows.count, sizeof(float), 4);
        check(c, call->find_bad.out, 1, sizeof(uint64_t), 8);
        break;
    case KERNEL_SCAN:
        check_pairs(c, call);
        check_scores(c, call, call->rows.count);
        break;
    case KERNEL_TILE:
        check_pairs(c, call);
        check_scores(c, call, call->scores.stride);
        break;
    case KERNEL_SHADOW_TOPK: sim_shadow_check(call, c->memory); /* fall through */
    case KERNEL_TOPK:
        check_pairs(c, call);
        check_topk(c, call);
        break;
    case KERNEL_GATHER_LISTS:
        check_pairs(c, call);
        check_lists(c, call);
        break;
    case KERNEL_AVERAGE:
        check_own_rows(c, call);
        sim_average_check(call, c->memory);
        break;
    case KERNEL_SPREAD: sim_spread_check(&call->spread, c->memory); break;
    case KERNEL_SHADOW_DIRECT: sim_shadow_check(call, c->memory); /* fall through */
    case KERNEL_DIRECT: check_direct(c, call); break;
    case KERNEL_BIND: sim_bind_check(&call->bind, c->memory); break;
    case KERNEL_NORMALIZE: sim_normalize_check(call, c->memory); break;
    case KERNEL_SUPERPOSE:
        check_own_rows(c, call);
        sim_superpose_check(call, c->memory);
        break;
    case KERNEL_COMPLETE: sim_complete_check(call, c->memory); break;
    case KERNEL_ATTRACTOR: sim_attractor_check(call, c->memory); break;
    case KERNEL_COVARIANCE: sim_covariance_check(call, c->memory); break;
    case KERNEL_CLUSTER: sim_cluster_check(call, c->memory); break;
    case KERNEL_SHADOW_CENTRE:
    case KERNEL_SHADOW_CODE:
    case KERNEL_SHADOW_SUM:
    case KERNEL_SHADOW_CHECK:
    case KERNEL_SHADOW_LIST: sim_shadow_check(call, c->memory); break;
    case KERNEL_RECALL_BEGIN:
    case KERNEL_RECALL_SEEDS:
    case KERNEL_RECALL_BEST: sim_recall_check(call, c->memory); break;
    }
}

void sim_work_check(const struct sim_work *w, const struct sim_memory *m)
{
    struct checker c = {m, sim_work_name(w)};
    switch (w->kind) {
    case WORK_COPY_IN:
        sim_pinned_check(m, c.call, w->from, w->bytes);
        sim_device_check(m, c.call, w->to, w->bytes);
        break;
    case WORK_COPY_OUT:
        sim_pinned_check(m, c.call, w->to, w->bytes);
        sim_device_check(m, c.call, w->from, w->bytes);
        break;
    case WORK_COPY: sim_device_check(m, c.call, w->from, w->bytes); /* fall through */
    case WORK_CLEAR: sim_device_check(m, c.call, w->to, w->bytes); break;
    case WORK_KERNEL: check_call(&c, &w->call); break;
    }
}

/* ---- doing it ---- */

static const float *query_at(const struct device_call *c, uint64_t q)
{
    return c->queries.rows + q * vector_stride(c->rows.dimension);
}

/* Norms may be read only for the metric cosine. */
static float query_norm(const struct device_call *c, uint64_t q)
{
    return c->metric == METRIC_COSINE ? c->queries.norms[q] : 0.0f;
}

static struct row_block block_at(const struct device_call *c, uint64_t first, uint64_t count)
{
    return (struct row_block){
        .rows = c->rows.rows + first * vector_stride(c->rows.dimension),
        .norms = c->metric == METRIC_COSINE ? c->rows.norms + first : NULL,
        .count = count,
    };
}

static void run_norms(const struct device_call *c, struct sim_bench *b)
{
    float *out = c->norms.out;
    b->kernels->norms(c->rows.dimension, c->rows.rows, c->rows.count, out);
    for (uint64_t i = 0; i < c->rows.count; i++)
        if (!isfinite(out[i])) out[i] = INFINITY;
}

static void run_find_bad(const struct device_call *c)
{
    uint64_t bad = vectors_find_bad(c->rows.norms, c->rows.count);
    *c->find_bad.out = bad < c->rows.count ? bad : UINT64_MAX;
}

static void run_scores(const struct device_call *c, struct sim_bench *b, uint64_t stride)
{
    for (uint64_t q = 0; q < c->queries.count; q++)
        b->kernels->scan(c->metric, c->rows.dimension, query_at(c, q), query_norm(c, q),
                         block_at(c, 0, c->rows.count), c->scores.out + q * stride);
}

/* Overwrites scratch, because a device leaves it in an unspecified state. */
static void spoil_scratch(const struct cuda_topk *t)
{
    uint64_t bytes = smaller(t->scratch_bytes, SCRATCH_SPOILT);
    memset(t->scratch, 0xdb, bytes);
    memset((char *)t->scratch + t->scratch_bytes - bytes, 0xdb, bytes);
}

/* Returns NULL if every row may enter. */
static const uint64_t *allowed_of(const struct cuda_filter *f, uint64_t q)
{
    if (!f->allowed || !f->of) return f->allowed;
    return f->of[q] == CUDA_FILTER_NONE ? NULL : f->allowed + f->of[q] * f->words;
}

static void run_topk(const struct device_call *c, float threshold, struct sim_bench *b)
{
    const struct cuda_topk *t = &c->topk;
    if (c->queries.count) spoil_scratch(t);
    for (uint64_t q = 0; q < c->queries.count; q++) {
        struct topk best;
        const uint64_t *allowed = allowed_of(&t->filter, q);
        topk_init(&best, b->entries, t->k, metric_lower_is_better(c->metric),
                  t->threshold ? &threshold : NULL);
        for (uint64_t first = 0; first < c->rows.count; first += BATCH_ROWS) {
            uint64_t count = smaller(BATCH_ROWS, c->rows.count - first);
            for (uint64_t i = 0; i < count; i++)
                b->ids[i] = t->ids ? t->ids[first + i] : t->first_id + first + i;
            b->kernels->scan(c->metric, c->rows.dimension, query_at(c, q), query_norm(c, q),
                             block_at(c, first, count), b->scores);
            topk_offer(&best, b->kernels, b->scores, b->ids, count, allowed, first, b->positions);
        }
        t->out_counts[q] = topk_finish(&best, t->out_ids + q * t->k, t->out_scores + q * t->k);
    }
}

static const float *row_at(const struct device_call *c, uint64_t position)
{
    if (position >= c->rows.count)
        sim_misuse(device_kernel_name(c->kernel), "position %llu of %llu rows",
                   (unsigned long long)position, (unsigned long long)c->rows.count);
    return c->rows.rows + position * vector_stride(c->rows.dimension);
}

static void gather(const struct device_call *c, struct sim_bench *b, uint64_t q, uint64_t first,
                   uint64_t count, float *scores)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row = c->lists.positions ? c->lists.positions[first + i] : first + i;
        b->rows[i] = row_at(c, row);
        b->norms[i] = c->metric == METRIC_COSINE ? c->rows.norms[row] : 0.0f;
    }
    b->kernels->gather(c->metric, c->rows.dimension, query_at(c, q), query_norm(c, q), b->rows,
                       b->norms, count, scores);
}

static void run_gather_lists(const struct device_call *c, struct sim_bench *b)
{
    const uint64_t *offsets = c->lists.offsets;
    uint64_t count = c->lists.count;
    for (uint64_t q = 0; q < c->queries.count; q++) {
        uint64_t first = offsets ? offsets[q] : 0, end = offsets ? offsets[q + 1] : count;
        float *scores = offsets ? c->lists.out : c->lists.out + q * count;
        if (first > end || end > count)
            sim_misuse(device_kernel_name(c->kernel), "list %llu is positions %llu to %llu of %llu",
                       (unsigned long long)q, (unsigned long long)first, (unsigned long long)end,
                       (unsigned long long)count);
        for (uint64_t at = first; at < end; at += BATCH_ROWS)
            gather(c, b, q, at, smaller(BATCH_ROWS, end - at), scores + at);
    }
}

/* A lost result is computed, too: its memory is checked and its scratch spoilt. */
static void run_direct(const struct device_call *c, float threshold, bool lost, struct sim_bench *b)
{
    const struct cuda_direct direct = c->direct;
    uint64_t ids[CUDA_DIRECT_K_MAX];
    float scores[CUDA_DIRECT_K_MAX];
    uint32_t count = 0;
    struct cuda_topk_work work = {0, 0};
    struct device_call asked = *c;
    vectors_pad(c->rows.dimension, direct.query, 1, b->query);
    asked.queries = (struct cuda_queries){b->query, &direct.query_norm, 1};
    if (direct.k) {
        asked.topk = (struct cuda_topk){.k = direct.k,
                                        .ids = direct.ids,
                                        .threshold = direct.threshold,
                                        .scratch = direct.scratch,
                                        .scratch_bytes = direct.scratch_bytes,
                                        .out_ids = ids,
                                        .out_scores = scores,
                                        .out_counts = &count,
                                        .work = &work};
        bool shadowed = c->kernel == KERNEL_SHADOW_DIRECT;
        if (shadowed)
            sim_shadow_run(&asked, threshold, b->shadow);
        else
            run_topk(&asked, threshold, b);
        if (lost) return;
        sim_cells_put_best(&direct, count, ids, scores);
        if (shadowed) sim_cells_put(&direct, cells_count(direct.k, 0), (uint32_t)work.passed);
        return;
    }
    for (uint64_t first = 0; first < c->rows.count; first += BATCH_ROWS) {
        uint64_t rows = smaller(BATCH_ROWS, c->rows.count - first);
        b->kernels->scan(c->metric, c->rows.dimension, b->query, direct.query_norm,
                         block_at(c, first, rows), b->scores);
        for (uint64_t i = 0; i < rows && !lost; i++)
            sim_cells_put(&direct, first + i, sim_cells_bits(b->scores[i]));
    }
}

static void run_call(const struct sim_work *w, struct sim_bench *b)
{
    const struct device_call *c = &w->call;
    switch (c->kernel) {
    case KERNEL_NORMS: run_norms(c, b); break;
    case KERNEL_FIND_BAD: run_find_bad(c); break;
    case KERNEL_SCAN: run_scores(c, b, c->rows.count); break;
    case KERNEL_TILE: run_scores(c, b, c->scores.stride); break;
    case KERNEL_TOPK: run_topk(c, w->threshold, b); break;
    case KERNEL_GATHER_LISTS: run_gather_lists(c, b); break;
    case KERNEL_AVERAGE: sim_average_run(c); break;
    case KERNEL_SPREAD: sim_spread_run(&c->spread, b->memory, &b->spread_room); break;
    case KERNEL_DIRECT:
    case KERNEL_SHADOW_DIRECT: run_direct(c, w->threshold, w->lost, b); break;
    case KERNEL_BIND: sim_bind_run(&c->bind, b->memory, b->bind_scratch); break;
    case KERNEL_NORMALIZE: sim_normalize_run(c, b->kernels); break;
    case KERNEL_SUPERPOSE: sim_superpose_run(c, b->kernels); break;
    case KERNEL_COMPLETE: sim_complete_run(c, b->kernels); break;
    case KERNEL_ATTRACTOR: sim_attractor_run(c, b->kernels, b->attractor_scratch); break;
    case KERNEL_COVARIANCE: sim_covariance_run(c, b->kernels, b->covariance_scratch); break;
    case KERNEL_CLUSTER: sim_cluster_run(c, b->kernels); break;
    case KERNEL_SHADOW_CENTRE:
    case KERNEL_SHADOW_CODE:
    case KERNEL_SHADOW_SUM:
    case KERNEL_SHADOW_CHECK:
    case KERNEL_SHADOW_LIST:
    case KERNEL_SHADOW_TOPK: sim_shadow_run(c, w->threshold, b->shadow); break;
    case KERNEL_RECALL_BEGIN:
    case KERNEL_RECALL_SEEDS:
    case KERNEL_RECALL_BEST: sim_recall_run(c, b->kernels, b->spread_room.clock); break;
    }
}

void sim_work_run(const struct sim_work *w, struct sim_bench *b)
{
    switch (w->kind) {
    case WORK_COPY_IN:
    case WORK_COPY_OUT:
    case WORK_COPY:
        if (w->bytes) memcpy(w->to, w->from, w->bytes);
        break;
    case WORK_CLEAR:
        if (w->bytes) memset(w->to, 0, w->bytes);
        break;
    case WORK_KERNEL: run_call(w, b); break;
    }
}
