/* AVX-512: two vectors of each of eight states. */
#include <immintrin.h>

enum { COMPLETE_LANES = 16, COMPLETE_TOGETHER = 8 };
typedef __m512 lane;

static inline lane lane_zero(void)
{
    return _mm512_setzero_ps();
}

static inline lane lane_load(const float *from)
{
    return _mm512_load_ps(from);
}

static inline lane lane_all(float value)
{
    return _mm512_set1_ps(value);
}

static inline lane lane_fma(lane a, lane b, lane c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline lane lane_add(lane a, lane b)
{
    return _mm512_add_ps(a, b);
}

static inline void lane_store(float *to, lane value)
{
    _mm512_store_ps(to, value);
}

#include "kernels/cpu/complete_loops.h"

const struct complete_kernels complete_avx512 = {
    .name = "avx512",
    .score = score,
    .weigh = weigh,
    .add = add,
    .settle = settle,
};
