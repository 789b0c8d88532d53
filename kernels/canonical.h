/* canonical: the arithmetic every variant (scalar, SIMD, CUDA) equals bit for bit.
 * Owner:  nobody; pure functions. Included by C and by CUDA.
 * Thread: any.
 * Errors: none.
 *
 * All operations are IEEE-754 binary32, round to nearest even, subnormals kept. Each line below is
 * one rounding. C is compiled with -ffp-contract=off; on a device the _rn intrinsics, which are
 * never contracted, stand for + - *. `stride` is the padded length, a multiple of 32; the pad is +0
 * and is summed like any other element.
 *
 * Products (dot: x = x[i], y = y[i]; squared Euclidean: x = y = x[i] - y[i], rounded).
 *
 * Plain (dimension <= 1024). 32 partials from +0; partial j takes i = j, j + 32, j + 64, ...
 *     p[j] = fma(x, y, p[j])
 * Compensated (dimension > 1024). Each partial is a pair (p, c) from (+0, +0):
 *     h = x * y                        the product
 *     e = fma(x, y, -h)                its error, exact unless it underflows
 *     s = p + h                        Knuth's sum without a branch ...
 *     a = s - p
 *     f = (p - (s - a)) + (h - a)      ... and its exact error
 *     c = c + (e + f)                  the two errors meet first
 *     p = s
 * (Ogita, Rump, Oishi, "Accurate sum and dot product", 2005, algorithm Dot2.)
 *
 * Tree: p[j] = p[j] + p[j + s], j < s, for s = 16, 8, 4, 2, 1. Plain: the result is p[0].
 * Compensated: the same tree over c, then p[0] + c[0]; if c[0] is not finite, p[0] alone. A partial
 * that overflows leaves inf - inf in c, so an overflowing distance is +inf and never NaN; where
 * p[0] is infinite and c[0] finite the sum is p[0] anyway.
 *
 * Norm: sqrt(dot(x, x)), correctly rounded; +inf for every sum that is not finite.
 * Cosine: n = norm_q * norm_t; +0 if n == 0, else dot / n clamped to [-1, 1]. A stored norm is 0
 * or lies in [2^-74.5, 2^64 (1 - 2^-24)]: two such norms have a product in [2^-149, FLT_MAX], so n
 * never overflows and is 0 only if a norm is. A row whose squares all underflow has norm 0 and
 * counts as a zero vector. */
#ifndef ENGRAM_KERNELS_CANONICAL_H
#define ENGRAM_KERNELS_CANONICAL_H

#include "kernels/vectors.h"

#include <float.h>
#include <math.h>

CANONICAL_INLINE float canonical_add(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

CANONICAL_INLINE float canonical_subtract(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return __fsub_rn(a, b);
#else
    return a - b;
#endif
}

CANONICAL_INLINE float canonical_multiply(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

CANONICAL_INLINE float canonical_divide(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

CANONICAL_INLINE bool canonical_is_compensated(uint32_t dimension)
{
    return dimension > VECTOR_COMPENSATED_ABOVE;
}

/* Adds one product to a plain partial. */
CANONICAL_INLINE void canonical_take(float *p, float x, float y)
{
    *p = fmaf(x, y, *p);
}

/* Adds one product to a compensated partial. */
CANONICAL_INLINE void canonical_take_compensated(float *p, float *c, float x, float y)
{
    float product = canonical_multiply(x, y);
    float product_error = fmaf(x, y, -product);
    float sum = canonical_add(*p, product);
    float added = canonical_subtract(sum, *p);
    float kept = canonical_subtract(sum, added);
    float sum_error =
        canonical_add(canonical_subtract(*p, kept), canonical_subtract(product, added));
    *c = canonical_add(*c, canonical_add(product_error, sum_error));
    *p = sum;
}

/* Folds 32 partials; p is scratch afterwards. */
CANONICAL_INLINE float canonical_tree(float p[VECTOR_LANES])
{
    for (int s = VECTOR_LANES / 2; s > 0; s /= 2) {
        for (int j = 0; j < s; j++)
            p[j] = canonical_add(p[j], p[j + s]);
    }
    return p[0];
}

CANONICAL_INLINE bool canonical_is_finite(float value)
{
    return fabsf(value) <= FLT_MAX;
}

CANONICAL_INLINE float canonical_corrected(float sum, float correction)
{
    return canonical_is_finite(correction) ? canonical_add(sum, correction) : sum;
}

CANONICAL_INLINE float canonical_sum_plain(bool euclidean, size_t stride, const float *x,
                                           const float *y)
{
    float p[VECTOR_LANES] = {0};
    for (size_t i = 0; i < stride; i++) {
        float d = canonical_subtract(x[i], y[i]);
        canonical_take(&p[i % VECTOR_LANES], euclidean ? d : x[i], euclidean ? d : y[i]);
    }
    return canonical_tree(p);
}

CANONICAL_INLINE float canonical_sum_compensated(bool euclidean, size_t stride, const float *x,
                                                 const float *y)
{
    float p[VECTOR_LANES] = {0};
    float c[VECTOR_LANES] = {0};
    for (size_t i = 0; i < stride; i++) {
        size_t j = i % VECTOR_LANES;
        float d = canonical_subtract(x[i], y[i]);
        canonical_take_compensated(&p[j], &c[j], euclidean ? d : x[i], euclidean ? d : y[i]);
    }
    float correction = canonical_tree(c);
    return canonical_corrected(canonical_tree(p), correction);
}

CANONICAL_INLINE float canonical_dot(uint32_t dimension, const float *x, const float *y)
{
    size_t stride = vector_stride(dimension);
    return canonical_is_compensated(dimension) ? canonical_sum_compensated(false, stride, x, y)
                                               : canonical_sum_plain(false, stride, x, y);
}

CANONICAL_INLINE float canonical_squared_euclidean(uint32_t dimension, const float *x,
                                                   const float *y)
{
    size_t stride = vector_stride(dimension);
    return canonical_is_compensated(dimension) ? canonical_sum_compensated(true, stride, x, y)
                                               : canonical_sum_plain(true, stride, x, y);
}

/* Returns the norm of a row whose dot product with itself is `square`. */
CANONICAL_INLINE float canonical_norm(float square)
{
#if defined(__CUDA_ARCH__)
    return canonical_is_finite(square) ? __fsqrt_rn(square) : INFINITY;
#else
    return canonical_is_finite(square) ? sqrtf(square) : INFINITY;
#endif
}

CANONICAL_INLINE float canonical_clamp(float value)
{
    float below = value < 1.0f ? value : 1.0f;
    return below > -1.0f ? below : -1.0f;
}

CANONICAL_INLINE float canonical_cosine(float dot, float query_norm, float row_norm)
{
    float product = canonical_multiply(query_norm, row_norm);
    return product == 0.0f ? 0.0f : canonical_clamp(canonical_divide(dot, product));
}

#endif
