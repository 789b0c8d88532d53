/* rounded_sine: the sine of a binary32 number, correctly rounded to binary32. That has one value,
 * so every way to compute it has the same bits; canonical_angle_sine (functions.h) is faster, and
 * at times another of the two nearest numbers.
 * Owner:  included by the tables of attractor.h; everything is static inline.
 * Thread: any; no state.
 * Errors: none. Arguments: |x| <= 2^25.3, more than any that a completion has.
 *
 * Method. x = k pi / 2 + r, |r| <= 0.786, with pi / 2 in parts so short that k times each of them,
 * and x less the first two, are exact in binary64 (Cody and Waite, "Software manual for the
 * elementary functions", 1980). r is known to 2^-80 and never less than 2^-30, as an enumeration of
 * all arguments in use shows (tests/kernels/test_rounded_sine.c). Taylor's polynomials of sine and
 * cosine then give the result to 2^-51 of it, in binary64. If all numbers within 2^-48 of that
 * round to the same binary32, it is the result; otherwise, about once in 4,000,000 times, all is
 * computed again in pairs of binary64 (Dekker, 1971) to 2^-90 of it, which decides. */
#ifndef ENGRAM_KERNELS_ROUNDED_SINE_H
#define ENGRAM_KERNELS_ROUNDED_SINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* pi / 2 in parts of 28, 26, 28 and 28 bits, and the rest. */
#define ROUNDED_SINE_PART1 0x1.921fb54p+0
#define ROUNDED_SINE_PART2 0x1.10b462p-30
#define ROUNDED_SINE_PART3 -0x1.cb3b398p-55
#define ROUNDED_SINE_PART4 -0x1.d747f24p-83
#define ROUNDED_SINE_PART5 0x1.cd129024e088ap-115

/* A sum of two numbers that is not rounded: |low| is at most half a unit of high. */
struct rounded_sine_pair {
    double high, low;
};

static inline struct rounded_sine_pair rounded_sine_add(double a, double b)
{
    double sum = a + b, added = sum - a;
    return (struct rounded_sine_pair){sum, (a - (sum - added)) + (b - added)};
}

/* The quadrant, of which the two lowest bits count, and the rest of the argument. */
struct rounded_sine_angle {
    uint64_t quadrant;
    double turns; /* k */
    double exact; /* x less k times the first two parts */
};

static inline struct rounded_sine_angle rounded_sine_reduce(double x)
{
    const double to_integer = 0x1.8p+52; /* adding it rounds to an integer */
    double shifted = x * 0x1.45f306dc9c883p-1 + to_integer;
    struct rounded_sine_angle a;
    memcpy(&a.quadrant, &shifted, sizeof a.quadrant);
    a.turns = shifted - to_integer;
    a.exact = (x - a.turns * ROUNDED_SINE_PART1) - a.turns * ROUNDED_SINE_PART2;
    return a;
}

/* Within 2^-51 of the sine, relative to it. */
static inline double rounded_sine_near(double x)
{
    struct rounded_sine_angle a = rounded_sine_reduce(x);
    double rest = -(a.turns * ROUNDED_SINE_PART3 + a.turns * ROUNDED_SINE_PART4);
    struct rounded_sine_pair r = rounded_sine_add(a.exact, rest);
    double z = r.high * r.high;

    double s = 0x1.952c77030ad4ap-49; /* 1 / 17! */
    s = s * z - 0x1.ae7f3e733b81fp-41;
    s = s * z + 0x1.6124613a86d09p-33;
    s = s * z - 0x1.ae64567f544e4p-26;
    s = s * z + 0x1.71de3a556c734p-19;
    s = s * z - 0x1.a01a01a01a01ap-13;
    s = s * z + 0x1.1111111111111p-7;
    s = s * z - 0x1.5555555555555p-3;
    double sine = r.high + (r.low + r.high * z * s);

    double c = -0x1.6827863b97d97p-53; /* -1 / 18! */
    c = c * z + 0x1.ae7f3e733b81fp-45;
    c = c * z - 0x1.93974a8c07c9dp-37;
    c = c * z + 0x1.1eed8eff8d898p-29;
    c = c * z - 0x1.27e4fb7789f5cp-22;
    c = c * z + 0x1.a01a01a01a01ap-16;
    c = c * z - 0x1.6c16c16c16c17p-10;
    c = c * z + 0x1.5555555555555p-5;
    double half = 0.5 * z, first = 1.0 - half;
    double cosine = first + (((1.0 - first) - half) + (z * z * c - r.high * r.low));

    double result = a.quadrant & 1 ? cosine : sine;
    return a.quadrant & 2 ? -result : result;
}

