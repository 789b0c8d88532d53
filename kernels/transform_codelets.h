/* transform_codelets: the transforms of 2 to 32 points that a thread or a lane does in registers.
 * Owner:  nobody; included below a `lane` type, by each CPU variant and by CUDA.
 * Thread: any; no state.
 * Errors: none.
 *
 * The includer defines TRANSFORM_INLINE, the type lane, and, each of them one rounding,
 *     lane_set(float)                    lane_add(a, b), lane_subtract(a, b), lane_multiply(a, b)
 *     lane_fma(a, b, c)                  a b + c
 *     lane_fnma(a, b, c)                 c - a b
 * x and y never overlap: y[k] = sum over n of x[n] exp(-2 pi i k n / r).
 *
 * r = p q is p points of q columns, turned, and q points of p rows: n = q n1 + n2, k = k1 + p k2. A
 * turn by exp(-2 pi i e / r) is left out where it is 1; by -1 and -i it moves and negates; by odd
 * multiples of an eighth it is two sums and two products by the root of 1/2; else it is the product
 * of transform.h. */
#ifndef ENGRAM_KERNELS_TRANSFORM_CODELETS_H
#define ENGRAM_KERNELS_TRANSFORM_CODELETS_H

struct transform_point {
    lane re, im;
};

#define TRANSFORM_HALF_ROOT 0x1.6a09e6p-1f /* the root of 1/2 */

TRANSFORM_INLINE struct transform_point point_add(struct transform_point a,
                                                  struct transform_point b)
{
    return (struct transform_point){lane_add(a.re, b.re), lane_add(a.im, b.im)};
}

TRANSFORM_INLINE struct transform_point point_subtract(struct transform_point a,
                                                       struct transform_point b)
{
    return (struct transform_point){lane_subtract(a.re, b.re), lane_subtract(a.im, b.im)};
}

/* a + b f */
TRANSFORM_INLINE struct transform_point point_fma(struct transform_point a,
                                                  struct transform_point b, float f)
{
    lane factor = lane_set(f);
    return (struct transform_point){lane_fma(b.re, factor, a.re), lane_fma(b.im, factor, a.im)};
}

/* a - b f */
TRANSFORM_INLINE struct transform_point point_fnma(struct transform_point a,
                                                   struct transform_point b, float f)
{
    lane factor = lane_set(f);
    return (struct transform_point){lane_fnma(b.re, factor, a.re), lane_fnma(b.im, factor, a.im)};
}

/* a - i b and a + i b */
TRANSFORM_INLINE struct transform_point point_add_right(struct transform_point a,
                                                        struct transform_point b)
{
    return (struct transform_point){lane_add(a.re, b.im), lane_subtract(a.im, b.re)};
}

TRANSFORM_INLINE struct transform_point point_add_left(struct transform_point a,
                                                       struct transform_point b)
{
    return (struct transform_point){lane_subtract(a.re, b.im), lane_add(a.im, b.re)};
}

/* The product with the root (cosine, sine) of transform.h. */
TRANSFORM_INLINE struct transform_point point_turn_lanes(struct transform_point a, lane cosine,
                                                         lane sine)
{
    return (struct transform_point){lane_fma(a.re, cosine, lane_multiply(a.im, sine)),
                                    lane_fnma(a.re, sine, lane_multiply(a.im, cosine))};
}

TRANSFORM_INLINE struct transform_point point_turn(struct transform_point a, float cosine,
                                                   float sine)
{
    return point_turn_lanes(a, lane_set(cosine), lane_set(sine));
}

/* Turns by an eighth, a quarter, three eighths and a half. */
TRANSFORM_INLINE struct transform_point point_eighth(struct transform_point a)
{
    lane factor = lane_set(TRANSFORM_HALF_ROOT);
    return (struct transform_point){lane_multiply(lane_add(a.re, a.im), factor),
                                    lane_multiply(lane_subtract(a.im, a.re), factor)};
}

TRANSFORM_INLINE struct transform_point point_quarter(struct transform_point a)
{
    return (struct transform_point){a.im, lane_subtract(lane_set(0.0f), a.re)};
}

TRANSFORM_INLINE struct transform_point point_three_eighths(struct transform_point a)
{
    lane factor = lane_set(TRANSFORM_HALF_ROOT), back = lane_set(-TRANSFORM_HALF_ROOT);
    return (struct transform_point){lane_multiply(lane_subtract(a.im, a.re), factor),
                                    lane_multiply(lane_add(a.re, a.im), back)};
}

