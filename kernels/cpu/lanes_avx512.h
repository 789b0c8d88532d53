/* lanes_avx512: folding 32 partials held as zmm registers.
 * Owner:  the two AVX-512 files; everything is static inline.
 * Thread: any; no state.
 * Errors: none.
 *
 * IEEE addition is commutative, so a fold may take its operands in either order; which operands
 * are added is fixed by the tree of canonical.h. */
#ifndef ENGRAM_KERNELS_CPU_LANES_AVX512_H
#define ENGRAM_KERNELS_CPU_LANES_AVX512_H

#include <immintrin.h>

/* Steps 8 and 4 of the tree, for four vectors at once: quarter i of the result belongs to vector
 * i. (Step 16 is the sum of the two registers of a partial.) */
static inline __m512 lanes_quarters(__m512 a, __m512 b, __m512 c, __m512 d)
{
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

/* Step 2 of two vectors of quarters: each quarter is x, x, y, y. */
static inline __m512 lanes_pairs(__m512 x, __m512 y)
{
    __m512d from = _mm512_castps_pd(x), with = _mm512_castps_pd(y);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(from, with)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(from, with)));
}

/* Step 1: each quarter is the two sums of a, then the two sums of b. */
static inline __m512 lanes_singles(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

#endif
