#include "daemon/gpu/sim_work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/gpu/sim_spread.h"

enum {
    BATCH_ROWS = 2048,      /* of a top-k or a gather */
    SCRATCH_SPOILT = 65536, /* bytes of scratch that are overwritten, at most, at each end */
};

struct sim_bench {
    const struct vector_kernels *kernels;
    float scores[BATCH_ROWS];
    uint64_t ids[BATCH_ROWS];
    uint32_t positions[BATCH_ROWS + 16];
    const float *rows[BATCH_ROWS];
    float norms[BATCH_ROWS];
    void *entries;
    const struct sim_memory *memory;
    struct sim_spread_room spread_room;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

const char *sim_work_name(const struct sim_work *w)
{
    static const char *const names[] = {
        [WORK_COPY_IN] = "copy_in", [WORK_COPY_OUT] = "copy_out",
        [WORK_CLEAR] = "clear",     [WORK_NORMS] = "norms",
        [WORK_SCAN] = "scan",       [WORK_TILE] = "tile",
        [WORK_TOPK] = "topk",       [WORK_GATHER_LISTS] = "gather_lists",
        [WORK_AVERAGE] = "average", [WORK_SPREAD] = "spread",
    };
    return names[w->kind];
}

struct sim_bench *sim_bench_create(const struct sim_memory *m, const struct clock *clock)
{
    struct sim_bench *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->kernels = vectors_choose("auto");
    b->memory = m;
    b->spread_room.clock = clock;
    b->entries = aligned_alloc(64, topk_bytes(TOPK_K_MAX));
    if (b->entries) return b;
    free(b);
    return NULL;
}

void sim_bench_destroy(struct sim_bench *b)
{
    if (!b) return;
    sim_spread_room_finish(&b->spread_room);
    free(b->entries);
    free(b);
}

/* ---- top-k's scratch: about what the real one asks for ---- */

static uint64_t topk_scratch(uint64_t query_count, uint32_t k, uint64_t list_rows)
{
    uint64_t a_query = 8 + 3 * sizeof(uint32_t) + 2 * k * sizeof(struct topk_entry) +
                       list_rows * sizeof(struct topk_entry);
    return (query_count * a_query + 7 * 256) / 256 * 256;
}

uint64_t sim_topk_scratch_min(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    return topk_scratch(query_count, k, smaller(row_count, 64));
}

uint64_t sim_topk_scratch_best(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    return topk_scratch(query_count, k, smaller(row_count, k < 512 ? 2048 : 4 * (uint64_t)k));
}

/* ---- what it may touch ---- */

struct checker {
    const struct sim_memory *memory;
    const char *call;
};

/* count elements of `size` bytes, aligned to that or to `alignment`. */
static void check(const struct checker *c, const void *address, uint64_t count, uint64_t size,
                  uint64_t alignment)
{
    if (count == 0) return;
    if (count > UINT64_MAX / size) sim_misuse(c->call, "%llu elements", (unsigned long long)count);
    if ((uintptr_t)address % alignment)
        sim_misuse(c->call, "%p is not aligned to %u bytes", address, (unsigned)alignment);
    sim_device_check(c->memory, c->call, address, count * size);
}

static void check_rows(const struct checker *c, const struct sim_work *w, const float *rows,
                       const float *norms, uint64_t count)
{
    uint32_t dimension = w->rows.dimension;
    if (dimension == 0 || dimension > VECTOR_DIMENSION_MAX)
        sim_misuse(c->call, "dimension %u", (unsigned)dimension);
    check(c, rows, count, vector_stride(dimension) * sizeof(float), 64);
    if (w->metric == METRIC_COSINE) check(c, norms, count, sizeof(float), sizeof(float));
}

static void check_filter(const struct checker *c, const struct sim_work *w)
{
    const struct cuda_filter *f = &w->topk.filter;
    uint64_t words = (w->rows.count + 63) / 64;
    if (!f->allowed) return;
    check(c, f->allowed, words, sizeof *f->allowed, 8);
    if (!f->of) return;
    check(c, f->of, w->queries.count, sizeof *f->of, 4);
    if (f->words < words) sim_misuse(c->call, "bitmaps overlap");
}

static void check_topk(const struct checker *c, const struct sim_work *w)
{
    const struct cuda_topk *t = &w->topk;
    uint64_t queries = w->queries.count, rows = w->rows.count;
    if (t->k == 0 || t->k > TOPK_K_MAX) sim_misuse(c->call, "k = %u", (unsigned)t->k);
    uint64_t least = sim_topk_scratch_min(queries, t->k, rows);
    if (t->scratch_bytes < least)
        sim_misuse(c->call, "%llu bytes of scratch, %llu are needed",
                   (unsigned long long)t->scratch_bytes, (unsigned long long)least);
    check(c, t->scratch, t->scratch_bytes, 1, 256);
    if (t->ids) check(c, t->ids, rows, sizeof *t->ids, 8);
    check_filter(c, w);
    check(c, t->out_ids, queries * t->k, sizeof *t->out_ids, 8);
    check(c, t->out_scores, queries * t->k, sizeof *t->out_scores, 4);
    check(c, t->out_counts, queries, sizeof *t->out_counts, 4);
}

void sim_work_check(const struct sim_work *w, const struct sim_memory *m)
{
    struct checker c = {m, sim_work_name(w)};
    uint64_t queries = w->queries.count, rows = w->rows.count;
    if (w->kind >= WORK_NORMS && w->kind != WORK_SPREAD)
        check_rows(&c, w, w->rows.rows, w->rows.norms, rows);
    switch (w->kind) {
    case WORK_COPY_IN:
        sim_pinned_check(m, c.call, w->from, w->bytes);
        sim_device_check(m, c.call, w->to, w->bytes);
        return;
    case WORK_COPY_OUT:
        sim_pinned_check(m, c.call, w->to, w->bytes);
        sim_device_check(m, c.call, w->from, w->bytes);
        return;
    case WORK_CLEAR: sim_device_check(m, c.call, w->to, w->bytes); return;
    case WORK_SPREAD: sim_spread_check(&w->spread, m); return;
    case WORK_NORMS: check(&c, w->out, rows, sizeof(float), 4); return;
    case WORK_AVERAGE:
        check(&c, w->positions, w->count, sizeof *w->positions, 4);
        check(&c, w->weights, w->count, sizeof *w->weights, 4);
        check(&c, w->out, w->rows.dimension, sizeof(float), 4);
        return;
    case WORK_SCAN:
    case WORK_TILE:
    case WORK_TOPK:
    case WORK_GATHER_LISTS: break;
    }
    if (w->metric < METRIC_COSINE || w->metric > METRIC_SQUARED_EUCLIDEAN)
        sim_misuse(c.call, "metric %d", (int)w->metric);
    check_rows(&c, w, w->queries.rows, w->queries.norms, queries);
    if (w->kind == WORK_TOPK) {
        check_topk(&c, w);
    } else if (w->kind == WORK_GATHER_LISTS) {
        check(&c, w->positions, w->count, sizeof *w->positions, 4);
        if (w->offsets) check(&c, w->offsets, queries + 1, sizeof *w->offsets, 8);
        check(&c, w->out, w->offsets ? w->count : queries * w->count, sizeof(float), 4);
    } else {
        uint64_t stride = w->kind == WORK_TILE ? w->scores_stride : rows;
        if (stride < rows) sim_misuse(c.call, "scores_stride is less than the rows");
        if (queries && rows) check(&c, w->out, (queries - 1) * stride + rows, sizeof(float), 4);
    }
}

/* ---- doing it ---- */

static const float *query_at(const struct sim_work *w, uint64_t q)
{
    return w->queries.rows + q * vector_stride(w->rows.dimension);
}

/* Only a cosine has norms that may be read. */
static float query_norm(const struct sim_work *w, uint64_t q)
{
    return w->metric == METRIC_COSINE ? w->queries.norms[q] : 0.0f;
}

static struct row_block block_at(const struct sim_work *w, uint64_t first, uint64_t count)
{
    return (struct row_block){
        .rows = w->rows.rows + first * vector_stride(w->rows.dimension),
        .norms = w->metric == METRIC_COSINE ? w->rows.norms + first : NULL,
        .count = count,
    };
}

static void run_norms(const struct sim_work *w, struct sim_bench *b)
{
    b->kernels->norms(w->rows.dimension, w->rows.rows, w->rows.count, w->out);
    for (uint64_t i = 0; i < w->rows.count; i++)
        if (!isfinite(w->out[i])) w->out[i] = INFINITY;
}

static void run_scores(const struct sim_work *w, struct sim_bench *b)
{
    uint64_t queries = w->kind == WORK_SCAN ? smaller(1, w->queries.count) : w->queries.count;
    for (uint64_t q = 0; q < queries; q++)
        b->kernels->scan(w->metric, w->rows.dimension, query_at(w, q), query_norm(w, q),
                         block_at(w, 0, w->rows.count), w->out + q * w->scores_stride);
}

/* A device leaves its scratch in no state that anyone may count on. */
static void spoil_scratch(const struct cuda_topk *t)
{
    uint64_t bytes = smaller(t->scratch_bytes, SCRATCH_SPOILT);
    memset(t->scratch, 0xdb, bytes);
    memset((char *)t->scratch + t->scratch_bytes - bytes, 0xdb, bytes);
}

/* NULL: every row may enter. */
static const uint64_t *allowed_of(const struct cuda_filter *f, uint64_t q)
{
    if (!f->allowed || !f->of) return f->allowed;
    return f->of[q] == CUDA_FILTER_NONE ? NULL : f->allowed + f->of[q] * f->words;
}

static void run_topk(const struct sim_work *w, struct sim_bench *b)
{
    const struct cuda_topk *t = &w->topk;
    if (w->queries.count) spoil_scratch(t);
    for (uint64_t q = 0; q < w->queries.count; q++) {
        struct topk best;
        const uint64_t *allowed = allowed_of(&t->filter, q);
        topk_init(&best, b->entries, t->k, metric_lower_is_better(w->metric),
                  t->threshold ? &w->threshold : NULL);
        for (uint64_t first = 0; first < w->rows.count; first += BATCH_ROWS) {
            uint64_t count = smaller(BATCH_ROWS, w->rows.count - first);
            for (uint64_t i = 0; i < count; i++)
                b->ids[i] = t->ids ? t->ids[first + i] : t->first_id + first + i;
            b->kernels->scan(w->metric, w->rows.dimension, query_at(w, q), query_norm(w, q),
                             block_at(w, first, count), b->scores);
            topk_offer(&best, b->kernels, b->scores, b->ids, count, allowed, first, b->positions);
        }
        t->out_counts[q] = topk_finish(&best, t->out_ids + q * t->k, t->out_scores + q * t->k);
    }
}

static const float *row_at(const struct sim_work *w, uint32_t position)
{
    if (position >= w->rows.count)
        sim_misuse(sim_work_name(w), "position %u of %llu rows", (unsigned)position,
                   (unsigned long long)w->rows.count);
    return w->rows.rows + position * vector_stride(w->rows.dimension);
}

static void gather(const struct sim_work *w, struct sim_bench *b, uint64_t q, uint64_t first,
                   uint64_t count, float *scores)
{
    for (uint64_t i = 0; i < count; i++) {
        b->rows[i] = row_at(w, w->positions[first + i]);
        b->norms[i] = w->metric == METRIC_COSINE ? w->rows.norms[w->positions[first + i]] : 0.0f;
    }
    b->kernels->gather(w->metric, w->rows.dimension, query_at(w, q), query_norm(w, q), b->rows,
                       b->norms, count, scores);
}

static void run_gather_lists(const struct sim_work *w, struct sim_bench *b)
{
    for (uint64_t q = 0; q < w->queries.count; q++) {
        uint64_t first = w->offsets ? w->offsets[q] : 0,
                 end = w->offsets ? w->offsets[q + 1] : w->count;
        float *scores = w->offsets ? w->out : w->out + q * w->count;
        if (first > end || end > w->count)
            sim_misuse(sim_work_name(w), "list %llu is positions %llu to %llu of %llu",
                       (unsigned long long)q, (unsigned long long)first, (unsigned long long)end,
                       (unsigned long long)w->count);
        for (uint64_t at = first; at < end; at += BATCH_ROWS)
            gather(w, b, q, at, smaller(BATCH_ROWS, end - at), scores + at);
    }
}

static void run_average(const struct sim_work *w)
{
    uint32_t dimension = w->rows.dimension;
    memset(w->out, 0, dimension * sizeof(float));
    if (w->total == 0.0f) return;
    for (uint64_t i = 0; i < w->count; i++) {
        const float *row = row_at(w, w->positions[i]);
        for (uint32_t c = 0; c < dimension; c++)
            w->out[c] = fmaf(w->weights[i], row[c], w->out[c]);
    }
    for (uint32_t c = 0; w->count && c < dimension; c++)
        w->out[c] /= w->total;
}

void sim_work_run(const struct sim_work *w, struct sim_bench *b)
{
    switch (w->kind) {
    case WORK_COPY_IN:
    case WORK_COPY_OUT:
        if (w->bytes) memcpy(w->to, w->from, w->bytes);
        break;
    case WORK_CLEAR:
        if (w->bytes) memset(w->to, 0, w->bytes);
        break;
    case WORK_NORMS: run_norms(w, b); break;
    case WORK_SCAN:
    case WORK_TILE: run_scores(w, b); break;
    case WORK_TOPK: run_topk(w, b); break;
    case WORK_GATHER_LISTS: run_gather_lists(w, b); break;
    case WORK_AVERAGE: run_average(w); break;
    case WORK_SPREAD: sim_spread_run(&w->spread, b->memory, &b->spread_room); break;
    }
}
