/* transform_lanes_neon: lanes of four numbers; transform_lanes_scalar.h says what each does.
 * Owner:  hrr_neon.c; everything is static inline.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_TRANSFORM_LANES_NEON_H
#define ENGRAM_KERNELS_CPU_TRANSFORM_LANES_NEON_H

#include "kernels/cpu/transform_inline.h"

#include <arm_neon.h>

typedef float32x4_t lane;
enum { LANES = 4 };

TRANSFORM_INLINE lane lane_set(float x)
{
    return vdupq_n_f32(x);
}

TRANSFORM_INLINE lane lane_load(const float *from)
{
    return vld1q_f32(from);
}

TRANSFORM_INLINE void lane_store(float *to, lane x)
{
    vst1q_f32(to, x);
}

TRANSFORM_INLINE void lane_store_part(float *to, lane x, size_t count)
{
    float numbers[LANES];
    vst1q_f32(numbers, x);
    for (size_t i = 0; i < count; i++)
        to[i] = numbers[i];
}

TRANSFORM_INLINE lane lane_add(lane a, lane b)
{
    return vaddq_f32(a, b);
}

TRANSFORM_INLINE lane lane_subtract(lane a, lane b)
{
    return vsubq_f32(a, b);
}

TRANSFORM_INLINE lane lane_multiply(lane a, lane b)
{
    return vmulq_f32(a, b);
}

TRANSFORM_INLINE lane lane_divide(lane a, lane b)
{
    return vdivq_f32(a, b);
}

TRANSFORM_INLINE lane lane_fma(lane a, lane b, lane c)
{
    return vfmaq_f32(c, a, b);
}

TRANSFORM_INLINE lane lane_fnma(lane a, lane b, lane c)
{
    return vfmsq_f32(c, a, b);
}

TRANSFORM_INLINE lane lane_fms(lane a, lane b, lane c)
{
    return vfmaq_f32(vnegq_f32(c), a, b);
}

TRANSFORM_INLINE lane lane_larger(lane m, lane x)
{
    return vmaxq_f32(vabsq_f32(x), m);
}

TRANSFORM_INLINE float lane_largest(lane m)
{
    return vmaxvq_f32(m);
}

TRANSFORM_INLINE lane lane_reverse(lane x)
{
    lane pairs = vrev64q_f32(x);
    return vextq_f32(pairs, pairs, 2);
}

TRANSFORM_INLINE void lane_split(const float *from, lane *even, lane *odd)
{
    float32x4x2_t both = vld2q_f32(from);
    *even = both.val[0];
    *odd = both.val[1];
}

TRANSFORM_INLINE void lane_join(lane even, lane odd, float *to)
{
    vst2q_f32(to, (float32x4x2_t){{even, odd}});
}

TRANSFORM_INLINE lane lane_gather(const float *from, const int32_t *offsets)
{
    float numbers[LANES] = {from[offsets[0]], from[offsets[1]], from[offsets[2]], from[offsets[3]]};
    return vld1q_f32(numbers);
}

TRANSFORM_INLINE void lane_tile(const float *from, const int32_t *offsets, lane *x)
{
    float32x4x2_t ab = vtrnq_f32(vld1q_f32(from + offsets[0]), vld1q_f32(from + offsets[1]));
    float32x4x2_t pq = vtrnq_f32(vld1q_f32(from + offsets[2]), vld1q_f32(from + offsets[3]));
    x[0] = vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(pq.val[0]));
    x[1] = vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(pq.val[1]));
    x[2] = vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(pq.val[0]));
    x[3] = vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(pq.val[1]));
}

#endif
