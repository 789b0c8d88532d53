/* AVX2: three vectors of the left side by four numbers of the right. */
#include <immintrin.h>

enum { COVARIANCE_LANES = 4, COVARIANCE_LEFT = 3, COVARIANCE_RIGHT = 4, COVARIANCE_ROWS = 128 };
typedef __m256d lane;

static inline lane lane_load(const double *from)
{
    return _mm256_load_pd(from);
}

static inline lane lane_all(double value)
{
    return _mm256_set1_pd(value);
}

static inline lane lane_fma(lane a, lane b, lane c)
{
    return _mm256_fmadd_pd(a, b, c);
}

static inline lane lane_add(lane a, lane b)
{
    return _mm256_add_pd(a, b);
}

static inline void lane_store(double *to, lane value)
{
    _mm256_store_pd(to, value);
}

#include "kernels/cpu/covariance_loops.h"

const struct covariance_kernels covariance_avx2 = {
    .name = "avx2",
    .depth = COVARIANCE_ROWS,
    .sum = sum,
    .pack_left = pack_left,
    .pack_right = pack_right,
    .add = add,
    .fold = fold,
};
