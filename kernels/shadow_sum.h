/* shadow_sum: checksums of rows in int8 (shadow.h) on a device, one for each tile of rows: the sum
 * of a term for each eight bytes that says where they are. A row's part can be taken out before the
 * row is coded anew and added afterwards, so what else changed in the tile still shows. One changed
 * word always changes the sum; changes of several cancel out once in 2^64.
 *
 * They are compared in an idle sweep, and not when codes are copied, since codes beside rows never
 * are: a range of VRAM grows where it is; where a device can only move one, the shadow is dropped
 * and made anew (gpu/replica_shadow.c); a second version of a replica codes its own rows
 * (gpu/replica_fork.c leaves those ranges out), and so does what comes back after it was evicted.
 * Codes without rows (shadow_only) on a device whose ranges move take their checksums with them,
 * and the next sweep compares them. In the host, a segment that is copied for a next edition has no
 * shadow until a search makes one.
 * Owner:  nobody; pure functions. Included by C and by CUDA.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_SHADOW_SUM_H
#define ENGRAM_KERNELS_SHADOW_SUM_H

#include <string.h>

#include "kernels/shadow.h"

enum { SHADOW_SUM_ROWS = 256 /* of a tile */ };

/* Words of eight bytes: the codes, and two for what stands beside them. */
CANONICAL_INLINE uint64_t shadow_sum_words(uint32_t dimension)
{
    return shadow_stride(dimension) / 8 + 2;
}

CANONICAL_INLINE uint64_t shadow_sum_tiles(uint64_t rows)
{
    return (rows + SHADOW_SUM_ROWS - 1) / SHADOW_SUM_ROWS;
}

/* What the shadow of so many rows takes on a device, array by array. */
struct shadow_sizes {
    uint64_t codes, floats; /* floats: of scales, of losts and of lengths, each */
    /* of the centre, its norm, what a look found (struct cuda_shadow_found), and the checksums */
    uint64_t norm_at, found_at, sums_at, centre;
};
CANONICAL_INLINE struct shadow_sizes shadow_sizes_of(uint32_t dimension, uint64_t rows)
{
    const uint64_t line = 64;
    struct shadow_sizes s;
    s.codes = rows * shadow_stride(dimension);
    s.floats = rows * sizeof(float);
    s.norm_at = vector_stride(dimension) * sizeof(float);
    s.found_at = s.norm_at + line;
    s.sums_at = s.found_at + line;
    s.centre = s.sums_at + shadow_sum_tiles(rows) * sizeof(uint64_t);
    return s;
}

/* Different for each word at one place. place: row * shadow_sum_words + the word's number. */
CANONICAL_INLINE uint64_t shadow_sum_term(uint64_t place, uint64_t word)
{
    uint64_t h = word + (place + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
    return h ^ h >> 31;
}

CANONICAL_INLINE uint64_t shadow_sum_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The terms of what stands beside a row's codes; place: of its first word. */
CANONICAL_INLINE uint64_t shadow_sum_beside(uint64_t place, float scale, float lost, float length)
{
    const uint64_t two = shadow_sum_bits(lost) << 32 | shadow_sum_bits(scale);
    return shadow_sum_term(place, two) + shadow_sum_term(place + 1, shadow_sum_bits(length));
}

/* Where the words of the centre are, which counts with the row 0: the codes say nothing without it.
 * Behind those of all rows. */
static const uint64_t shadow_sum_centre_place = UINT64_C(1) << 62;

/* Literal: the part of the centre and its norm. */
static inline uint64_t shadow_sum_centre(uint32_t dimension, const float *centre, float norm)
{
    uint64_t sum = shadow_sum_term(shadow_sum_centre_place + dimension, shadow_sum_bits(norm));
    for (uint32_t i = 0; i < dimension; i++)
        sum += shadow_sum_term(shadow_sum_centre_place + i, shadow_sum_bits(centre[i]));
    return sum;
}

/* Literal: the part of one row. */
static inline uint64_t shadow_sum_row(uint32_t dimension, const struct shadow_rows *rows,
                                      uint64_t row)
{
    size_t stride = shadow_stride(dimension), codes = stride / 8;
    uint64_t first = row * shadow_sum_words(dimension), sum = 0;
    for (size_t i = 0; i < codes; i++) {
        uint64_t word;
        memcpy(&word, rows->codes + row * stride + i * 8, sizeof word);
        sum += shadow_sum_term(first + i, word);
    }
    return sum + shadow_sum_beside(first + codes, rows->scales[row], rows->losts[row],
                                   rows->lengths[row]);
}

#endif
