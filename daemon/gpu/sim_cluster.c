#include "daemon/gpu/sim_cluster.h"

#include <math.h>
#include <string.h>

static const char *const name = "cluster";

/* What a run has at hand. */
struct cluster_bench {
    const struct device_call *call;
    const struct cuda_cluster *w;
    const struct vector_kernels *vectors;
    const struct cluster_kernels *kernels;
    uint64_t stride;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- what it may touch ---- */

static void check(const struct sim_memory *m, const void *address, uint64_t count, uint64_t size,
                  uint64_t alignment)
{
    sim_device_check_array(m, name, address, count, size, alignment);
}

static void check_centroid(const struct cuda_cluster *w, const struct sim_memory *m)
{
    uint64_t n = w->count, parts = CUDA_CLUSTER_PARTS_MAX;
    check(m, w->ids, n, sizeof *w->ids, 4);
    check(m, w->at, n, sizeof *w->at, 4);
    check(m, w->wide_ids, n, sizeof *w->wide_ids, 8);
    check(m, w->bests, n, sizeof *w->bests, 4);
    check(m, w->near, n, sizeof *w->near, 4);
    check(m, w->firsts, n, sizeof *w->firsts, 4);
    check(m, w->members, 2 * CUDA_CLUSTER_HALF * n, sizeof *w->members, 4);
    check(m, w->holes, n, sizeof *w->holes, 4);
    check(m, w->movers, n, sizeof *w->movers, 4);
    check(m, w->part_bests, parts, sizeof *w->part_bests, 4);
    check(m, w->part_keys, parts * CUDA_CLUSTER_PART_PAIRS, sizeof *w->part_keys, 8);
    check(m, w->part_counts, parts, sizeof *w->part_counts, 4);
    if (w->stage != CUDA_CLUSTER_NEAR) return;
    uint64_t found = (uint64_t)w->some * CUDA_CLUSTER_FOUND;
    check(m, w->found_ids, found, sizeof *w->found_ids, 8);
    check(m, w->found_scores, found, sizeof *w->found_scores, 4);
    check(m, w->found_counts, w->some, sizeof *w->found_counts, 4);
}

static void check_average(const struct cuda_cluster *w, const struct sim_memory *m)
{
    uint64_t n = w->count, pairs = n * (n - 1) / 2;
    check(m, w->means, pairs, sizeof *w->means, 4);
    check(m, w->lows, pairs, sizeof *w->lows, 8);
    check(m, w->highs, pairs, sizeof *w->highs, 2);
    check(m, w->nearest, n, sizeof *w->nearest, 4);
    check(m, w->stale, n, sizeof *w->stale, 4);
    check(m, w->scores, n, sizeof *w->scores, 4);
    if (w->times) check(m, w->times, n, sizeof *w->times, 4);
    if (w->stage == CUDA_CLUSTER_PAIRS)
        check(m, w->cosines, (uint64_t)w->some * (w->first + w->some), sizeof *w->cosines, 4);
}

static void check_stage(const struct device_call *call, const struct sim_memory *m)
{
    const struct cuda_cluster *w = &call->cluster;
    switch (w->stage) {
    case CUDA_CLUSTER_BEGIN:
        check(m, call->rows.rows, call->rows.count * vector_stride(call->rows.dimension),
              sizeof(float), 64);
        check(m, call->rows.norms, call->rows.count, sizeof(float), 4);
        if (w->positions) check(m, w->positions, w->count, sizeof *w->positions, 4);
        break;
    case CUDA_CLUSTER_NEAR:
    case CUDA_CLUSTER_PAIRS:
        if ((uint64_t)w->first + w->some > w->count)
            sim_misuse(name, "%u + %u of %u", w->first, w->some, w->count);
        break;
    case CUDA_CLUSTER_MERGE:
    case CUDA_CLUSTER_ADD: check(m, w->window, w->steps, sizeof *w->window, 4); break;
    case CUDA_CLUSTER_AGAIN: break;
    }
}

void sim_cluster_check(const struct device_call *call, const struct sim_memory *m)
{
    const struct cuda_cluster *w = &call->cluster;
    uint64_t n = w->count;
    if (n < 2 || n > CLUSTER_ROWS_MAX || w->live > n || (!w->positions && n > call->rows.count))
        sim_misuse(name, "%u rows, %u clusters", w->count, w->live);
    check(m, w->state, 1, sizeof *w->state, 4);
    check(m, w->rows, n * vector_stride(call->rows.dimension), sizeof(float), 64);
    check(m, w->norms, n, sizeof *w->norms, 4);
    check(m, w->births, n, sizeof *w->births, 4);
    check(m, w->sizes, n, sizeof *w->sizes, 4);
    if (w->average)
        check_average(w, m);
    else
        check_centroid(w, m);
    check_stage(call, m);
}

/* ---- the beginning ---- */

static uint64_t source_of(const struct cluster_bench *b, uint32_t i)
{
    uint64_t row = b->w->positions ? b->w->positions[i] : i;
    if (row >= b->call->rows.count) sim_misuse(name, "position %llu", (unsigned long long)row);
    return row;
}

static void begin(const struct cluster_bench *b)
{
    const struct cuda_cluster *w = b->w;
    for (uint32_t i = 0; i < w->count; i++) {
        uint64_t row = source_of(b, i);
        memcpy(w->rows + i * b->stride, b->call->rows.rows + row * b->stride,
               b->stride * sizeof(float));
        w->norms[i] = b->call->rows.norms[row];
        w->births[i] = 0;
        w->sizes[i] = 1;
        if (!w->average) w->ids[i] = w->at[i] = w->firsts[i] = w->members[i] = i;
        if (!w->average) w->wide_ids[i] = i;
    }
    *w->state = (struct cuda_cluster_state){.live = w->count,
                                            .slot = CUDA_CLUSTER_NONE,
                                            .look = CUDA_CLUSTER_NONE,
                                            .kept = CUDA_CLUSTER_NONE,
                                            .used = w->count};
}

static void near_found(const struct cluster_bench *b)
{
    const struct cuda_cluster *w = b->w;
    for (uint32_t i = 0; i < w->some; i++) {
        uint32_t slot = w->first + i, id = w->ids[slot];
        struct cluster_near *near = &w->near[id];
        cluster_near_clear(near);
        for (uint32_t n = 0; n < w->found_counts[i]; n++) {
            uint64_t at = (uint64_t)i * CUDA_CLUSTER_FOUND + n;
            uint32_t other = (uint32_t)w->found_ids[at];
            if (other == id) continue;
            const struct cluster_pair p = {w->found_scores[at], other, w->births[other]};
            cluster_near_offer(near, p, w->births);
        }
        w->bests[slot] = cluster_near_best(near, id, w->births);
    }
}

static void move_slot(const struct cluster_bench *b, uint32_t from, uint32_t to)
{
    const struct cuda_cluster *w = b->w;
    if (from == to) return;
    memcpy(w->rows + to * b->stride, w->rows + from * b->stride, b->stride * sizeof(float));
    w->norms[to] = w->norms[from];
    w->bests[to] = w->bests[from];
    w->ids[to] = w->ids[from];
    w->at[w->ids[to]] = to;
}

static void drop_small(const struct cluster_bench *b)
{
    const struct cuda_cluster *w = b->w;
    struct cuda_cluster_state *s = w->state;
    for (uint32_t slot = s->live; slot-- > 0;) {
        if (w->sizes[w->ids[slot]] >= w->size_min) continue;
        w->births[w->ids[slot]] = CLUSTER_GONE;
        move_slot(b, --s->live, slot);
    }
    for (uint32_t slot = 0; slot < s->live; slot++)
        w->wide_ids[slot] = w->ids[slot];
    s->slot = CUDA_CLUSTER_NONE;
    s->merged = 0;
    s->ended = s->live < 2;
}

/* ---- a step of rule centroid ---- */

/* Tells a slot of the cluster that was merged. */
static void tell(const struct cuda_cluster *w, uint32_t slot, float score)
{
    const struct cuda_cluster_state *s = w->state;
    struct cluster_best *best = &w->bests[slot];
    uint32_t id = w->ids[slot], other = best->low == id ? best->high : best->low;
    bool reaches = score >= w->threshold;
    bool gone = best->certain && (other == s->low || other == s->high);
    if (reaches)
        cluster_near_offer(&w->near[id], (struct cluster_pair){score, s->low, w->births[s->low]},
                           w->births);
    if (reaches || gone) *best = cluster_near_best(&w->near[id], id, w->births);
}

/* Scores all against the cluster in this slot. */
static void scan(const struct cluster_bench *b, uint32_t own)
{
    enum { SOME = 256 };
    float scores[SOME];
    const struct cuda_cluster *w = b->w;
    const struct cuda_cluster_state *s = w->state;
    uint32_t id = w->ids[own];
    struct cluster_near *near = &w->near[id];
    cluster_near_clear(near);
    for (uint32_t first = 0; first < s->live; first += SOME) {
        uint32_t count = (uint32_t)smaller(SOME, s->live - first);
        const struct row_block block = {w->rows + first * b->stride, w->norms + first, count};
        b->vectors->scan(METRIC_COSINE, b->call->rows.dimension, w->rows + own * b->stride,
                         w->norms[own], block, scores);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t slot = first + i, other = w->ids[slot];
            if (slot == own) continue;
            const struct cluster_pair p = {scores[i], other, w->births[other]};
            if (scores[i] >= w->threshold) cluster_near_offer(near, p, w->births);
            if (s->merged) tell(w, slot, scores[i]);
        }
    }
    w->bests[own] = cluster_near_best(near, id, w->births);
}

