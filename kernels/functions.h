/* functions: e^x, the natural logarithm, sine and cosine of binary32 numbers, bit for bit.
 * Owner:  the process; one table a variant, const, chosen once (functions_choose). The functions
 *         named canonical_ are the definition, included by C and by CUDA; a table's are loops of
 *         them, so that every variant has their bits.
 * Thread: any; no state, no allocation.
 * Errors: none; every input has a result.
 *
 * Each result is within 1 unit in the last place of the exact value for every finite input. The
 * largest errors over all 2^32 of them (tests/kernels/test_functions.c): 0.60 for e^x, 0.76 where
 * it is subnormal, 0.62 for the logarithm, 0.73 for sine and cosine. Every operation is one of
 * IEEE-754 binary32, rounded to nearest even, or of integers; there are no branches, so that loops
 * of them vectorise. What is not a number, in or out, is the quiet NaN 0x7fc00000.
 *
 *                e^x             logarithm    sine    cosine
 *   NaN          NaN             NaN          NaN     NaN
 *   +infinity    +infinity       +infinity    NaN     NaN
 *   -infinity    +0              NaN          NaN     NaN
 *   +0           1               -infinity    +0      1
 *   -0           1               -infinity    -0      1
 *   x < 0                        NaN
 *
 * e^x is +infinity above 0x1.62e42ep+6, subnormal below -0x1.5d589ep+6 and +0 from -104 on.
 *
 * Methods. Arguments are reduced as in Cody and Waite, "Software manual for the elementary
 * functions" (1980), by constants in two parts; the large ones of sine and cosine as in Payne and
 * Hanek, "Radian reduction for trigonometric functions" (1983). Sums whose rounding would show are
 * Dekker's (1971): s = a + b with |a| >= |b| or a = 0, and (a - s) + b, its exact error. The
 * polynomials are minimax, their coefficients rounded one after the other from the lowest, the
 * others fitted again each time; beside each is its largest error relative to the function. */
#ifndef ENGRAM_KERNELS_FUNCTIONS_H
#define ENGRAM_KERNELS_FUNCTIONS_H

#include "kernels/canonical.h"

#include <string.h>

CANONICAL_INLINE uint32_t canonical_bits(float value)
{
#if defined(__CUDA_ARCH__)
    return __float_as_uint(value);
#else
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}

CANONICAL_INLINE float canonical_from_bits(uint32_t bits)
{
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
#endif
}

/* All ones or all zeros. */
CANONICAL_INLINE uint32_t canonical_mask(bool condition)
{
    return 0u - (uint32_t)condition;
}

CANONICAL_INLINE uint32_t canonical_either(uint32_t mask, uint32_t a, uint32_t b)
{
    return (a & mask) | (b & ~mask);
}

/* Returns value * 2^exponent, exponent in -252..254, as two products with powers of two: only the
 * second can round, and only to a subnormal number or to infinity. */
CANONICAL_INLINE float canonical_scale(float value, int32_t exponent)
{
    int32_t half = exponent >> 1;
    float first = canonical_from_bits((uint32_t)(127 + half) << 23);
    float second = canonical_from_bits((uint32_t)(127 + exponent - half) << 23);
    return canonical_multiply(canonical_multiply(value, first), second);
}

#define CANONICAL_NAN_BITS      0x7fc00000u
#define CANONICAL_INFINITY_BITS 0x7f800000u
#define CANONICAL_SIGN_BIT      0x80000000u
/* ln 2, of which the first part times an integer of 9 bits is exact. */
#define CANONICAL_LN2_HIGH 0x1.62e4p-1f
#define CANONICAL_LN2_LOW  0x1.7f7d1cp-20f
/* pi / 2 */
#define CANONICAL_QUARTER_HIGH 0x1.921fb6p+0f
#define CANONICAL_QUARTER_LOW  -0x1.777a5cp-25f

/* x = n ln 2 + (r + low), |r| <= ln 2 / 2; e^x = 2^n (1 + r + low e^r + r^2 P(r)). P's error:
 * 2^-30.7. */
