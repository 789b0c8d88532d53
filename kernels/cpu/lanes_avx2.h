/* lanes_avx2: folding 32 partials held as ymm registers.
 * Owner:  the two AVX2 files; everything is static inline.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_LANES_AVX2_H
#define ENGRAM_KERNELS_CPU_LANES_AVX2_H

#include <immintrin.h>

/* Steps 16 and 8 of the tree: p0 to p3 hold partials 8 i to 8 i + 7. */
static inline __m256 lanes_eights(__m256 p0, __m256 p1, __m256 p2, __m256 p3)
{
    return _mm256_add_ps(_mm256_add_ps(p0, p2), _mm256_add_ps(p1, p3));
}

/* Steps 4, 2 and 1 of four vectors at once. */
static inline __m128 lanes_fold(__m256 a, __m256 b, __m256 c, __m256 d)
{
    __m256 ab =
        _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    __m256 cd =
        _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
    __m256d x = _mm256_castps_pd(ab), y = _mm256_castps_pd(cd);
    __m256 pairs = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                                 _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
    __m256 singles =
        _mm256_add_ps(_mm256_shuffle_ps(pairs, pairs, 0x88), _mm256_shuffle_ps(pairs, pairs, 0xdd));
    /* sums of a and c in the low half, of b and d in the high one */
    return _mm_unpacklo_ps(_mm256_castps256_ps128(singles), _mm256_extractf128_ps(singles, 1));
}

#endif
