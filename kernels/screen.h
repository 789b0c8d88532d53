/* screen: which rows certainly do not reach a bound, told from a cheap dot product and two norms.
 * Owner:  nobody; pure functions. Included by C and by CUDA.
 * Thread: any.
 * Errors: none. A row or query for which no bound is proven passes.
 *
 * A row is rejected only if its canonical score (canonical.h) is strictly worse than the bound:
 *     dot < scale * floor + offset      one fma, in float
 * dot is a cheap sum: on the CPU the plain, uncompensated float sum (vector_kernels.screen), on a
 * device the tensor cores' (kernels/cuda/screen.cu). floor belongs to the row, (scale, offset) to
 * the query and the bound. Everything not "less", NaN too, passes.
 *
 * Why that is right. u = 2^-24, S = stride, m = S / 32, gamma(n) = n u / (1 - n u); x the query, t
 * the row, |.| their true norms, nx and nt the canonical ones (float), D the true dot product.
 * Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed.: a product that passes through
 * n roundings carries (1 + theta), |theta| <= gamma(n) (lemma 3.1); gamma(j) + gamma(k) +
 * gamma(j) gamma(k) <= gamma(j + k) (lemma 3.3); so whatever the order of summation, a computed dot
 * differs from D by at most gamma(n) sum|x_i t_i| (3.5), which is <= gamma(n) |x||t|.
 *
 *  - Plain canonical sum: m fused multiply-adds and 5 steps of the tree: n = m + 5; squared
 *    distances round each difference, which is squared: n = m + 7.
 *  - Compensated: p[0] alone has n = m + 6 (+ 2). Each correction is e + f with |e| <= u |x_i t_i|
 *    and |f| <= u |s|, s a partial sum; so |c[0]| <= (m + 1) u (1 + gamma(2m + 6)) sum|x_i t_i| <=
 *    gamma(m + 2) sum|x_i t_i| for m <= 512; the last sum is one rounding more: n = 2m + 11. (The
 *    truth is far better; this is enough.) A c[0] that is not finite is dropped: p[0]'s n holds.
 *  - Norms: that sum, then a square root, one rounding, which the square doubles: n + 2.
 *  - The CPU's screen (the contract of vector_kernels.screen): pieces of at most 1,024 elements in
 *    16 or more partial sums, so at most min(2 m, 64) + 5 roundings, and m / 32 pieces added up.
 * 2m + 16 is at least each of these. epsilon = gamma(2m + 16) < 2^-13.
 *
 * Underflow: an operation whose result is subnormal errs by at most 2^-150 instead; additions never
 * do. At most 3 S operations: underflow U = S 2^-148 covers them, rounded on (2^-148 S <= 2^-134).
 *
 * The tensor cores' screen. Every element is first rounded to TF32 (10 fraction bits) by integer
 * arithmetic, half away from 0: x' = x (1 + d), |d| <= 2^-11; what the hardware would do with the
 * other 13 bits does not matter, they are 0. Products of such numbers have 22 bits. NVIDIA does not
 * say how they are added up. Measured on V100, A100, H100 and others (Fasi, Higham, Mikaitis,
 * Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021; Khattak, Mikaitis, "Accurate models
 * of NVIDIA tensor cores", 2025): products are exact; some of them and the accumulator are shifted
 * to the largest one's exponent, what falls behind the 23rd fraction bit or a later one is cut off,
 * the rest is added exactly and cut or rounded to float. ASSUMED here, of one step of 8 products in
 * groups of any size G, one group after another: each of the G + 1 addends of a group loses less
 * than 2^-23 of the largest, and the sum less than 2^-23 of itself; no addend nor sum exceeds A =
 * |accumulator| + sum of the step's |products|. That is at most (G + 2) (8 / G) 2^-23 A, 24 * 2^-23
 * for G = 1, 10 * 2^-23 for G = 8; taken is h = 32 * 2^-23 = 2^-18. By induction over s = S / 8
 * steps the sum errs by at most ((1 + h)^s - 1) sum|x'_i t'_i|, and (1 + h)^s - 1 <= s h /
 * (1 - s h) =: H. (The H100 keeps 25 bits and more; the worst that tests/gpu/gpu_screen.c makes an
 * H200 lose is 7 % of H.) Together, with d = 2^-11:
 *     |dot - D| <= a sum|x_i t_i|,  a = (1 + d)^2 (1 + H) - 1 < 2^-6
 * Hardware may also take subnormal inputs, products or results for 0: inputs cost at most 2^-126
 * (1 + d) sum(|x_i| + |t_i|) <= 2^-126 (1 + d) sqrt(S) (|x| + |t|), the others 10 * 2^-126 a step:
 *     V <= 2^-119 (1 + 2^-10) (|x| + |t|) + 2^-111, <= 2^-55 for norms up to 2^62
 *
 * So, with e = epsilon; a = approximate and V = flushed are e and U on the CPU:
 *     |dot - D| <= a |x||t| + V                                                            (1)
 *     |canonical - true| <= e (|x||t|, or the squared distance Q) + U                      (2)
 *     (1 - e) nx^2 - U <= |x|^2 <= (1 + 2e) (nx^2 + U), same for t                         (3)
 * Norms above 2^62 are not screened: no sum comes near overflow otherwise.
 *
 * Squared Euclidean. Q = |x|^2 + |t|^2 - 2 D; 2 |x||t| <= |x|^2 + |t|^2; by (1), (3):
 *     Q >= (1 - a) (|x|^2 + |t|^2) - 2 dot - 2 V >= (1 - a - e) (nx^2 + nt^2) - 2 dot - 2 U - 2 V
 * canonical >= (1 - e) Q - U > B if Q > (B + U) / (1 - e): reject if
 *     dot < [ (1 - (a + e) (1 + e)) (nx^2 + nt^2) - 3 U - 2 V - (B + U) / (1 - e) ] / 2
 * Dot. canonical <= dot + (a + e) |x||t| + U + V, |x| <= (1 + e) (nx + sqrt U): reject if
 *     dot < B - U - V - (a + e) (1 + e)^2 (nx + sqrt U) (nt + sqrt U)
 * Cosine. Norms below 2^-40 are not screened, so nx nt is normal and U + V <= 2^-30 nx nt (V by its
 * first bound). The product of norms and the quotient are two roundings of a value below 1.01,
 * which may underflow: 3 u. The clamp changes no comparison with B in (-1, 2]; B is cut to 2, and
 * at -1 or below nothing is rejected. Reject if
 *     dot < nx nt (B - (a + e) (1 + 2e) - 3 u - u)
 *
 * These are evaluated in double, whose roundings (some 2^-50, relative to every term by itself)
 * disappear in the slack: u (nx^2 + nt^2) and 2^-40 of B for Euclidean, a factor 1 + 2u on
 * dot's last term, 12 u for cosine. Before a value becomes a float, 4 u of its magnitude is taken
 * off; 2 u are left after that rounding, which pays for the fma's: it is at most u |scale floor +
 * offset| <= u (|scale floor| + |offset|). A further U pays where these underflow. For cosine the
 * roundings of scale and fma are at most 6 u nx nt, part of the 12. */
