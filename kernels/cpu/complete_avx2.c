/* AVX2 and FMA: four vectors of each of two states. */
#include <immintrin.h>

enum { COMPLETE_LANES = 8, COMPLETE_TOGETHER = 2 };
typedef __m256 lane;

static inline lane lane_zero(void)
{
    return _mm256_setzero_ps();
}

static inline lane lane_load(const float *from)
{
    return _mm256_load_ps(from);
}

static inline lane lane_all(float value)
{
    return _mm256_set1_ps(value);
}

static inline lane lane_fma(lane a, lane b, lane c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline lane lane_add(lane a, lane b)
{
    return _mm256_add_ps(a, b);
}

static inline void lane_store(float *to, lane value)
{
    _mm256_store_ps(to, value);
}

#include "kernels/cpu/complete_loops.h"

const struct complete_kernels complete_avx2 = {
    .name = "avx2",
    .score = score,
    .weigh = weigh,
    .add = add,
    .settle = settle,
};
