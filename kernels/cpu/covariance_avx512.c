/* AVX-512: three vectors of the left side by eight numbers of the right. */
#include <immintrin.h>

enum { COVARIANCE_LANES = 8, COVARIANCE_LEFT = 3, COVARIANCE_RIGHT = 8, COVARIANCE_ROWS = 128 };
typedef __m512d lane;

static inline lane lane_load(const double *from)
{
    return _mm512_load_pd(from);
}

static inline lane lane_all(double value)
{
    return _mm512_set1_pd(value);
}

static inline lane lane_fma(lane a, lane b, lane c)
{
    return _mm512_fmadd_pd(a, b, c);
}

static inline lane lane_add(lane a, lane b)
{
    return _mm512_add_pd(a, b);
}

static inline void lane_store(double *to, lane value)
{
    _mm512_store_pd(to, value);
}

#include "kernels/cpu/covariance_loops.h"

const struct covariance_kernels covariance_avx512 = {
    .name = "avx512",
    .depth = COVARIANCE_ROWS,
    .sum = sum,
    .pack_left = pack_left,
    .pack_right = pack_right,
    .add = add,
    .fold = fold,
};