#ifndef ENGRAM_KERNELS_SCREEN_H
#define ENGRAM_KERNELS_SCREEN_H

#include "kernels/vectors.h"

#include <math.h>

struct screen {
    enum metric metric;
    double epsilon;     /* e: the canonical score's error */
    double approximate; /* a: the cheap dot product's */
    double underflow;   /* U */
    double flushed;     /* V */
};

/* A row is rejected if dot < scale * floor + offset. */
struct screen_line {
    float scale, offset;
};

#define SCREEN_UNIT            0x1p-24
#define SCREEN_NORM_MAX        0x1p62f
#define SCREEN_COSINE_NORM_MIN 0x1p-40f
#define SCREEN_TF32_ROUNDING   0x1p-11 /* d */
#define SCREEN_TF32_STEP       0x1p-18 /* h, of SCREEN_TF32_DEPTH products */
#define SCREEN_TF32_DEPTH      8
#define SCREEN_TF32_FLUSHED    0x1p-55

static inline struct screen screen_of(enum metric metric, uint32_t dimension)
{
    double stride = (double)vector_stride(dimension);
    double roundings = 2 * stride / VECTOR_LANES + 16;
    double epsilon = roundings * SCREEN_UNIT / (1 - roundings * SCREEN_UNIT);
    double underflow = stride * 0x1p-148;
    struct screen s = {metric, epsilon, epsilon, underflow, underflow};
    return s;
}