CANONICAL_INLINE float canonical_exponential(float x)
{
    const float to_integer = 0x1.8p+23f; /* adding it rounds to an integer */
    uint32_t bits = canonical_bits(x), magnitude = bits & ~CANONICAL_SIGN_BIT;
    uint32_t sign = bits & CANONICAL_SIGN_BIT;
    uint32_t beyond = canonical_mask(magnitude > 0x42d00000u); /* 104 */
    float inside = canonical_from_bits(canonical_either(beyond, 0x42d00000u | sign, bits));

    float shifted = fmaf(inside, 0x1.715476p+0f, to_integer); /* 1 / ln 2 */
    int32_t exponent = (int32_t)(canonical_bits(shifted) - 0x4b400000u);
    float n = canonical_subtract(shifted, to_integer);
    float exact = fmaf(n, -CANONICAL_LN2_HIGH, inside); /* without rounding */
    float r = fmaf(n, -CANONICAL_LN2_LOW, exact);
    float low = fmaf(n, -CANONICAL_LN2_LOW, canonical_subtract(exact, r));

    float p = 0x1.6c1938p-13f;
    p = fmaf(p, r, 0x1.6d49f0p-10f);
    p = fmaf(p, r, 0x1.11374ap-7f);
    p = fmaf(p, r, 0x1.5554f2p-5f);
    p = fmaf(p, r, 0x1.55553cp-3f);
    p = fmaf(p, r, 0.5f);
    float sum = canonical_add(1.0f, r);
    float error = canonical_add(canonical_subtract(1.0f, sum), r);
    float tail = fmaf(canonical_multiply(r, r), p, fmaf(low, sum, error));
    uint32_t result = canonical_bits(canonical_scale(canonical_add(sum, tail), exponent));
    uint32_t nan = canonical_mask(magnitude > CANONICAL_INFINITY_BITS);
    return canonical_from_bits(canonical_either(nan, CANONICAL_NAN_BITS, result));
}

/* The logistic function, 1 / (1 + e^-x): three roundings, so not within 1 unit. */
CANONICAL_INLINE float canonical_logistic(float x)
{
    float result = canonical_divide(1.0f, canonical_add(1.0f, canonical_exponential(-x)));
    uint32_t magnitude = canonical_bits(x) & ~CANONICAL_SIGN_BIT;
    uint32_t nan = canonical_mask(magnitude > CANONICAL_INFINITY_BITS); /* a card has its own */
    return canonical_from_bits(canonical_either(nan, CANONICAL_NAN_BITS, canonical_bits(result)));
}

/* x = 2^n (1 + f), 1 + f in [1/sqrt 2, sqrt 2); log x = n ln 2 + f - f^2 / 2 + f^3 P(f). P's error:
 * 2^-30.3. */
CANONICAL_INLINE float canonical_logarithm(float x)
{
    uint32_t given = canonical_bits(x);
    uint32_t small = canonical_mask(given < 0x00800000u); /* subnormal: times 2^23 */
    uint32_t bits = canonical_either(small, canonical_bits(canonical_multiply(x, 0x1p+23f)), given);
    uint32_t above = bits - 0x3f3504f3u; /* 1 / sqrt 2 */
    int32_t exponent = ((int32_t)above >> 23) - (int32_t)(small & 23);
    float n = (float)exponent;
    float f = canonical_subtract(canonical_from_bits((above & 0x007fffffu) + 0x3f3504f3u), 1.0f);

    float p = 0x1.147338p-4f;
    p = fmaf(p, f, -0x1.de01dap-4f);
    p = fmaf(p, f, 0x1.e6c00ap-4f);
    p = fmaf(p, f, -0x1.fc28cap-4f);
    p = fmaf(p, f, 0x1.233ba2p-3f);
    p = fmaf(p, f, -0x1.555c44p-3f);
    p = fmaf(p, f, 0x1.99a476p-3f);
    p = fmaf(p, f, -0x1.000006p-2f);
    p = fmaf(p, f, 0x1.555548p-2f);
    float square = canonical_multiply(f, f);
    float half = canonical_multiply(0.5f, square);
    float half_error = canonical_multiply(0.5f, fmaf(f, f, -square));
    float part = canonical_subtract(f, half); /* f - f^2 / 2 */
    float part_error = canonical_subtract(canonical_subtract(f, part), half);
    float whole = canonical_multiply(n, CANONICAL_LN2_HIGH); /* without rounding */
    float sum = canonical_add(whole, part);
    float sum_error = canonical_add(canonical_subtract(whole, sum), part);
    float tail = fmaf(canonical_multiply(f, square), p, canonical_subtract(part_error, half_error));
    tail = fmaf(n, CANONICAL_LN2_LOW, tail);
    uint32_t result = canonical_bits(canonical_add(sum, canonical_add(sum_error, tail)));

    uint32_t infinite = canonical_mask(given == CANONICAL_INFINITY_BITS);
    uint32_t zero = canonical_mask((given & ~CANONICAL_SIGN_BIT) == 0);
    uint32_t nan = canonical_mask(given > CANONICAL_INFINITY_BITS);
    result = canonical_either(infinite, CANONICAL_INFINITY_BITS, result);
    result = canonical_either(nan, CANONICAL_NAN_BITS, result);
    result = canonical_either(zero, CANONICAL_INFINITY_BITS | CANONICAL_SIGN_BIT, result);
    return canonical_from_bits(result);
}