static uint32_t *half_of(const struct cuda_cluster *w, uint32_t half)
{
    return w->members + (uint64_t)half * CUDA_CLUSTER_HALF * w->count;
}

static void collect(const struct cuda_cluster *w)
{
    struct cuda_cluster_state *s = w->state;
    const uint32_t *from = half_of(w, s->half);
    uint32_t *to = half_of(w, s->half ^ 1), used = 0;
    for (uint32_t slot = 0; slot < s->live; slot++) {
        uint32_t id = w->ids[slot];
        memcpy(to + used, from + w->firsts[id], w->sizes[id] * sizeof *to);
        w->firsts[id] = used;
        used += w->sizes[id];
    }
    s->half ^= 1;
    s->used = used;
}

static void link_members(const struct cuda_cluster *w, uint32_t low, uint32_t high)
{
    struct cuda_cluster_state *s = w->state;
    uint32_t i = 0, k = 0, a = w->sizes[low], c = w->sizes[high];
    if (s->used + a + c > CUDA_CLUSTER_HALF * w->count) collect(w);
    uint32_t *members = half_of(w, s->half), *to = members + s->used;
    const uint32_t *of_low = members + w->firsts[low], *of_high = members + w->firsts[high];
    while (i + k < a + c) {
        bool next = k == c || (i < a && of_low[i] < of_high[k]);
        to[i + k] = next ? of_low[i] : of_high[k];
        if (next)
            i++;
        else
            k++;
    }
    w->firsts[low] = s->used;
    w->sizes[low] = s->size = a + c;
    s->used += a + c;
}

