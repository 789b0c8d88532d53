/* variant: the part of a variant's table that is the same for every SIMD variant, around its own
 * sum_form.
 * Owner:  included once by a variant, below its sum_form (the sums of one query and a group of
 *         rows, inlined here once for each form); everything is static.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_VARIANT_H
#define ENGRAM_KERNELS_CPU_VARIANT_H

#include "kernels/cpu/walk.h"

static void sum(enum walk_form form, uint32_t dimension, const float *query,
                const struct row_group *group, float sums[WALK_GROUP])
{
    size_t stride = vector_stride(dimension);
    bool compensated = canonical_is_compensated(dimension);
    if (form == WALK_DOT && !compensated)
        sum_form(WALK_DOT, false, stride, query, group, sums);
    else if (form == WALK_DOT)
        sum_form(WALK_DOT, true, stride, query, group, sums);
    else if (form == WALK_EUCLIDEAN && !compensated)
        sum_form(WALK_EUCLIDEAN, false, stride, query, group, sums);
    else if (form == WALK_EUCLIDEAN)
        sum_form(WALK_EUCLIDEAN, true, stride, query, group, sums);
    else if (!compensated)
        sum_form(WALK_SELF, false, stride, query, group, sums);
    else
        sum_form(WALK_SELF, true, stride, query, group, sums);
}

static void norms(uint32_t dimension, const float *rows, size_t count, float *out)
{
    walk_norms(sum, dimension, rows, count, out);
}

static void scan(enum metric metric, uint32_t dimension, const float *query, float query_norm,
                 struct row_block block, float *scores)
{
    walk_scan(sum, metric, dimension, query, query_norm, block, scores);
}

static void gather(enum metric metric, uint32_t dimension, const float *query, float query_norm,
                   const float *const *rows, const float *row_norms, size_t count, float *scores)
{
    walk_gather(sum, metric, dimension, query, query_norm, rows, row_norms, count, scores);
}

#endif
