/* hrr_lines: scale, product, quotient and result of hrr.h for one point or one block of lanes, a
 * text that C and CUDA share.
 * Owner:  nobody; included below transform_codelets.h, where lane_fms(a, b, c) = a b - c and
 *         lane_divide are defined as well.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_HRR_LINES_H
#define ENGRAM_KERNELS_HRR_LINES_H

#include <stdint.h>
#include <string.h>

/* ---- scale */

TRANSFORM_INLINE float power_of_two(int exponent)
{
    uint32_t bits = exponent >= -126 ? (uint32_t)(exponent + 127) << 23 : 1u << (exponent + 149);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* E of the largest magnitude. */
TRANSFORM_INLINE int exponent_of(float largest)
{
    uint32_t bits;
    memcpy(&bits, &largest, sizeof bits);
    int exponent = (int)(bits >> 23 & 0xff) - 127;
    return exponent < -126 ? -126 : exponent > 126 ? 126 : exponent;
}

/* ---- product */

struct product_pair {
    struct transform_point low, high; /* X[k], X[j] */
};

/* (a.re b.re) - (a.im b.im), the second rounded first. */
TRANSFORM_INLINE lane real_product(struct transform_point a, struct transform_point b)
{
    return lane_fms(a.re, b.re, lane_multiply(a.im, b.im));
}

/* Both products of the imaginary part rounded, so that a and b can change places. */
TRANSFORM_INLINE lane even_imaginary(struct transform_point a, struct transform_point b)
{
    return lane_add(lane_multiply(a.re, b.im), lane_multiply(a.im, b.re));
}

TRANSFORM_INLINE struct product_pair product_of(struct transform_point yk,
                                                struct transform_point yj,
                                                struct transform_point zk,
                                                struct transform_point zj, lane cosine, lane sine)
{
    struct transform_point p = {lane_add(yk.re, yj.re), lane_subtract(yk.im, yj.im)};
    struct transform_point q = {lane_add(yk.im, yj.im), lane_subtract(yj.re, yk.re)};
    struct transform_point r = {lane_add(zk.re, zj.re), lane_subtract(zk.im, zj.im)};
    struct transform_point t = {lane_add(zk.im, zj.im), lane_subtract(zj.re, zk.re)};
    struct transform_point u = {real_product(q, t), even_imaginary(q, t)};
    struct transform_point e = {
        lane_fma(u.re, cosine, lane_fma(u.im, sine, real_product(p, r))),
        lane_fma(u.im, cosine, lane_fnma(u.re, sine, even_imaginary(p, r))),
    };
    struct transform_point o = {
        lane_add(real_product(p, t), real_product(q, r)),
        lane_add(lane_fma(p.re, t.im, lane_multiply(p.im, t.re)),
                 lane_fma(r.re, q.im, lane_multiply(r.im, q.re))),
    };
    return (struct product_pair){
        {lane_subtract(e.re, o.im), lane_add(e.im, o.re)},
        {lane_add(e.re, o.im), lane_subtract(o.re, e.im)},
    };
}

/* ---- quotient */

/* A spectrum of length d, twice: at k and at k + M. */
struct exact_values {
    struct transform_point here, there;
};

TRANSFORM_INLINE struct exact_values exact_values(struct transform_point zk,
                                                  struct transform_point zj, lane cosine, lane sine)
{
    struct transform_point even = {lane_add(zk.re, zj.re), lane_subtract(zk.im, zj.im)};
    struct transform_point odd = {lane_add(zk.im, zj.im), lane_subtract(zj.re, zk.re)};
    struct transform_point turned = point_turn_lanes(odd, cosine, sine);
    return (struct exact_values){point_add(even, turned), point_subtract(even, turned)};
}

TRANSFORM_INLINE lane power_of(struct transform_point b)
{
    return lane_fma(b.re, b.re, lane_multiply(b.im, b.im));
}

TRANSFORM_INLINE struct transform_point quotient_of(struct transform_point c,
                                                    struct transform_point b)
{
    lane power = power_of(b);
    lane re = lane_fma(c.re, b.re, lane_multiply(c.im, b.im));
    lane im = lane_fms(c.im, b.re, lane_multiply(c.re, b.im));
    return (struct transform_point){lane_divide(re, power), lane_divide(im, power)};
}

/* X[k], and the powers P at k and k + M. */
struct exact_point {
    struct transform_point x;
    lane here, there;
};

TRANSFORM_INLINE struct exact_point exact_of(struct transform_point yk, struct transform_point yj,
                                             struct transform_point zk, struct transform_point zj,
                                             lane cosine, lane sine)
{
    struct exact_values c = exact_values(yk, yj, cosine, sine);
    struct exact_values b = exact_values(zk, zj, cosine, sine);
    struct transform_point here = quotient_of(c.here, b.here);
    struct transform_point there = quotient_of(c.there, b.there);
    struct transform_point e = point_add(here, there), h = point_subtract(here, there);
    struct transform_point o = {lane_fms(h.re, cosine, lane_multiply(h.im, sine)),
                                lane_fma(h.im, cosine, lane_multiply(h.re, sine))};
    return (struct exact_point){point_add_left(e, o), power_of(b.here), power_of(b.there)};
}

/* ---- result */

/* How the last line of hrr.h is written: (y before) factor. */
struct hrr_scaling {
    float before, factor;
};

TRANSFORM_INLINE struct hrr_scaling scaling_of(float f, int q)
{
    int whole = q < -252 ? -252 : q > 252 ? 252 : q;
    int inner = whole < -126 ? -126 : whole > 126 ? 126 : whole;
    return (struct hrr_scaling){power_of_two(whole - inner), f * power_of_two(inner)};
}

TRANSFORM_INLINE lane scaled(lane y, lane before, lane factor)
{
    return lane_fma(lane_multiply(y, before), factor, lane_set(0.0f));
}

#endif
