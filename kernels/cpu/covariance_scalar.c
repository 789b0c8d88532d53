/* The reference, without vectors. A fused operation may be a call there, so few rows are added at
 * once. */
#include <math.h>

enum { COVARIANCE_LANES = 1, COVARIANCE_LEFT = 4, COVARIANCE_RIGHT = 4, COVARIANCE_ROWS = 4 };
typedef double lane;

static inline lane lane_load(const double *from)
{
    return *from;
}

static inline lane lane_all(double value)
{
    return value;
}

static inline lane lane_fma(lane a, lane b, lane c)
{
    return fma(a, b, c);
}

static inline lane lane_add(lane a, lane b)
{
    return a + b;
}

static inline void lane_store(double *to, lane value)
{
    *to = value;
}

#include "kernels/cpu/covariance_loops.h"

const struct covariance_kernels covariance_scalar = {
    .name = "scalar",
    .depth = COVARIANCE_ROWS,
    .sum = sum,
    .pack_left = pack_left,
    .pack_right = pack_right,
    .add = add,
    .fold = fold,
};
