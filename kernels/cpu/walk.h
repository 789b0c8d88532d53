/* walk: how every CPU variant goes over its rows; the arithmetic belongs to the variant.
 * Owner:  included by one variant at a time and compiled with that variant's flags, so everything
 *         here is static inline.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_WALK_H
#define ENGRAM_KERNELS_CPU_WALK_H

#include "kernels/canonical.h"

#include <string.h>

/* For helpers whose form is a constant at the call, so that their loops do not branch on it. */
#define WALK_INLINE static inline __attribute__((always_inline))

/* Rows that are summed together, so that several streams of memory are in flight. */
enum { WALK_GROUP = 4 };

/* How far ahead of the sum rows are prefetched. */
enum { WALK_AHEAD_BYTES = 8192 };

struct row_group {
    const float *rows[WALK_GROUP];
    const float *ahead[WALK_GROUP]; /* rows needed soon, to be prefetched alongside */
};

enum walk_form {
    WALK_DOT,       /* query with row */
    WALK_EUCLIDEAN, /* squared distance from query to row */
    WALK_SELF,      /* row with itself; the query is not read */
};

typedef void walk_sum(enum walk_form form, uint32_t dimension, const float *query,
                      const struct row_group *group, float sums[WALK_GROUP]);

static inline enum walk_form walk_form_of(enum metric metric)
{
    return metric == METRIC_SQUARED_EUCLIDEAN ? WALK_EUCLIDEAN : WALK_DOT;
}

/* Turns the dot product in scores[i] into the cosine. */
static inline void walk_cosine(float query_norm, const float *norms, size_t count, float *scores)
{
    for (size_t i = 0; i < count; i++)
        scores[i] = canonical_cosine(scores[i], query_norm, norms[i]);
}

static inline size_t walk_ahead(uint32_t dimension)
{
    size_t rows = WALK_AHEAD_BYTES / (vector_stride(dimension) * sizeof(float));
    return rows < WALK_GROUP ? WALK_GROUP : rows;
}

static inline size_t walk_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Past the end the last row stands in: it is in the cache, and its sum is not written. */
static inline void walk_contiguous(walk_sum *sum, enum walk_form form, uint32_t dimension,
                                   const float *query, const float *rows, size_t count, float *sums)
{
    size_t stride = vector_stride(dimension);
    size_t ahead = walk_ahead(dimension);
    for (size_t first = 0; first < count; first += WALK_GROUP) {
        struct row_group group;
        float found[WALK_GROUP];
        for (size_t r = 0; r < WALK_GROUP; r++) {
            group.rows[r] = rows + walk_least(first + r, count - 1) * stride;
            group.ahead[r] = rows + walk_least(first + r + ahead, count - 1) * stride;
        }
        sum(form, dimension, query, &group, found);
        for (size_t r = 0; r < WALK_GROUP && first + r < count; r++)
            sums[first + r] = found[r];
    }
}

static inline void walk_scattered(walk_sum *sum, enum walk_form form, uint32_t dimension,
                                  const float *query, const float *const *rows, size_t count,
                                  float *sums)
{
    size_t ahead = walk_ahead(dimension);
    for (size_t first = 0; first < count; first += WALK_GROUP) {
        struct row_group group;
        float found[WALK_GROUP];
        for (size_t r = 0; r < WALK_GROUP; r++) {
            group.rows[r] = rows[walk_least(first + r, count - 1)];
            group.ahead[r] = rows[walk_least(first + r + ahead, count - 1)];
        }
        sum(form, dimension, query, &group, found);
        for (size_t r = 0; r < WALK_GROUP && first + r < count; r++)
            sums[first + r] = found[r];
    }
}

static inline void walk_norms(walk_sum *sum, uint32_t dimension, const float *rows, size_t count,
                              float *norms)
{
    walk_contiguous(sum, WALK_SELF, dimension, rows, rows, count, norms);
    for (size_t i = 0; i < count; i++)
        norms[i] = canonical_norm(norms[i]);
}

static inline void walk_scan(walk_sum *sum, enum metric metric, uint32_t dimension,
                             const float *query, float query_norm, struct row_block block,
                             float *scores)
{
    walk_contiguous(sum, walk_form_of(metric), dimension, query, block.rows, block.count, scores);
    if (metric == METRIC_COSINE) walk_cosine(query_norm, block.norms, block.count, scores);
}

static inline void walk_gather(walk_sum *sum, enum metric metric, uint32_t dimension,
                               const float *query, float query_norm, const float *const *rows,
                               const float *norms, size_t count, float *scores)
{
    walk_scattered(sum, walk_form_of(metric), dimension, query, rows, count, scores);
    if (metric == METRIC_COSINE) walk_cosine(query_norm, norms, count, scores);
}

static inline void walk_normalize(uint32_t dimension, float *rows, const float *norms, size_t count)
{
    size_t stride = vector_stride(dimension);
    for (size_t r = 0; r < count; r++, rows += stride) {
        float norm = norms[r];
        if (norm == 0.0f) {
            memset(rows, 0, stride * sizeof *rows);
            continue;
        }
        for (size_t i = 0; i < stride; i++)
            rows[i] = canonical_divide(rows[i], norm);
    }
}

#endif
