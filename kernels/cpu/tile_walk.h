/* tile_walk: how the SIMD variants go over many queries times many rows.
 * Owner:  included by one variant at a time; everything is static inline.
 * Thread: any; no state.
 * Errors: none.
 *
 * Plain dimensions: the register tile is 4 queries x 6 rows. Queries are packed in groups of four,
 * as [half][step][query][16]: first lanes 0-15 of every 32 elements, then lanes 16-31, so that a
 * pass over half the lanes reads one stream of queries and six of rows. A slice of rows stays in
 * the first cache while every query group passes over it; the next slice is prefetched meanwhile,
 * a few lines a tile. Compensated dimensions do ten operations an element, so there the queries are
 * packed as plain rows and each passes over four rows. */
#ifndef ENGRAM_KERNELS_CPU_TILE_WALK_H
#define ENGRAM_KERNELS_CPU_TILE_WALK_H

#include "kernels/cpu/walk.h"

#include <string.h>

enum {
    TILE_QUERIES = 4,
    TILE_ROWS = 6,
    TILE_HALF = VECTOR_LANES / 2,
    TILE_FIRST_CACHE = 45056, /* bytes to fill with a slice and two query groups */
    TILE_LINE_FLOATS = 16,
};

/* The 24 sums of a tile: rows 0-3 of each query, then rows 4-5 and two that mean nothing. */
struct tile_sums {
    _Alignas(64) float first[TILE_QUERIES][4];
    _Alignas(64) float last[TILE_QUERIES][4];
};

typedef void tile_sum(bool euclidean, size_t stride, const float *packed,
                      const float *const rows[TILE_ROWS], struct tile_sums *sums);

struct tile_job {
    tile_sum *tile;
    walk_sum *sum;
    uint32_t dimension;
    const struct query_pack *queries;
    float *scores;
    size_t scores_stride;
};

static inline size_t tile_groups(size_t count)
{
    return (count + TILE_QUERIES - 1) / TILE_QUERIES;
}

static inline size_t tile_pack_bytes(uint32_t dimension, size_t count)
{
    return tile_groups(count) * TILE_QUERIES * vector_stride(dimension) * sizeof(float);
}

/* Queries missing from the last group are zero; their sums are not written. */
static inline void tile_pack(uint32_t dimension, const float *queries, size_t count, void *packed)
{
    size_t stride = vector_stride(dimension);
    float *to = packed;
    if (canonical_is_compensated(dimension)) {
        memcpy(to, queries, count * stride * sizeof(float));
        return;
    }
    for (size_t q = 0; q < tile_groups(count) * TILE_QUERIES; q++) {
        float *group = to + q / TILE_QUERIES * TILE_QUERIES * stride;
        for (size_t i = 0; i < stride; i += VECTOR_LANES) {
            float *chunk = group + i / 2 * TILE_QUERIES + q % TILE_QUERIES * TILE_HALF;
            float *other = chunk + stride / 2 * TILE_QUERIES;
            for (size_t j = 0; j < TILE_HALF; j++) {
                chunk[j] = q < count ? queries[q * stride + i + j] : 0.0f;
                other[j] = q < count ? queries[q * stride + i + TILE_HALF + j] : 0.0f;
            }
        }
    }
}

struct tile_prefetch {
    const float *next;
    const float *end;
    size_t lines; /* a tile */
};

static inline void tile_prefetch_some(struct tile_prefetch *p)
{
    for (size_t i = 0; i < p->lines && p->next < p->end; i++) {
        __builtin_prefetch(p->next, 0, 2);
        p->next += TILE_LINE_FLOATS;
    }
}

static inline void tile_write(const struct tile_sums *sums, size_t query, size_t count, float *to)
{
    if (count == TILE_ROWS) { /* sizes known to the compiler: two moves */
        memcpy(to, sums->first[query], 4 * sizeof(float));
        memcpy(to + 4, sums->last[query], (TILE_ROWS - 4) * sizeof(float));
        return;
    }
    for (size_t r = 0; r < count; r++)
        to[r] = r < 4 ? sums->first[query][r] : sums->last[query][r - 4];
}

