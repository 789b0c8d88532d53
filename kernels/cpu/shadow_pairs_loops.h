/* shadow_pairs_loops: pack and tile for variants without a tile of their own: one pair after
 * another.
 * Owner:  included once by such a variant, which defines pair; everything is static.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_SHADOW_PAIRS_LOOPS_H
#define ENGRAM_KERNELS_CPU_SHADOW_PAIRS_LOOPS_H

#include "kernels/cpu/shadow_loops.h"

/* The product of two rows of codes. */
static int32_t pair(size_t stride, const int8_t *query, const int8_t *row);

static void pack(uint32_t dimension, const float *queries, const float *norms, size_t count,
                 const struct shadow_centre *centre, void *packed)
{
    size_t padded = shadow_padded(count), stride = shadow_stride(dimension);
    struct shadow_pack p = pack_at(packed, padded);
    memset(packed, 0, shadow_pack_bytes(dimension, count));
    for (size_t q = 0; q < count; q++)
        pack_one(dimension, queries + q * vector_stride(dimension), norms[q], centre, &p, q,
                 p.codes + q * stride);
}

static bool passes(const struct shadow_query *q, const struct shadow_rows *rows, size_t r,
                   int32_t product, float bound)
{
    float estimate = shadow_estimate(q, rows->scales[r], 0, product);
    return !(shadow_above(q, estimate, rows->losts[r], rows->lengths[r]) < bound);
}

static void tile(uint32_t dimension, const void *packed, size_t count,
                 const struct shadow_lines *lines, const struct shadow_rows *rows,
                 const float *floors, uint32_t *masks)
{
    size_t stride = shadow_stride(dimension), padded = shadow_padded(count);
    struct shadow_pack p = pack_at((void *)(uintptr_t)packed, padded);
    memset(masks, 0, padded / SHADOW_GROUP * rows->count * sizeof *masks);
    for (size_t i = 0; i < count; i++) {
        struct shadow_query q = pack_query(&p, i);
        uint32_t *word = masks + i / SHADOW_GROUP * rows->count;
        for (size_t r = 0; r < rows->count; r++) {
            int32_t product = pair(stride, p.codes + i * stride, rows->codes + r * stride);
            float bound = fmaf(lines->scales[i], floors[r], lines->offsets[i]);
            word[r] |= (uint32_t)passes(&q, rows, r, product, bound) << i % SHADOW_GROUP;
        }
    }
}

#endif