/* An angle of quadrant * pi / 2 + (high + low), |high| <= pi / 4 and a little. */
struct canonical_angle {
    float high, low;
    uint32_t quadrant; /* modulo 4 */
};

struct canonical_point {
    float sine, cosine;
};

/* The angle's sine and cosine: r + r^3 S(r^2) and 1 - r^2 / 2 + r^4 C(r^2). S's error: 2^-32.5;
 * C's: 2^-37. */
CANONICAL_INLINE struct canonical_point canonical_point(struct canonical_angle angle)
{
    float r = angle.high, square = canonical_multiply(r, r);
    float half = canonical_multiply(0.5f, square);
    float half_error = canonical_multiply(0.5f, fmaf(r, r, -square));
    float remainder = canonical_subtract(1.0f, half);

    float s = 0x1.7c2c4ep-19f;
    s = fmaf(s, square, -0x1.a05954p-13f);
    s = fmaf(s, square, 0x1.111174p-7f);
    s = fmaf(s, square, -0x1.555556p-3f);
    float sine_tail =
        fmaf(canonical_multiply(r, square), s, canonical_multiply(angle.low, remainder));
    float sine = canonical_add(r, sine_tail);

    float c = -0x1.361ef0p-22f;
    c = fmaf(c, square, 0x1.a071ccp-16f);
    c = fmaf(c, square, -0x1.6c175ep-10f);
    c = fmaf(c, square, 0x1.555556p-5f);
    float error = canonical_subtract(canonical_subtract(1.0f, remainder), half);
    float cosine_tail =
        fmaf(canonical_multiply(square, square), c, fmaf(-r, angle.low, -half_error));
    float cosine = canonical_add(remainder, canonical_add(error, cosine_tail));

    uint32_t odd = 0u - (angle.quadrant & 1);
    uint32_t sines = canonical_bits(sine), cosines = canonical_bits(cosine);
    struct canonical_point turned = {
        canonical_from_bits(canonical_either(odd, cosines, sines) ^ (angle.quadrant & 2) << 30),
        canonical_from_bits(canonical_either(odd, sines, cosines) ^ ((angle.quadrant + 1) & 2)
                                                                        << 30),
    };
    return turned;
}

/* Sine and cosine of fraction / 2^24 of a turn; only the lower 24 bits count. */
CANONICAL_INLINE struct canonical_point canonical_turn(uint32_t fraction)
{
    uint32_t quadrant = (fraction + 0x200000u) >> 22;
    int32_t rest = (int32_t)(fraction - (quadrant << 22));
    float quarters = canonical_multiply((float)rest, 0x1p-22f);
    float high = canonical_multiply(quarters, CANONICAL_QUARTER_HIGH);
    float error = fmaf(quarters, CANONICAL_QUARTER_HIGH, -high);
    struct canonical_angle angle = {high, fmaf(quarters, CANONICAL_QUARTER_LOW, error), quadrant};
    return canonical_point(angle);
}

