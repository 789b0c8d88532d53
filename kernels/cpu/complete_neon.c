/* NEON: eight vectors of each of two states. */
#include <arm_neon.h>

enum { COMPLETE_LANES = 4, COMPLETE_TOGETHER = 2 };
typedef float32x4_t lane;

static inline lane lane_zero(void)
{
    return vdupq_n_f32(0);
}

static inline lane lane_load(const float *from)
{
    return vld1q_f32(from);
}

static inline lane lane_all(float value)
{
    return vdupq_n_f32(value);
}

static inline lane lane_fma(lane a, lane b, lane c)
{
    return vfmaq_f32(c, a, b);
}

static inline lane lane_add(lane a, lane b)
{
    return vaddq_f32(a, b);
}

static inline void lane_store(float *to, lane value)
{
    vst1q_f32(to, value);
}

#include "kernels/cpu/complete_loops.h"

const struct complete_kernels complete_neon = {
    .name = "neon",
    .score = score,
    .weigh = weigh,
    .add = add,
    .settle = settle,
};
