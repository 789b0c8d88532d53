/* transform_lanes_avx512: lanes of sixteen numbers; transform_lanes_scalar.h says what each does.
 * Owner:  hrr_avx512.c; everything is static inline.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_TRANSFORM_LANES_AVX512_H
#define ENGRAM_KERNELS_CPU_TRANSFORM_LANES_AVX512_H

#include "kernels/cpu/transform_inline.h"

#include <immintrin.h>

typedef __m512 lane;
enum { LANES = 16 };

TRANSFORM_INLINE lane lane_set(float x)
{
    return _mm512_set1_ps(x);
}

TRANSFORM_INLINE lane lane_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

TRANSFORM_INLINE void lane_store(float *to, lane x)
{
    _mm512_storeu_ps(to, x);
}

TRANSFORM_INLINE void lane_store_part(float *to, lane x, size_t count)
{
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), x);
}

TRANSFORM_INLINE lane lane_add(lane a, lane b)
{
    return _mm512_add_ps(a, b);
}

TRANSFORM_INLINE lane lane_subtract(lane a, lane b)
{
    return _mm512_sub_ps(a, b);
}

TRANSFORM_INLINE lane lane_multiply(lane a, lane b)
{
    return _mm512_mul_ps(a, b);
}

TRANSFORM_INLINE lane lane_divide(lane a, lane b)
{
    return _mm512_div_ps(a, b);
}

TRANSFORM_INLINE lane lane_fma(lane a, lane b, lane c)
{
    return _mm512_fmadd_ps(a, b, c);
}

TRANSFORM_INLINE lane lane_fnma(lane a, lane b, lane c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

TRANSFORM_INLINE lane lane_fms(lane a, lane b, lane c)
{
    return _mm512_fmsub_ps(a, b, c);
}

TRANSFORM_INLINE lane lane_larger(lane m, lane x)
{
    return _mm512_max_ps(_mm512_abs_ps(x), m);
}

TRANSFORM_INLINE float lane_largest(lane m)
{
    return _mm512_reduce_max_ps(m);
}

TRANSFORM_INLINE lane lane_reverse(lane x)
{
    __m512i back = _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_permutexvar_ps(back, x);
}

TRANSFORM_INLINE void lane_split(const float *from, lane *even, lane *odd)
{
    __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    lane low = lane_load(from), high = lane_load(from + LANES);
    *even = _mm512_permutex2var_ps(low, evens, high);
    *odd = _mm512_permutex2var_ps(low, odds, high);
}

TRANSFORM_INLINE void lane_join(lane even, lane odd, float *to)
{
    __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512i second =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    lane_store(to, _mm512_permutex2var_ps(even, first, odd));
    lane_store(to + LANES, _mm512_permutex2var_ps(even, second, odd));
}

TRANSFORM_INLINE lane lane_gather(const float *from, const int32_t *offsets)
{
    return _mm512_i32gather_ps(_mm512_loadu_si512(offsets), from, 4);
}

/* Four columns of rows l, l + 4, l + 8 and l + 12. */
TRANSFORM_INLINE lane lanes_four_rows(const float *from, const int32_t *offsets, int l)
{
    lane x = _mm512_castps128_ps512(_mm_loadu_ps(from + offsets[l]));
    x = _mm512_insertf32x4(x, _mm_loadu_ps(from + offsets[l + 4]), 1);
    x = _mm512_insertf32x4(x, _mm_loadu_ps(from + offsets[l + 8]), 2);
    return _mm512_insertf32x4(x, _mm_loadu_ps(from + offsets[l + 12]), 3);
}

/* Squares of four by four change rows with columns. */
TRANSFORM_INLINE void lane_tile(const float *from, const int32_t *offsets, lane *x)
{
    TRANSFORM_UNROLL
    for (int c = 0; c < LANES; c += 4) {
        lane a = lanes_four_rows(from + c, offsets, 0), b = lanes_four_rows(from + c, offsets, 1);
        lane p = lanes_four_rows(from + c, offsets, 2), q = lanes_four_rows(from + c, offsets, 3);
        __m512d ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
        __m512d ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
        __m512d pq_low = _mm512_castps_pd(_mm512_unpacklo_ps(p, q));
        __m512d pq_high = _mm512_castps_pd(_mm512_unpackhi_ps(p, q));
        x[c] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, pq_low));
        x[c + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, pq_low));
        x[c + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, pq_high));
        x[c + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, pq_high));
    }
}

#endif