/* One query group over one slice of rows, whose first is number first of the block. */
static inline void tile_group(const struct tile_job *job, bool euclidean, size_t group,
                              const float *slice, size_t first, size_t count,
                              struct tile_prefetch *prefetch)
{
    size_t stride = vector_stride(job->dimension);
    size_t query = group * TILE_QUERIES;
    size_t queries = walk_least(TILE_QUERIES, job->queries->count - query);
    const float *packed = (const float *)job->queries->packed + query * stride;
    float *scores = job->scores + query * job->scores_stride + first;
    for (size_t r = 0; r < count; r += TILE_ROWS) {
        const float *rows[TILE_ROWS];
        for (size_t i = 0; i < TILE_ROWS; i++)
            rows[i] = slice + walk_least(r + i, count - 1) * stride;
        struct tile_sums sums;
        tile_prefetch_some(prefetch);
        for (size_t q = 0; q < queries; q++)
            __builtin_prefetch(scores + q * job->scores_stride + r + TILE_LINE_FLOATS, 1);
        job->tile(euclidean, stride, packed, rows, &sums);
        for (size_t q = 0; q < queries; q++)
            tile_write(&sums, q, walk_least(TILE_ROWS, count - r),
                       scores + q * job->scores_stride + r);
    }
}

static inline size_t tile_slice_rows(size_t stride)
{
    size_t groups = 2 * TILE_QUERIES * stride * sizeof(float);
    size_t left = groups < TILE_FIRST_CACHE ? TILE_FIRST_CACHE - groups : 0;
    size_t rows = left / (stride * sizeof(float)) / TILE_ROWS * TILE_ROWS;
    return rows < TILE_ROWS ? TILE_ROWS : rows;
}

static inline void tile_plain(const struct tile_job *job, bool euclidean, const float *rows,
                              size_t count)
{
    size_t stride = vector_stride(job->dimension);
    size_t slice = tile_slice_rows(stride);
    size_t groups = tile_groups(job->queries->count);
    size_t tiles = groups * (slice / TILE_ROWS);
    size_t lines = slice * stride / TILE_LINE_FLOATS;
    for (size_t first = 0; first < count; first += slice) {
        size_t next = walk_least(first + slice, count);
        struct tile_prefetch prefetch = {
            .next = rows + next * stride,
            .end = rows + walk_least(next + slice, count) * stride,
            .lines = (lines + tiles - 1) / tiles,
        };
        for (size_t g = 0; g < groups; g++)
            tile_group(job, euclidean, g, rows + first * stride, first, next - first, &prefetch);
    }
}

static inline void tile_compensated(const struct tile_job *job, enum walk_form form,
                                    const float *rows, size_t count)
{
    size_t stride = vector_stride(job->dimension);
    for (size_t first = 0; first < count; first += WALK_GROUP) {
        struct row_group group;
        for (size_t r = 0; r < WALK_GROUP; r++) {
            group.rows[r] = rows + walk_least(first + r, count - 1) * stride;
            group.ahead[r] = rows + walk_least(first + r + WALK_GROUP, count - 1) * stride;
        }
        size_t present = walk_least(WALK_GROUP, count - first);
        for (size_t q = 0; q < job->queries->count; q++) {
            const float *query = (const float *)job->queries->packed + q * stride;
            float sums[WALK_GROUP];
            job->sum(form, job->dimension, query, &group, sums);
            memcpy(job->scores + q * job->scores_stride + first, sums, present * sizeof(float));
        }
    }
}

static inline void tile_walk(const struct tile_job *job, enum metric metric, struct row_block block)
{
    enum walk_form form = walk_form_of(metric);
    if (canonical_is_compensated(job->dimension))
        tile_compensated(job, form, block.rows, block.count);
    else
        tile_plain(job, form == WALK_EUCLIDEAN, block.rows, block.count);
    if (metric != METRIC_COSINE) return;
    for (size_t q = 0; q < job->queries->count; q++)
        walk_cosine(job->queries->norms[q], block.norms, block.count,
                    job->scores + q * job->scores_stride);
}

#endif
