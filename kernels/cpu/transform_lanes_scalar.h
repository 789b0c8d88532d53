/* transform_lanes_scalar: lanes of one number, for the reference.
 * Owner:  hrr_scalar.c; everything is static inline.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_TRANSFORM_LANES_SCALAR_H
#define ENGRAM_KERNELS_CPU_TRANSFORM_LANES_SCALAR_H

#include "kernels/cpu/transform_inline.h"

#include <math.h>

typedef float lane;
enum { LANES = 1 };

TRANSFORM_INLINE lane lane_set(float x)
{
    return x;
}

TRANSFORM_INLINE lane lane_load(const float *from)
{
    return *from;
}

TRANSFORM_INLINE void lane_store(float *to, lane x)
{
    *to = x;
}

/* The first count lanes alone. */
TRANSFORM_INLINE void lane_store_part(float *to, lane x, size_t count)
{
    if (count > 0) *to = x;
}

TRANSFORM_INLINE lane lane_add(lane a, lane b)
{
    return a + b;
}

TRANSFORM_INLINE lane lane_subtract(lane a, lane b)
{
    return a - b;
}

TRANSFORM_INLINE lane lane_multiply(lane a, lane b)
{
    return a * b;
}

TRANSFORM_INLINE lane lane_divide(lane a, lane b)
{
    return a / b;
}

/* a b + c */
TRANSFORM_INLINE lane lane_fma(lane a, lane b, lane c)
{
    return fmaf(a, b, c);
}

/* c - a b */
TRANSFORM_INLINE lane lane_fnma(lane a, lane b, lane c)
{
    return fmaf(-a, b, c);
}

/* a b - c */
TRANSFORM_INLINE lane lane_fms(lane a, lane b, lane c)
{
    return fmaf(a, b, -c);
}

/* The larger of m and |x|. */
TRANSFORM_INLINE lane lane_larger(lane m, lane x)
{
    float size = fabsf(x);
    return size > m ? size : m;
}

TRANSFORM_INLINE float lane_largest(lane m)
{
    return m;
}

/* Last lane first. */
TRANSFORM_INLINE lane lane_reverse(lane x)
{
    return x;
}

/* Elements 0, 2, 4, ... and 1, 3, 5, ... of 2 LANES numbers, and back. */
TRANSFORM_INLINE void lane_split(const float *from, lane *even, lane *odd)
{
    *even = from[0];
    *odd = from[1];
}

TRANSFORM_INLINE void lane_join(lane even, lane odd, float *to)
{
    to[0] = even;
    to[1] = odd;
}

/* from[offsets[l]] in lane l. */
TRANSFORM_INLINE lane lane_gather(const float *from, const int32_t *offsets)
{
    return from[offsets[0]];
}

/* x[i] has from[offsets[l] + i] in lane l, for i < LANES. */
TRANSFORM_INLINE void lane_tile(const float *from, const int32_t *offsets, lane *x)
{
    x[0] = from[offsets[0]];
}

#endif
