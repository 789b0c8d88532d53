/* attractor_write: learning, and weights that are set. Both fill a W of their own, which becomes
 * the newest when they are through. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"
#include "daemon/store/attractor_inside.h"

enum { PIECE_NUMBERS = 1 << 16 }; /* that many are written between looks at who waits */

/* True if the write goes on. */
static bool look(struct attractor_wish *wish)
{
    yield_check();
    if (!wish->stopped && !wish->goes_on(wish->owner)) wish->stopped = true;
    return !wish->stopped;
}

static uint32_t piece_of(uint32_t dimension)
{
    uint32_t columns = PIECE_NUMBERS / dimension;
    return columns ? columns : 1;
}

static void complete(struct attractor *a, struct attractor_edition *e, uint64_t patterns)
{
    e->patterns = patterns;
    e->version = space_next_version(a->resident.space);
    a->written = e;
}

/* ---------------------------------------------------------------- learning */

struct lesson {
    struct attractor *a;
    const struct attractor_kernels *kernels;
    const struct vector_kernels *vectors;
    struct attractor_wish *wish;
    const float *from;       /* the W that the next step reads */
    float *to;               /* the writer's own */
    float divisor;           /* by which it is still to be divided; 1: it is not */
    float *pattern, *scaled; /* padded */
};

/* One step over all of W. False: stopped. */
static bool step(struct lesson *l, const float *scaled, const float *pattern,
                 struct attractor_range *range)
{
    uint32_t d = l->a->dimension, piece = piece_of(d);
    size_t stride = vector_stride(d);
    for (uint32_t first = 0; first < d; first += piece) {
        uint32_t count = d - first < piece ? d - first : piece;
        if (!look(l->wish)) return false;
        l->kernels->learn(d, scaled, pattern ? pattern + first : NULL, l->divisor,
                          l->from + first * stride, count, l->to + first * stride, range);
    }
    l->from = l->to;
    l->divisor = 1.0f;
    return true;
}

static enum status take_row(struct lesson *l, const struct attractor_patterns *p, uint64_t i,
                            struct failure *f)
{
    uint32_t d = l->a->dimension;
    const float *row = p->rows + i * d;
    float norm;
    if (p->collection) {
        uint32_t at = collection_find_row(p->collection, p->ids[i]);
        if (at == COLLECTION_NO_ROW)
            return failure_set(f, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID,
                               "patterns: there is no id %" PRIu64 " (pattern %" PRIu64 ")",
                               p->ids[i], i);
        row = collection_row(p->collection, at);
    }
    memcpy(l->pattern, row, d * sizeof *row);
    l->vectors->norms(d, l->pattern, 1, &norm);
    for (uint32_t k = 0; k < d; k++) {
        if (!isfinite(l->pattern[k]))
            return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE,
                               "pattern %" PRIu64 ": number %" PRIu32 " is not finite", i, k);
        l->scaled[k] = l->a->rate * l->pattern[k];
    }
    if (isfinite(norm)) return STATUS_OK;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW,
                       "pattern %" PRIu64 ": its norm overflows float32", i);
}

/* Division is left to the next step, which reads W anyway. */
static enum status learn_one(struct lesson *l, uint64_t i, struct failure *f)
{
    struct attractor_range range = {-INFINITY, INFINITY};
    if (!step(l, l->scaled, l->pattern, &range)) return STATUS_OK;
    if (range.greatest > ATTRACTOR_WEIGHT_MAX) l->divisor = range.greatest;
    if (range.greatest <= FLT_MAX && range.least / l->divisor >= ATTRACTOR_WEIGHT_MIN)
        return STATUS_OK;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHTS,
                       "pattern %" PRIu64 ": weights of %g to %g, and they are %g to %g", i,
                       (double)range.least, (double)range.greatest, (double)ATTRACTOR_WEIGHT_MIN,
                       (double)ATTRACTOR_WEIGHT_MAX);
}

static enum status learn_all(struct lesson *l, const struct attractor_patterns *p,
                             struct failure *f)
{
    enum status st = STATUS_OK;
    for (uint64_t i = 0; i < p->n && !st && !l->wish->stopped; i++) {
        st = take_row(l, p, i, f);
        if (!st) st = learn_one(l, i, f);
    }
    struct attractor_range unused = {0};
    if (!st && !l->wish->stopped && l->divisor != 1.0f) step(l, NULL, NULL, &unused);
    return st;
}

enum status attractor_learn(struct attractor *a, const struct vector_kernels *vectors,
                            const struct attractor_patterns *patterns, struct attractor_wish *wish,
                            struct failure *f)
{
    size_t stride = vector_stride(a->dimension);
    if (!patterns->n) return STATUS_OK;
    float *lines = NULL;
    size_t bytes = 2 * stride * sizeof *lines;
    if (!fault_here("store: pattern")) lines = aligned_alloc(64, bytes);
    if (!lines)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a pattern");
    memset(lines, 0, bytes);
    struct attractor_edition *e = NULL;
    enum status st = attractor_edition_create(a, NULL, f, &e);
    if (!st) {
        struct lesson l = {a,
                           attractor_choose(vectors->name),
                           vectors,
                           wish,
                           a->now->block.data,
                           e->block.data,
                           1.0f,
                           lines,
                           lines + stride};
        st = learn_all(&l, patterns, f);
    }
    if (!st && !wish->stopped)
        complete(a, e, a->now->patterns + patterns->n);
    else
        attractor_edition_destroy(a->heap, e);
    free(lines);
    return st;
}

/* ---------------------------------------------------------------- setting */

static bool is_weight(float w)
{
    return w >= ATTRACTOR_WEIGHT_MIN && w <= ATTRACTOR_WEIGHT_MAX;
}

/* Copies rows to columns, square by square, so that both stay in the cache. */
static enum status turn_rows(uint32_t d, const float *rows, float *columns,
                             struct attractor_wish *wish, struct failure *f)
{
    enum { SIDE = 32 };
    size_t stride = vector_stride(d);
    for (uint32_t top = 0; top < d; top += SIDE) {
        if (!look(wish)) return STATUS_OK;
        uint32_t bottom = top + SIDE < d ? top + SIDE : d;
        for (uint32_t i = top; i < bottom; i++)
            for (uint32_t j = 0; j < d; j++)
                if (!is_weight(rows[(size_t)i * d + j]))
                    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHTS,
                                       "weights: row %" PRIu32 ", column %" PRIu32
                                       " is %g, not %g to %g",
                                       i, j, (double)rows[(size_t)i * d + j],
                                       (double)ATTRACTOR_WEIGHT_MIN, (double)ATTRACTOR_WEIGHT_MAX);
        for (uint32_t left = 0; left < d; left += SIDE)
            for (uint32_t j = left; j < d && j < left + SIDE; j++)
                for (uint32_t i = top; i < bottom; i++)
                    columns[j * stride + i] = rows[(size_t)i * d + j];
    }
    return STATUS_OK;
}

enum status attractor_set(struct attractor *a, const float *rows, struct attractor_wish *wish,
                          struct failure *f)
{
    struct attractor_edition *e = NULL;
    uint32_t d = a->dimension;
    enum status st = attractor_edition_create(a, NULL, f, &e);
    if (st) return st;
    float *columns = e->block.data;
    size_t stride = vector_stride(d);
    st = turn_rows(d, rows, columns, wish, f);
    for (uint32_t j = 0; j < d; j++)
        memset(columns + j * stride + d, 0, (stride - d) * sizeof *columns);
    if (!st && !wish->stopped)
        complete(a, e, 0);
    else
        attractor_edition_destroy(a->heap, e);
    return st;
}
