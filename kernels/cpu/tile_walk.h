/* tile_walk: how the SIMD variants go over many queries times many rows.
 * Owner:  included by one variant at a time; everything is static inline.
 * Thread: any; no state.
 * Errors: none.
 *
 * Plain dimensions: the register tile is 4 queries x 6 rows. Queries are packed in groups of four,
 * as [half][step][query][16]: first lanes 0-15 of every 32 elements, then lanes 16-31, so that a
 * pass over half the lanes reads one stream of queries and six of rows. A slice of rows stays in
 * the first-level cache while every query group passes over it; the next slice is prefetched
 * meanwhile, a few lines with each tile. Compensated dimensions do ten operations an element, so
 * their queries are packed as plain rows, and each query passes over four rows at a time.
 *
 * The screen uses the plain tile at any dimension: rows longer than TILE_PIECE are summed piece by
 * piece, so that a slice of a few rows still fits the first-level cache, and each piece of a query
 * group is packed by itself. */
#ifndef ENGRAM_KERNELS_CPU_TILE_WALK_H
#define ENGRAM_KERNELS_CPU_TILE_WALK_H

#include "kernels/cpu/walk.h"

#include <string.h>

enum {
    TILE_QUERIES = 4,
    TILE_ROWS = 6,
    TILE_HALF = VECTOR_LANES / 2,
    TILE_FIRST_CACHE = 45056, /* bytes that a slice and two query groups may fill */
    TILE_LINE_FLOATS = 16,
    TILE_PIECE = VECTOR_COMPENSATED_ABOVE,
};

/* The 24 sums of a tile: rows 0-3 of each query, then rows 4-5 and two unused places. */
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

/* Elements [from, from + length) of four queries; missing queries are zero. */
static inline void tile_pack_piece(size_t stride, const float *queries, size_t count, size_t from,
                                   size_t length, float *to)
{
    for (size_t i = 0; i < length; i += VECTOR_LANES) {
        for (size_t q = 0; q < TILE_QUERIES; q++) {
            float *chunk = to + i / 2 * TILE_QUERIES + q * TILE_HALF;
            float *other = chunk + length / 2 * TILE_QUERIES;
            for (size_t j = 0; j < TILE_HALF; j++) {
                const float *query = queries + q * stride + from + i + j;
                chunk[j] = q < count ? query[0] : 0.0f;
                other[j] = q < count ? query[TILE_HALF] : 0.0f;
            }
        }
    }
}

/* Sums of queries missing from the last group are not written. */
static inline void tile_screen_pack(uint32_t dimension, const float *queries, size_t count,
                                    void *packed)
{
    size_t stride = vector_stride(dimension);
    float *to = packed;
    for (size_t q = 0; q < count; q += TILE_QUERIES) {
        for (size_t from = 0; from < stride; from += TILE_PIECE) {
            size_t length = walk_least(TILE_PIECE, stride - from);
            tile_pack_piece(stride, queries + q * stride, count - q, from, length, to);
            to += length * TILE_QUERIES;
        }
    }
}

static inline void tile_pack(uint32_t dimension, const float *queries, size_t count, void *packed)
{
    if (canonical_is_compensated(dimension))
        memcpy(packed, queries, count * vector_stride(dimension) * sizeof(float));
    else
        tile_screen_pack(dimension, queries, count, packed);
}

struct tile_prefetch {
    const float *next;
    const float *end;
    size_t lines; /* prefetched with each tile */
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
    if (count == TILE_ROWS) { /* sizes known to the compiler: it makes two moves of it */
        memcpy(to, sums->first[query], 4 * sizeof(float));
        memcpy(to + 4, sums->last[query], (TILE_ROWS - 4) * sizeof(float));
        return;
    }
    for (size_t r = 0; r < count; r++)
        to[r] = r < 4 ? sums->first[query][r] : sums->last[query][r - 4];
}

static inline void tile_add(const struct tile_sums *sums, size_t query, size_t count, float *to)
{
    for (size_t r = 0; r < count; r++)
        to[r] += r < 4 ? sums->first[query][r] : sums->last[query][r - 4];
}

/* Elements [from, from + length) of every row. */
struct tile_piece {
    size_t from, length;
};

/* Computes one query group against one slice of rows, whose first row is number `first` of the
 * block. */
static inline void tile_group(const struct tile_job *job, bool euclidean, size_t group,
                              struct tile_piece piece, const float *slice, size_t first,
                              size_t count, struct tile_prefetch *prefetch)
{
    size_t stride = vector_stride(job->dimension);
    size_t query = group * TILE_QUERIES;
    size_t queries = walk_least(TILE_QUERIES, job->queries->count - query);
    const float *packed =
        (const float *)job->queries->packed + query * stride + piece.from * TILE_QUERIES;
    float *scores = job->scores + query * job->scores_stride + first;
    for (size_t r = 0; r < count; r += TILE_ROWS) {
        const float *rows[TILE_ROWS];
        for (size_t i = 0; i < TILE_ROWS; i++)
            rows[i] = slice + walk_least(r + i, count - 1) * stride + piece.from;
        struct tile_sums sums;
        tile_prefetch_some(prefetch);
        for (size_t q = 0; q < queries; q++)
            __builtin_prefetch(scores + q * job->scores_stride + r + TILE_LINE_FLOATS, 1);
        job->tile(euclidean, piece.length, packed, rows, &sums);
        size_t present = walk_least(TILE_ROWS, count - r);
        for (size_t q = 0; q < queries; q++) {
            float *to = scores + q * job->scores_stride + r;
            if (piece.from)
                tile_add(&sums, q, present, to);
            else
                tile_write(&sums, q, present, to);
        }
    }
}

/* Returns how many rows' pieces fit the first-level cache beside the pieces of two query groups. */
static inline size_t tile_slice_rows(size_t piece)
{
    size_t groups = 2 * TILE_QUERIES * piece * sizeof(float);
    size_t left = groups < TILE_FIRST_CACHE ? TILE_FIRST_CACHE - groups : 0;
    size_t rows = left / (piece * sizeof(float)) / TILE_ROWS * TILE_ROWS;
    return rows < TILE_ROWS ? TILE_ROWS : rows;
}

static inline void tile_plain(const struct tile_job *job, bool euclidean, const float *rows,
                              size_t count)
{
    size_t stride = vector_stride(job->dimension);
    size_t slice = tile_slice_rows(walk_least(stride, TILE_PIECE));
    size_t groups = tile_groups(job->queries->count);
    size_t pieces = (stride + TILE_PIECE - 1) / TILE_PIECE;
    size_t tiles = groups * pieces * (slice / TILE_ROWS);
    size_t lines = slice * stride / TILE_LINE_FLOATS;
    for (size_t first = 0; first < count; first += slice) {
        size_t next = walk_least(first + slice, count);
        struct tile_prefetch prefetch = {
            .next = rows + next * stride,
            .end = rows + walk_least(next + slice, count) * stride,
            .lines = (lines + tiles - 1) / tiles,
        };
        for (size_t from = 0; from < stride; from += TILE_PIECE) {
            struct tile_piece piece = {from, walk_least(TILE_PIECE, stride - from)};
            for (size_t g = 0; g < groups; g++)
                tile_group(job, euclidean, g, piece, rows + first * stride, first, next - first,
                           &prefetch);
        }
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

static inline void tile_screen(tile_sum *tile, uint32_t dimension, const struct query_pack *queries,
                               struct row_block block, float *dots, size_t dots_stride)
{
    struct tile_job job = {tile, NULL, dimension, queries, dots, dots_stride};
    tile_plain(&job, false, block.rows, block.count);
}

#endif
