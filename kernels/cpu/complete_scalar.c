/* The reference: plain C, a number at a time. */
#include <math.h>

enum { COMPLETE_LANES = 1, COMPLETE_TOGETHER = 2 };
typedef float lane;

static inline lane lane_zero(void)
{
    return 0;
}

static inline lane lane_load(const float *from)
{
    return *from;
}

static inline lane lane_all(float value)
{
    return value;
}

static inline lane lane_fma(lane a, lane b, lane c)
{
    return fmaf(a, b, c);
}

static inline lane lane_add(lane a, lane b)
{
    return a + b;
}

static inline void lane_store(float *to, lane value)
{
    *to = value;
}

#include "kernels/cpu/complete_loops.h"

const struct complete_kernels complete_scalar = {
    .name = "scalar",
    .score = score,
    .weigh = weigh,
    .add = add,
    .settle = settle,
};