/* As screen_of, for dot products of the tensor cores. */
static inline struct screen screen_of_tf32(enum metric metric, uint32_t dimension)
{
    struct screen s = screen_of(metric, dimension);
    double lost = (double)vector_stride(dimension) / SCREEN_TF32_DEPTH * SCREEN_TF32_STEP;
    double rounded = (1 + SCREEN_TF32_ROUNDING) * (1 + SCREEN_TF32_ROUNDING);
    s.approximate = rounded * (1 + lost / (1 - lost)) - 1;
    s.flushed = SCREEN_TF32_FLUSHED;
    return s;
}

/* Rounds to float, at least 2 u and at most 6 u of the value below it. */
CANONICAL_INLINE float screen_below(double value)
{
    return (float)(value - 4 * SCREEN_UNIT * fabs(value));
}

/* The terms of a floor that are the same for all rows. */
struct screen_terms {
    enum metric metric;
    double far, near, root;
    float least;
};

CANONICAL_INLINE struct screen_terms screen_terms(const struct screen *s)
{
    double e = s->epsilon, both = s->approximate + e;
    struct screen_terms terms;
    terms.metric = s->metric;
    terms.far = (1 - both * (1 + e) - SCREEN_UNIT) / 2;
    terms.near = both * (1 + e) * (1 + e);
    terms.root = sqrt(s->underflow);
    terms.least = s->metric == METRIC_COSINE ? SCREEN_COSINE_NORM_MIN : 0.0f;
    return terms;
}

CANONICAL_INLINE float screen_floor(const struct screen_terms *s, float norm)
{
    double n = norm;
    float floor = s->metric == METRIC_SQUARED_EUCLIDEAN ? screen_below(s->far * n * n)
                  : s->metric == METRIC_DOT             ? screen_below(-s->near * (n + s->root))
                                                        : norm;
    return norm >= s->least && norm <= SCREEN_NORM_MAX ? floor : NAN;
}

static inline void screen_floors(const struct screen *s, const float *norms, size_t count,
                                 float *floors)
{
    const struct screen_terms terms = screen_terms(s);
    for (size_t i = 0; i < count; i++)
        floors[i] = screen_floor(&terms, norms[i]);
}

/* bound: the score that a row must reach; finite or infinite, never NaN. */
CANONICAL_INLINE struct screen_line screen_line(const struct screen *s, float norm, float bound)
{
    const struct screen_line pass_all = {0.0f, -INFINITY};
    struct screen_line line = pass_all;
    double e = s->epsilon, both = s->approximate + e, u = s->underflow, n = norm, b = bound, far;
    if (!(norm <= SCREEN_NORM_MAX)) return pass_all;
    switch (s->metric) {
    case METRIC_SQUARED_EUCLIDEAN:
        far = (b + u) / (1 - e);
        far += fabs(far) * 0x1p-40;
        far = (1 - both * (1 + e) - SCREEN_UNIT) * n * n - (4 * u + 2 * s->flushed) - far;
        line.scale = 1.0f;
        line.offset = screen_below(far / 2);
        return line;
    case METRIC_DOT:
        line.scale = -screen_below(-(n + sqrt(u)));
        line.offset = screen_below(b - (2 * u + s->flushed));
        return line;
    case METRIC_COSINE:
        if (!(norm >= SCREEN_COSINE_NORM_MIN) || bound <= -1.0f) return pass_all;
        b = bound < 2.0f ? bound : 2.0;
        b -= both * (1 + 2 * e) + 16 * SCREEN_UNIT;
        line.scale = screen_below(n * b);
        line.offset = 0.0f;
        return line;
    }
    return pass_all;
}

#endif