TRANSFORM_INLINE struct transform_point point_half(struct transform_point a)
{
    lane zero = lane_set(0.0f);
    return (struct transform_point){lane_subtract(zero, a.re), lane_subtract(zero, a.im)};
}

/* ---- primes, 4 and 8. Codelets read x[0], x[step], x[2 step] ..., and write y likewise. */

TRANSFORM_INLINE void codelet_2(const struct transform_point *x, int from,
                                struct transform_point *y, int to)
{
    y[0] = point_add(x[0], x[from]);
    y[to] = point_subtract(x[0], x[from]);
}

TRANSFORM_INLINE void codelet_3(const struct transform_point *x, int from,
                                struct transform_point *y, int to)
{
    struct transform_point sum = point_add(x[from], x[2 * from]);
    struct transform_point side = point_subtract(x[from], x[2 * from]);
    struct transform_point middle = point_fnma(x[0], sum, 0.5f);
    lane height = lane_set(0x1.bb67aep-1f);
    y[0] = point_add(x[0], sum);
    y[to].re = lane_fma(side.im, height, middle.re);
    y[to].im = lane_fnma(side.re, height, middle.im);
    y[2 * to].re = lane_fnma(side.im, height, middle.re);
    y[2 * to].im = lane_fma(side.re, height, middle.im);
}

TRANSFORM_INLINE void codelet_4(const struct transform_point *x, int from,
                                struct transform_point *y, int to)
{
    struct transform_point a = point_add(x[0], x[2 * from]);
    struct transform_point b = point_subtract(x[0], x[2 * from]);
    struct transform_point c = point_add(x[from], x[3 * from]);
    struct transform_point d = point_subtract(x[from], x[3 * from]);
    y[0] = point_add(a, c);
    y[to] = point_add_right(b, d);
    y[2 * to] = point_subtract(a, c);
    y[3 * to] = point_add_left(b, d);
}

TRANSFORM_INLINE struct transform_point point_scale(struct transform_point a, float f)
{
    lane factor = lane_set(f);
    return (struct transform_point){lane_multiply(a.re, factor), lane_multiply(a.im, factor)};
}

/* Sums and differences of x[i] and x[5 - i]; then each row from left to right. */
TRANSFORM_INLINE void codelet_5(const struct transform_point *x, int from,
                                struct transform_point *y, int to)
{
    struct transform_point sum1 = point_add(x[1 * from], x[4 * from]);
    struct transform_point side1 = point_subtract(x[1 * from], x[4 * from]);
    struct transform_point sum2 = point_add(x[2 * from], x[3 * from]);
    struct transform_point side2 = point_subtract(x[2 * from], x[3 * from]);
    y[0] = point_add(point_add(x[0], sum1), sum2);
    struct transform_point middle1 =
        point_fma(point_fma(x[0], sum1, 0x1.3c6ef4p-2f), sum2, -0x1.9e377ap-1f);
    struct transform_point tilt1 =
        point_fma(point_scale(side1, 0x1.e6f0e2p-1f), side2, 0x1.2cf23p-1f);
    y[1 * to] = point_add_right(middle1, tilt1);
    y[4 * to] = point_add_left(middle1, tilt1);
    struct transform_point middle2 =
        point_fma(point_fma(x[0], sum1, -0x1.9e377ap-1f), sum2, 0x1.3c6ef4p-2f);
    struct transform_point tilt2 =
        point_fma(point_scale(side1, 0x1.2cf23p-1f), side2, -0x1.e6f0e2p-1f);
    y[2 * to] = point_add_right(middle2, tilt2);
    y[3 * to] = point_add_left(middle2, tilt2);
}