/* The i-th word of 2 / pi; the first is that of 0 before the point. */
CANONICAL_INLINE uint32_t canonical_two_over_pi(uint32_t i)
{
    static const uint32_t words[8] = {0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                      0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
    return words[i];
}

/* The upper 32 bits of (high, low) << shift, shift in 0..31. */
CANONICAL_INLINE uint32_t canonical_window(uint32_t high, uint32_t low, uint32_t shift)
{
    return high << shift | low >> 1 >> (31 - shift);
}

/* Returns |x| times 2 / pi modulo 4 in units of 2^-62, for |x| from 1/2 on, which `bits` are: the
 * mantissa times 96 bits of 2 / pi, those before which would add multiples of 4. */
CANONICAL_INLINE uint64_t canonical_quarters(uint32_t bits)
{
    uint64_t mantissa = (bits & 0x007fffffu) | 0x00800000u;
    uint32_t first = (bits >> 23) - 120; /* 6..135 */
    uint32_t word = first >> 5, shift = first & 31;
    uint32_t w0 = canonical_two_over_pi(word), w1 = canonical_two_over_pi(word + 1);
    uint32_t w2 = canonical_two_over_pi(word + 2), w3 = canonical_two_over_pi(word + 3);
    return (mantissa * canonical_window(w0, w1, shift) << 32) +
           mantissa * canonical_window(w1, w2, shift) +
           (mantissa * canonical_window(w2, w3, shift) >> 32);
}

/* Reduces |x|. Up to pi / 4 the angle is |x| itself. The nearest of a larger binary32 to a multiple
 * of pi / 2 is some 2^-30 from it, so that 62 bits behind the point have 32 that count. */
CANONICAL_INLINE struct canonical_angle canonical_reduce(uint32_t magnitude)
{
    uint32_t small = canonical_mask(magnitude < 0x3f490fdbu); /* pi / 4 */
    uint64_t quarters = canonical_quarters(canonical_either(small, 0x3f800000u, magnitude));
    uint32_t quadrant = (uint32_t)((quarters + (1ull << 61)) >> 62);
    uint64_t rest = quarters - ((uint64_t)quadrant << 62);
    uint32_t negative = 0u - (uint32_t)(rest >> 63);
    uint64_t wide = (uint64_t)negative << 32 | negative;
    uint64_t distance = (rest ^ wide) - wide;

    float a = canonical_multiply((float)(int32_t)(distance >> 38), 0x1p-24f);
    float b = canonical_multiply((float)(int32_t)(distance >> 14 & 0xffffffu), 0x1p-48f);
    float c = canonical_multiply((float)(int32_t)(distance & 0x3fffu), 0x1p-62f);
    float sum = canonical_add(a, b);
    float rest_of_sum = canonical_add(canonical_add(canonical_subtract(a, sum), b), c);
    float high = canonical_multiply(sum, CANONICAL_QUARTER_HIGH);
    float error = fmaf(sum, CANONICAL_QUARTER_HIGH, -high);
    float low = canonical_add(error, fmaf(sum, CANONICAL_QUARTER_LOW,
                                          canonical_multiply(rest_of_sum, CANONICAL_QUARTER_HIGH)));
    uint32_t sign = negative & CANONICAL_SIGN_BIT;
    struct canonical_angle angle = {
        canonical_from_bits(canonical_either(small, magnitude, canonical_bits(high) ^ sign)),
        canonical_from_bits(canonical_either(small, 0, canonical_bits(low) ^ sign)),
        quadrant & ~small,
    };
    return angle;
}

CANONICAL_INLINE float canonical_angle_sine(float x)
{
    uint32_t bits = canonical_bits(x), magnitude = bits & ~CANONICAL_SIGN_BIT;
    struct canonical_point point = canonical_point(canonical_reduce(magnitude));
    uint32_t result = canonical_bits(point.sine) ^ (bits & CANONICAL_SIGN_BIT);
    uint32_t nan = canonical_mask(magnitude >= CANONICAL_INFINITY_BITS);
    return canonical_from_bits(canonical_either(nan, CANONICAL_NAN_BITS, result));
}

CANONICAL_INLINE float canonical_angle_cosine(float x)
{
    uint32_t magnitude = canonical_bits(x) & ~CANONICAL_SIGN_BIT;
    struct canonical_point point = canonical_point(canonical_reduce(magnitude));
    uint32_t nan = canonical_mask(magnitude >= CANONICAL_INFINITY_BITS);
    return canonical_from_bits(
        canonical_either(nan, CANONICAL_NAN_BITS, canonical_bits(point.cosine)));
}

/* ---- many numbers at once: to[i] = f(from[i]); `to` may be `from`, or else not overlap it */

struct function_kernels {
    const char *name; /* as a table of kernels/vectors.h */
    void (*exponentials)(const float *from, size_t count, float *to);
    void (*logistics)(const float *from, size_t count, float *to);
    void (*logarithms)(const float *from, size_t count, float *to);
    void (*sines)(const float *from, size_t count, float *to);
    void (*cosines)(const float *from, size_t count, float *to);
};

extern const struct function_kernels functions_scalar;
#if defined(__x86_64__)
extern const struct function_kernels functions_avx2;
extern const struct function_kernels functions_avx512;
#elif defined(__aarch64__)
extern const struct function_kernels functions_neon;
#endif

/* Returns the table of the variant that vectors_choose returns for this name, or NULL. */
const struct function_kernels *functions_choose(const char *name);

#endif
