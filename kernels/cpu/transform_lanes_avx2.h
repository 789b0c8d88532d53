/* transform_lanes_avx2: lanes of eight numbers; transform_lanes_scalar.h says what each does.
 * Owner:  hrr_avx2.c; everything is static inline.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_TRANSFORM_LANES_AVX2_H
#define ENGRAM_KERNELS_CPU_TRANSFORM_LANES_AVX2_H

#include "kernels/cpu/transform_inline.h"

#include <immintrin.h>

typedef __m256 lane;
enum { LANES = 8 };

TRANSFORM_INLINE lane lane_set(float x)
{
    return _mm256_set1_ps(x);
}

TRANSFORM_INLINE lane lane_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

TRANSFORM_INLINE void lane_store(float *to, lane x)
{
    _mm256_storeu_ps(to, x);
}

TRANSFORM_INLINE void lane_store_part(float *to, lane x, size_t count)
{
    __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(to, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), numbers), x);
}

TRANSFORM_INLINE lane lane_add(lane a, lane b)
{
    return _mm256_add_ps(a, b);
}

TRANSFORM_INLINE lane lane_subtract(lane a, lane b)
{
    return _mm256_sub_ps(a, b);
}

TRANSFORM_INLINE lane lane_multiply(lane a, lane b)
{
    return _mm256_mul_ps(a, b);
}

TRANSFORM_INLINE lane lane_divide(lane a, lane b)
{
    return _mm256_div_ps(a, b);
}

TRANSFORM_INLINE lane lane_fma(lane a, lane b, lane c)
{
    return _mm256_fmadd_ps(a, b, c);
}

TRANSFORM_INLINE lane lane_fnma(lane a, lane b, lane c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

TRANSFORM_INLINE lane lane_fms(lane a, lane b, lane c)
{
    return _mm256_fmsub_ps(a, b, c);
}

TRANSFORM_INLINE lane lane_larger(lane m, lane x)
{
    return _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x), m);
}

TRANSFORM_INLINE float lane_largest(lane m)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

TRANSFORM_INLINE lane lane_reverse(lane x)
{
    return _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

/* Quarters 0, 2, 1, 3. */
TRANSFORM_INLINE lane lanes_middle_swapped(lane x)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
}

TRANSFORM_INLINE void lane_split(const float *from, lane *even, lane *odd)
{
    lane low = lane_load(from), high = lane_load(from + LANES);
    *even = lanes_middle_swapped(_mm256_shuffle_ps(low, high, 0x88));
    *odd = lanes_middle_swapped(_mm256_shuffle_ps(low, high, 0xdd));
}

TRANSFORM_INLINE void lane_join(lane even, lane odd, float *to)
{
    lane low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    lane_store(to, _mm256_permute2f128_ps(low, high, 0x20));
    lane_store(to + LANES, _mm256_permute2f128_ps(low, high, 0x31));
}

TRANSFORM_INLINE lane lane_gather(const float *from, const int32_t *offsets)
{
    return _mm256_i32gather_ps(from, _mm256_loadu_si256((const __m256i *)offsets), 4);
}

/* Four columns of rows l and l + 4. */
TRANSFORM_INLINE lane lanes_two_rows(const float *from, const int32_t *offsets, int l)
{
    lane low = _mm256_castps128_ps256(_mm_loadu_ps(from + offsets[l]));
    return _mm256_insertf128_ps(low, _mm_loadu_ps(from + offsets[l + 4]), 1);
}

/* Squares of four by four change rows with columns. */
TRANSFORM_INLINE void lane_tile(const float *from, const int32_t *offsets, lane *x)
{
    TRANSFORM_UNROLL
    for (int c = 0; c < LANES; c += 4) {
        lane a = lanes_two_rows(from + c, offsets, 0), b = lanes_two_rows(from + c, offsets, 1);
        lane p = lanes_two_rows(from + c, offsets, 2), q = lanes_two_rows(from + c, offsets, 3);
        __m256d ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
        __m256d ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
        __m256d pq_low = _mm256_castps_pd(_mm256_unpacklo_ps(p, q));
        __m256d pq_high = _mm256_castps_pd(_mm256_unpackhi_ps(p, q));
        x[c] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, pq_low));
        x[c + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, pq_low));
        x[c + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, pq_high));
        x[c + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, pq_high));
    }
}

#endif