/* Sums and differences of x[i] and x[7 - i]; then each row from left to right. */
TRANSFORM_INLINE void codelet_7(const struct transform_point *x, int from,
                                struct transform_point *y, int to)
{
    struct transform_point sum1 = point_add(x[1 * from], x[6 * from]);
    struct transform_point side1 = point_subtract(x[1 * from], x[6 * from]);
    struct transform_point sum2 = point_add(x[2 * from], x[5 * from]);
    struct transform_point side2 = point_subtract(x[2 * from], x[5 * from]);
    struct transform_point sum3 = point_add(x[3 * from], x[4 * from]);
    struct transform_point side3 = point_subtract(x[3 * from], x[4 * from]);
    y[0] = point_add(point_add(point_add(x[0], sum1), sum2), sum3);
    struct transform_point middle1 =
        point_fma(point_fma(point_fma(x[0], sum1, 0x1.3f3a0ep-1f), sum2, -0x1.c7b90ep-3f), sum3,
                  -0x1.cd4bcap-1f);
    struct transform_point tilt1 = point_fma(
        point_fma(point_scale(side1, 0x1.904c38p-1f), side2, 0x1.f329cp-1f), side3, 0x1.bc4c04p-2f);
    y[1 * to] = point_add_right(middle1, tilt1);
    y[6 * to] = point_add_left(middle1, tilt1);
    struct transform_point middle2 =
        point_fma(point_fma(point_fma(x[0], sum1, -0x1.c7b90ep-3f), sum2, -0x1.cd4bcap-1f), sum3,
                  0x1.3f3a0ep-1f);
    struct transform_point tilt2 =
        point_fma(point_fma(point_scale(side1, 0x1.f329cp-1f), side2, -0x1.bc4c04p-2f), side3,
                  -0x1.904c38p-1f);
    y[2 * to] = point_add_right(middle2, tilt2);
    y[5 * to] = point_add_left(middle2, tilt2);
    struct transform_point middle3 =
        point_fma(point_fma(point_fma(x[0], sum1, -0x1.cd4bcap-1f), sum2, 0x1.3f3a0ep-1f), sum3,
                  -0x1.c7b90ep-3f);
    struct transform_point tilt3 =
        point_fma(point_fma(point_scale(side1, 0x1.bc4c04p-2f), side2, -0x1.904c38p-1f), side3,
                  0x1.f329cp-1f);
    y[3 * to] = point_add_right(middle3, tilt3);
    y[4 * to] = point_add_left(middle3, tilt3);
}

/* Two halves; the turns by an eighth meet in a and b before their root of 1/2 is a factor of
 * the last sums. */
TRANSFORM_INLINE void codelet_8(const struct transform_point *x, int from,
                                struct transform_point *y, int to)
{
    struct transform_point even[4] = {point_add(x[0], x[4 * from]), point_add(x[from], x[5 * from]),
                                      point_add(x[2 * from], x[6 * from]),
                                      point_add(x[3 * from], x[7 * from])};
    struct transform_point p = point_subtract(x[0], x[4 * from]);
    struct transform_point q = point_subtract(x[from], x[5 * from]);
    struct transform_point r = point_subtract(x[2 * from], x[6 * from]);
    struct transform_point s = point_subtract(x[3 * from], x[7 * from]);
    codelet_4(even, 1, y, 2 * to);
    struct transform_point u = {lane_add(q.re, q.im), lane_subtract(q.im, q.re)};
    struct transform_point v = {lane_subtract(s.im, s.re),
                                lane_add(s.re, s.im)}; /* its im is -v.im */
    struct transform_point a = {lane_add(u.re, v.re), lane_subtract(u.im, v.im)};
    struct transform_point b = {lane_subtract(u.re, v.re), lane_add(u.im, v.im)};
    struct transform_point right = point_add_right(p, r), left = point_add_left(p, r);
    y[to] = point_fma(right, a, TRANSFORM_HALF_ROOT);
    y[5 * to] = point_fnma(right, a, TRANSFORM_HALF_ROOT);
    lane factor = lane_set(TRANSFORM_HALF_ROOT);
    y[3 * to].re = lane_fma(b.im, factor, left.re);
    y[3 * to].im = lane_fnma(b.re, factor, left.im);
    y[7 * to].re = lane_fnma(b.im, factor, left.re);
    y[7 * to].im = lane_fma(b.re, factor, left.im);
}

/* ---- products of two: columns, turns, rows */

/* 3 x 3 */
TRANSFORM_INLINE void codelet_9(const struct transform_point *x, int from,
                                struct transform_point *y, int to)
{
    struct transform_point z[9];
    codelet_3(x + 0 * from, 3 * from, z + 0, 3);
    codelet_3(x + 1 * from, 3 * from, z + 1, 3);
    codelet_3(x + 2 * from, 3 * from, z + 2, 3);
    z[4] = point_turn(z[4], 0x1.8836fap-1f, 0x1.491b76p-1f);
    z[5] = point_turn(z[5], 0x1.63a1a8p-3f, 0x1.f838b8p-1f);
    z[7] = point_turn(z[7], 0x1.63a1a8p-3f, 0x1.f838b8p-1f);
    z[8] = point_turn(z[8], -0x1.e11f64p-1f, 0x1.5e3a88p-2f);
    codelet_3(z + 0, 1, y + 0 * to, 3 * to);
    codelet_3(z + 3, 1, y + 1 * to, 3 * to);
    codelet_3(z + 6, 1, y + 2 * to, 3 * to);
}