/* ---- in pairs ---- */

static inline struct rounded_sine_pair rounded_sine_product(struct rounded_sine_pair a,
                                                            struct rounded_sine_pair b)
{
    /* Dekker's exact product of the high parts, each cut into two halves of 26 bits. */
    const double cut = 0x1p+27 + 1;
    double t = cut * a.high, a1 = t - (t - a.high), a2 = a.high - a1;
    t = cut * b.high;
    double b1 = t - (t - b.high), b2 = b.high - b1;
    double high = a.high * b.high;
    double low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2;
    return rounded_sine_add(high, low + (a.high * b.low + a.low * b.high));
}

static inline struct rounded_sine_pair rounded_sine_sum(struct rounded_sine_pair a,
                                                        struct rounded_sine_pair b)
{
    struct rounded_sine_pair s = rounded_sine_add(a.high, b.high);
    struct rounded_sine_pair t = rounded_sine_add(a.low, b.low);
    s = rounded_sine_add(s.high, s.low + t.high);
    return rounded_sine_add(s.high, s.low + t.low);
}

/* a / n, n a small integer: the quotient, and that of the exact rest. */
static inline struct rounded_sine_pair rounded_sine_ratio(struct rounded_sine_pair a, double n)
{
    struct rounded_sine_pair q = {a.high / n, 0.0}, by = {n, 0.0};
    struct rounded_sine_pair back = rounded_sine_product(q, by);
    double rest = ((a.high - back.high) - back.low) + a.low;
    return rounded_sine_add(q.high, rest / n);
}

/* The pair rounded once to binary32. high's own rounding is right unless it is a tie, of which
 * low's sign decides. */
static inline float rounded_sine_round(struct rounded_sine_pair v)
{
    uint64_t bits;
    memcpy(&bits, &v.high, sizeof bits);
    bool tie = (bits & 0x1fffffff) == 0x10000000;
    if (tie && v.low != 0.0) bits += (v.low > 0.0) == (v.high > 0.0) ? 1 : UINT64_MAX;
    memcpy(&v.high, &bits, sizeof bits);
    return (float)v.high;
}

/* From Taylor's series, until its terms are below 2^-95 of the result. */
static inline float rounded_sine_slow(float x)
{
    struct rounded_sine_angle a = rounded_sine_reduce(x);
    struct rounded_sine_pair r = rounded_sine_add(a.exact, -a.turns * ROUNDED_SINE_PART3);
    struct rounded_sine_pair more =
        rounded_sine_add(-a.turns * ROUNDED_SINE_PART4, -a.turns * ROUNDED_SINE_PART5);
    r = rounded_sine_sum(r, more);
    struct rounded_sine_pair square = rounded_sine_product(r, r);
    bool cosine = a.quadrant & 1;
    struct rounded_sine_pair term = cosine ? (struct rounded_sine_pair){1.0, 0.0} : r;
    struct rounded_sine_pair sum = term;
    for (int n = cosine ? 1 : 2; n < 28; n += 2) {
        term = rounded_sine_ratio(rounded_sine_product(term, square), -(double)(n * (n + 1)));
        sum = rounded_sine_sum(sum, term);
    }
    if (a.quadrant & 2) sum = (struct rounded_sine_pair){-sum.high, -sum.low};
    return rounded_sine_round(sum);
}

/* to[i] = 0.1f or another scale times the sine of x[i], rounded after each; count <=
 * ROUNDED_SINE_MANY. */
enum { ROUNDED_SINE_MANY = 256 };
static inline void rounded_sines(const float *x, size_t count, float scale, float *to)
{
    double near[ROUNDED_SINE_MANY];
    uint32_t unsure = 0;
    for (size_t i = 0; i < count; i++)
        near[i] = rounded_sine_near(x[i]);
    for (size_t i = 0; i < count; i++) {
        float below = (float)(near[i] * (1.0 - 0x1p-48)),
              above = (float)(near[i] * (1.0 + 0x1p-48));
        unsure |= below != above;
        to[i] = below * scale;
    }
    for (size_t i = 0; unsure && i < count; i++) {
        float below = (float)(near[i] * (1.0 - 0x1p-48)),
              above = (float)(near[i] * (1.0 + 0x1p-48));
        if (below != above) to[i] = rounded_sine_slow(x[i]) * scale;
    }
}

#endif
