/* shadow_fours: pack and tile for instructions that add four products of bytes to 32 bits. Codes of
 * a group's queries lie four of a query after four of the next, so that one vector has four of
 * several queries, and four of a row are repeated beside them. Where one side of the products is
 * unsigned, it is the queries' codes, made so by BIAS, which the products then contain.
 * Owner:  included once by such a variant, which defines BIAS before (0: both sides are signed);
 *         everything is static. A variant without SHADOW_TILE_OWN also defines TILE_ROWS, products
 *         of a group (group_products), what of them is the bias (row_bias), and mask_of.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_SHADOW_FOURS_H
#define ENGRAM_KERNELS_CPU_SHADOW_FOURS_H

#include "kernels/cpu/shadow_loops.h"

enum { FOUR = 4 };

static void pack(uint32_t dimension, const float *queries, const float *norms, size_t count,
                 const struct shadow_centre *centre, void *packed)
{
    size_t padded = shadow_padded(count), stride = shadow_stride(dimension);
    struct shadow_pack p = pack_at(packed, padded);
    int8_t codes[VECTOR_DIMENSION_MAX];
    memset(packed, 0, 4 * padded * sizeof(float));
    memset(p.codes, BIAS, padded * stride);
    for (size_t q = 0; q < count; q++) {
        int8_t *to = p.codes + q / SHADOW_GROUP * SHADOW_GROUP * stride;
        pack_one(dimension, queries + q * vector_stride(dimension), norms[q], centre, &p, q, codes);
        for (size_t i = 0; i < vector_stride(dimension); i++)
            to[(i / FOUR * SHADOW_GROUP + q % SHADOW_GROUP) * FOUR + i % FOUR] =
                (int8_t)(codes[i] ^ BIAS);
    }
}

#ifndef SHADOW_TILE_OWN

/* The products of a group's queries and `together` rows, TILE_ROWS or 1, with the bias. */
static void group_products(size_t together, size_t stride, const int8_t *queries,
                           const int8_t *codes, int32_t (*products)[SHADOW_GROUP]);
/* BIAS times the sum of a row's codes. */
static int32_t row_bias(size_t stride, const int8_t *codes);
/* Bit i is set if passes[i], 0 or -1, is not 0. */
static uint32_t mask_of(const int32_t passes[SHADOW_GROUP]);

/* The rest of shadow_above and of the bound, of a group's queries and row r. */
static uint32_t passing(const struct shadow_pack *p, const struct shadow_lines *lines, size_t first,
                        const int32_t *products, int32_t bias, const struct shadow_rows *rows,
                        float floor, size_t r)
{
    int32_t passes[SHADOW_GROUP] __attribute__((aligned(64)));
    float scale = rows->scales[r], length = rows->lengths[r], lost = rows->losts[r];
    for (size_t i = 0; i < SHADOW_GROUP; i++) {
        size_t q = first + i;
        float above = fmaf((float)(products[i] - bias) * scale, p->scales[q], p->centred[q]);
        above = fmaf(p->losts[q], length, above);
        above = fmaf(p->norms[q], lost, above);
        passes[i] = -!(above < fmaf(lines->scales[q], floor, lines->offsets[q]));
    }
    return mask_of(passes);
}

static void tile(uint32_t dimension, const void *packed, size_t count,
                 const struct shadow_lines *lines, const struct shadow_rows *rows,
                 const float *floors, uint32_t *masks)
{
    size_t stride = shadow_stride(dimension), padded = shadow_padded(count);
    struct shadow_pack p = pack_at((void *)(uintptr_t)packed, padded);
    for (size_t first = 0, n; first < rows->count; first += n) {
        n = rows->count - first < TILE_ROWS ? 1 : TILE_ROWS;
        const int8_t *codes = rows->codes + first * stride;
        int32_t bias[TILE_ROWS];
        for (size_t r = 0; r < n; r++)
            bias[r] = row_bias(stride, codes + r * stride);
        for (size_t q = 0; q < padded; q += SHADOW_GROUP) {
            int32_t found[TILE_ROWS][SHADOW_GROUP] __attribute__((aligned(64)));
            uint32_t used = count - q < SHADOW_GROUP ? (1u << (count - q)) - 1 : ~0u;
            uint32_t *words = masks + q / SHADOW_GROUP * rows->count + first;
            group_products(n, stride, p.codes + q * stride, codes, found);
            for (size_t r = 0; r < n; r++)
                words[r] = used & passing(&p, lines, q, found[r], bias[r], rows, floors[first + r],
                                          first + r);
        }
    }
}

#endif

#endif