/* 4 x 4 */
TRANSFORM_INLINE void codelet_16(const struct transform_point *x, int from,
                                 struct transform_point *y, int to)
{
    struct transform_point z[16];
    codelet_4(x + 0 * from, 4 * from, z + 0, 4);
    codelet_4(x + 1 * from, 4 * from, z + 1, 4);
    codelet_4(x + 2 * from, 4 * from, z + 2, 4);
    codelet_4(x + 3 * from, 4 * from, z + 3, 4);
    z[5] = point_turn(z[5], 0x1.d906bcp-1f, 0x1.87de2ap-2f);
    z[6] = point_eighth(z[6]);
    z[7] = point_turn(z[7], 0x1.87de2ap-2f, 0x1.d906bcp-1f);
    z[9] = point_eighth(z[9]);
    z[10] = point_quarter(z[10]);
    z[11] = point_three_eighths(z[11]);
    z[13] = point_turn(z[13], 0x1.87de2ap-2f, 0x1.d906bcp-1f);
    z[14] = point_three_eighths(z[14]);
    z[15] = point_turn(z[15], -0x1.d906bcp-1f, -0x1.87de2ap-2f);
    codelet_4(z + 0, 1, y + 0 * to, 4 * to);
    codelet_4(z + 4, 1, y + 1 * to, 4 * to);
    codelet_4(z + 8, 1, y + 2 * to, 4 * to);
    codelet_4(z + 12, 1, y + 3 * to, 4 * to);
}

/* 4 x 5 */
TRANSFORM_INLINE void codelet_20(const struct transform_point *x, int from,
                                 struct transform_point *y, int to)
{
    struct transform_point z[20];
    codelet_4(x + 0 * from, 5 * from, z + 0, 5);
    codelet_4(x + 1 * from, 5 * from, z + 1, 5);
    codelet_4(x + 2 * from, 5 * from, z + 2, 5);
    codelet_4(x + 3 * from, 5 * from, z + 3, 5);
    codelet_4(x + 4 * from, 5 * from, z + 4, 5);
    z[6] = point_turn(z[6], 0x1.e6f0e2p-1f, 0x1.3c6ef4p-2f);
    z[7] = point_turn(z[7], 0x1.9e377ap-1f, 0x1.2cf23p-1f);
    z[8] = point_turn(z[8], 0x1.2cf23p-1f, 0x1.9e377ap-1f);
    z[9] = point_turn(z[9], 0x1.3c6ef4p-2f, 0x1.e6f0e2p-1f);
    z[11] = point_turn(z[11], 0x1.9e377ap-1f, 0x1.2cf23p-1f);
    z[12] = point_turn(z[12], 0x1.3c6ef4p-2f, 0x1.e6f0e2p-1f);
    z[13] = point_turn(z[13], -0x1.3c6ef4p-2f, 0x1.e6f0e2p-1f);
    z[14] = point_turn(z[14], -0x1.9e377ap-1f, 0x1.2cf23p-1f);
    z[16] = point_turn(z[16], 0x1.2cf23p-1f, 0x1.9e377ap-1f);
    z[17] = point_turn(z[17], -0x1.3c6ef4p-2f, 0x1.e6f0e2p-1f);
    z[18] = point_turn(z[18], -0x1.e6f0e2p-1f, 0x1.3c6ef4p-2f);
    z[19] = point_turn(z[19], -0x1.9e377ap-1f, -0x1.2cf23p-1f);
    codelet_5(z + 0, 1, y + 0 * to, 4 * to);
    codelet_5(z + 5, 1, y + 1 * to, 4 * to);
    codelet_5(z + 10, 1, y + 2 * to, 4 * to);
    codelet_5(z + 15, 1, y + 3 * to, 4 * to);
}

