/* NEON: four vectors of the left side by six numbers of the right. */
#include <arm_neon.h>

enum { COVARIANCE_LANES = 2, COVARIANCE_LEFT = 4, COVARIANCE_RIGHT = 6, COVARIANCE_ROWS = 64 };
typedef float64x2_t lane;

static inline lane lane_load(const double *from)
{
    return vld1q_f64(from);
}

static inline lane lane_all(double value)
{
    return vdupq_n_f64(value);
}

static inline lane lane_fma(lane a, lane b, lane c)
{
    return vfmaq_f64(c, a, b);
}

static inline lane lane_add(lane a, lane b)
{
    return vaddq_f64(a, b);
}

static inline void lane_store(double *to, lane value)
{
    vst1q_f64(to, value);
}

#include "kernels/cpu/covariance_loops.h"

const struct covariance_kernels covariance_neon = {
    .name = "neon",
    .depth = COVARIANCE_ROWS,
    .sum = sum,
    .pack_left = pack_left,
    .pack_right = pack_right,
    .add = add,
    .fold = fold,
};