static void mean(const struct cluster_bench *b, uint32_t slot)
{
    enum { COLUMNS = 64 };
    float sums[COLUMNS];
    double corrections[COLUMNS];
    const struct cuda_cluster *w = b->w;
    uint32_t id = w->ids[slot], count = w->sizes[id];
    const uint32_t *members = half_of(w, w->state->half) + w->firsts[id];
    for (uint64_t first = 0; first < b->stride; first += COLUMNS) {
        size_t columns = (size_t)smaller(COLUMNS, b->stride - first);
        for (size_t c = 0; c < COLUMNS; c++)
            sums[c] = 0.0f, corrections[c] = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            const float *row = b->call->rows.rows + source_of(b, members[i]) * b->stride;
            b->kernels->add(&row, 1, first, columns, sums, corrections);
        }
        b->kernels->divide(sums, corrections, columns, count, w->rows + slot * b->stride + first);
    }
    b->vectors->norms(b->call->rows.dimension, w->rows + slot * b->stride, 1, w->norms + slot);
    w->norms[slot] = cluster_norm(w->norms[slot]);
}

static void merge(const struct cluster_bench *b, uint32_t low, uint32_t high)
{
    const struct cuda_cluster *w = b->w;
    struct cuda_cluster_state *s = w->state;
    link_members(w, low, high);
    move_slot(b, --s->live, w->at[high]);
    w->window[s->merges - w->merges] = (struct cuda_cluster_merge){low, high};
    w->births[low] = ++s->merges;
    w->births[high] = CLUSTER_GONE;
    s->low = low;
    s->high = high;
    mean(b, w->at[low]);
}

static void step(const struct cluster_bench *b)
{
    const struct cuda_cluster *w = b->w;
    struct cuda_cluster_state *s = w->state;
    struct cluster_best best = {.value = -INFINITY};
    for (uint32_t slot = 0; slot < s->live; slot++)
        if (cluster_best_before(&w->bests[slot], &best)) best = w->bests[slot];
    s->ended = best.value == -INFINITY;
    if (s->ended) return;
    s->merged = best.certain;
    if (best.certain) merge(b, best.low, best.high);
    scan(b, w->at[best.certain ? best.low : best.owner]);
    s->scans++;
}

void sim_cluster_run(const struct device_call *call, const struct vector_kernels *kernels)
{
    const struct cuda_cluster *w = &call->cluster;
    const struct cluster_bench b = {.call = call,
                                    .w = w,
                                    .vectors = kernels,
                                    .kernels = cluster_choose(kernels->name),
                                    .stride = vector_stride(call->rows.dimension)};
    switch (w->stage) {
    case CUDA_CLUSTER_BEGIN: begin(&b); break;
    case CUDA_CLUSTER_NEAR: near_found(&b); break;
    case CUDA_CLUSTER_MERGE:
        for (uint32_t i = 0; i < w->steps && !w->state->ended; i++)
            step(&b);
        break;
    case CUDA_CLUSTER_AGAIN: drop_small(&b); break;
    case CUDA_CLUSTER_PAIRS: sim_cluster_pairs(w, b.kernels); break;
    case CUDA_CLUSTER_ADD: sim_cluster_add(w, b.kernels); break;
    }
}