/* 3 x 8 */
TRANSFORM_INLINE void codelet_24(const struct transform_point *x, int from,
                                 struct transform_point *y, int to)
{
    struct transform_point z[24];
    codelet_3(x + 0 * from, 8 * from, z + 0, 8);
    codelet_3(x + 1 * from, 8 * from, z + 1, 8);
    codelet_3(x + 2 * from, 8 * from, z + 2, 8);
    codelet_3(x + 3 * from, 8 * from, z + 3, 8);
    codelet_3(x + 4 * from, 8 * from, z + 4, 8);
    codelet_3(x + 5 * from, 8 * from, z + 5, 8);
    codelet_3(x + 6 * from, 8 * from, z + 6, 8);
    codelet_3(x + 7 * from, 8 * from, z + 7, 8);
    z[9] = point_turn(z[9], 0x1.ee8dd4p-1f, 0x1.0907dcp-2f);
    z[10] = point_turn(z[10], 0x1.bb67aep-1f, 0x1p-1f);
    z[11] = point_eighth(z[11]);
    z[12] = point_turn(z[12], 0x1p-1f, 0x1.bb67aep-1f);
    z[13] = point_turn(z[13], 0x1.0907dcp-2f, 0x1.ee8dd4p-1f);
    z[14] = point_quarter(z[14]);
    z[15] = point_turn(z[15], -0x1.0907dcp-2f, 0x1.ee8dd4p-1f);
    z[17] = point_turn(z[17], 0x1.bb67aep-1f, 0x1p-1f);
    z[18] = point_turn(z[18], 0x1p-1f, 0x1.bb67aep-1f);
    z[19] = point_quarter(z[19]);
    z[20] = point_turn(z[20], -0x1p-1f, 0x1.bb67aep-1f);
    z[21] = point_turn(z[21], -0x1.bb67aep-1f, 0x1p-1f);
    z[22] = point_half(z[22]);
    z[23] = point_turn(z[23], -0x1.bb67aep-1f, -0x1p-1f);
    codelet_8(z + 0, 1, y + 0 * to, 3 * to);
    codelet_8(z + 8, 1, y + 1 * to, 3 * to);
    codelet_8(z + 16, 1, y + 2 * to, 3 * to);
}

/* 5 x 5 */
TRANSFORM_INLINE void codelet_25(const struct transform_point *x, int from,
                                 struct transform_point *y, int to)
{
    struct transform_point z[25];
    codelet_5(x + 0 * from, 5 * from, z + 0, 5);
    codelet_5(x + 1 * from, 5 * from, z + 1, 5);
    codelet_5(x + 2 * from, 5 * from, z + 2, 5);
    codelet_5(x + 3 * from, 5 * from, z + 3, 5);
    codelet_5(x + 4 * from, 5 * from, z + 4, 5);
    z[6] = point_turn(z[6], 0x1.efea22p-1f, 0x1.fd512p-3f);
    z[7] = point_turn(z[7], 0x1.c0ab44p-1f, 0x1.ed50d6p-2f);
    z[8] = point_turn(z[8], 0x1.753b6p-1f, 0x1.5e7cf6p-1f);
    z[9] = point_turn(z[9], 0x1.1257e4p-1f, 0x1.b04bcp-1f);
    z[11] = point_turn(z[11], 0x1.c0ab44p-1f, 0x1.ed50d6p-2f);
    z[12] = point_turn(z[12], 0x1.1257e4p-1f, 0x1.b04bcp-1f);
    z[13] = point_turn(z[13], 0x1.0130a2p-4f, 0x1.fefd5cp-1f);
    z[14] = point_turn(z[14], -0x1.b3ff7cp-2f, 0x1.cf457ep-1f);
    z[16] = point_turn(z[16], 0x1.753b6p-1f, 0x1.5e7cf6p-1f);
    z[17] = point_turn(z[17], 0x1.0130a2p-4f, 0x1.fefd5cp-1f);
    z[18] = point_turn(z[18], -0x1.465c7p-1f, 0x1.8a80b6p-1f);
    z[19] = point_turn(z[19], -0x1.fbf676p-1f, 0x1.00aeb6p-3f);
    z[21] = point_turn(z[21], 0x1.1257e4p-1f, 0x1.b04bcp-1f);
    z[22] = point_turn(z[22], -0x1.b3ff7cp-2f, 0x1.cf457ep-1f);
    z[23] = point_turn(z[23], -0x1.fbf676p-1f, 0x1.00aeb6p-3f);
    z[24] = point_turn(z[24], -0x1.465c7p-1f, -0x1.8a80b6p-1f);
    codelet_5(z + 0, 1, y + 0 * to, 5 * to);
    codelet_5(z + 5, 1, y + 1 * to, 5 * to);
    codelet_5(z + 10, 1, y + 2 * to, 5 * to);
    codelet_5(z + 15, 1, y + 3 * to, 5 * to);
    codelet_5(z + 20, 1, y + 4 * to, 5 * to);
}

/* 4 x 8 */
TRANSFORM_INLINE void codelet_32(const struct transform_point *x, int from,
                                 struct transform_point *y, int to)
{
    struct transform_point z[32];
    codelet_4(x + 0 * from, 8 * from, z + 0, 8);
    codelet_4(x + 1 * from, 8 * from, z + 1, 8);
    codelet_4(x + 2 * from, 8 * from, z + 2, 8);
    codelet_4(x + 3 * from, 8 * from, z + 3, 8);
    codelet_4(x + 4 * from, 8 * from, z + 4, 8);
    codelet_4(x + 5 * from, 8 * from, z + 5, 8);
    codelet_4(x + 6 * from, 8 * from, z + 6, 8);
    codelet_4(x + 7 * from, 8 * from, z + 7, 8);
    z[9] = point_turn(z[9], 0x1.f6297cp-1f, 0x1.8f8b84p-3f);
    z[10] = point_turn(z[10], 0x1.d906bcp-1f, 0x1.87de2ap-2f);
    z[11] = point_turn(z[11], 0x1.a9b662p-1f, 0x1.1c73b4p-1f);
    z[12] = point_eighth(z[12]);
    z[13] = point_turn(z[13], 0x1.1c73b4p-1f, 0x1.a9b662p-1f);
    z[14] = point_turn(z[14], 0x1.87de2ap-2f, 0x1.d906bcp-1f);
    z[15] = point_turn(z[15], 0x1.8f8b84p-3f, 0x1.f6297cp-1f);
    z[17] = point_turn(z[17], 0x1.d906bcp-1f, 0x1.87de2ap-2f);
    z[18] = point_eighth(z[18]);
    z[19] = point_turn(z[19], 0x1.87de2ap-2f, 0x1.d906bcp-1f);
    z[20] = point_quarter(z[20]);
    z[21] = point_turn(z[21], -0x1.87de2ap-2f, 0x1.d906bcp-1f);
    z[22] = point_three_eighths(z[22]);
    z[23] = point_turn(z[23], -0x1.d906bcp-1f, 0x1.87de2ap-2f);
    z[25] = point_turn(z[25], 0x1.a9b662p-1f, 0x1.1c73b4p-1f);
    z[26] = point_turn(z[26], 0x1.87de2ap-2f, 0x1.d906bcp-1f);
    z[27] = point_turn(z[27], -0x1.8f8b84p-3f, 0x1.f6297cp-1f);
    z[28] = point_three_eighths(z[28]);
    z[29] = point_turn(z[29], -0x1.f6297cp-1f, 0x1.8f8b84p-3f);
    z[30] = point_turn(z[30], -0x1.d906bcp-1f, -0x1.87de2ap-2f);
    z[31] = point_turn(z[31], -0x1.1c73b4p-1f, -0x1.a9b662p-1f);
    codelet_8(z + 0, 1, y + 0 * to, 4 * to);
    codelet_8(z + 8, 1, y + 1 * to, 4 * to);
    codelet_8(z + 16, 1, y + 2 * to, 4 * to);
    codelet_8(z + 24, 1, y + 3 * to, 4 * to);
}

/* The codelet of a radix, which is a constant wherever this is called. */
TRANSFORM_INLINE void codelet(uint32_t radix, const struct transform_point *x,
                              struct transform_point *y)
{
    switch (radix) {
    case 2: codelet_2(x, 1, y, 1); break;
    case 3: codelet_3(x, 1, y, 1); break;
    case 4: codelet_4(x, 1, y, 1); break;
    case 5: codelet_5(x, 1, y, 1); break;
    case 7: codelet_7(x, 1, y, 1); break;
    case 8: codelet_8(x, 1, y, 1); break;
    case 9: codelet_9(x, 1, y, 1); break;
    case 16: codelet_16(x, 1, y, 1); break;
    case 20: codelet_20(x, 1, y, 1); break;
    case 24: codelet_24(x, 1, y, 1); break;
    case 25: codelet_25(x, 1, y, 1); break;
    default: codelet_32(x, 1, y, 1); break; /* 32: plans have no other radix */
    }
}

#endif
