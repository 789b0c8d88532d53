/* screen: which rows certainly do not reach a bound, told from a cheap dot product and two norms.
 * Owner:  nobody; pure functions.
 * Thread: any.
 * Errors: none. A row or query for which no bound is proven passes.
 *
 * A row is rejected only if its canonical score (canonical.h) is strictly worse than the bound:
 *     dot < scale * floor + offset      one fma, in float
 * dot is the plain, uncompensated float sum (vector_kernels.screen), floor belongs to the row,
 * (scale, offset) to the query and the bound. Everything not "less", NaN too, passes.
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
 *  - Screen (the contract of vector_kernels.screen): pieces of at most 1,024 elements in 16 or more
 *    partial sums, so at most min(2 m, 64) + 5 roundings, and m / 32 pieces added up.
 * 2m + 16 is at least each of these. epsilon = gamma(2m + 16) < 2^-13.
 *
 * Underflow: an operation whose result is subnormal errs by at most 2^-150 instead; additions never
 * do. At most 3 S operations: underflow U = S 2^-148 covers them, rounded on (2^-148 S <= 2^-134).
 *
 * So, with e = epsilon:
 *     |dot - D| <= e |x||t| + U                                                            (1)
 *     |canonical - true| <= e (|x||t|, or the squared distance Q) + U                      (2)
 *     (1 - e) nx^2 - U <= |x|^2 <= (1 + 2e) (nx^2 + U), same for t                         (3)
 * Norms above 2^62 are not screened: no sum comes near overflow otherwise.
 *
 * Squared Euclidean. Q = |x|^2 + |t|^2 - 2 D; 2 |x||t| <= |x|^2 + |t|^2; by (1), (3):
 *     Q >= (1 - e - e (1 + 2e)) (nx^2 + nt^2) - 2 dot - 5 U
 * canonical >= (1 - e) Q - U > B if Q > (B + U) / (1 - e): reject if
 *     dot < [ (1 - 2e (1 + e)) (nx^2 + nt^2) - 5 U - (B + U) / (1 - e) ] / 2
 * Dot. canonical <= dot + 2 e |x||t| + 2 U, |x| <= (1 + e) (nx + sqrt U): reject if
 *     dot < B - 2 U - 2 e (1 + e)^2 (nx + sqrt U) (nt + sqrt U)
 * Cosine. Norms below 2^-40 are not screened, so nx nt is normal and U <= 2^-53 nx nt. The product
 * of norms and the quotient are two roundings of a value below 1.01, which may underflow: 3 u. The
 * clamp changes no comparison with B in (-1, 2]; B is cut to 2, and at -1 or below nothing is
 * rejected. Reject if
 *     dot < nx nt (B - 2 e (1 + 2e) - 3 u - u)
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
    double epsilon;
    double underflow;
};

/* A row passes unless dot < scale * floor + offset. */
struct screen_line {
    float scale, offset;
};

#define SCREEN_UNIT            0x1p-24
#define SCREEN_NORM_MAX        0x1p62f
#define SCREEN_COSINE_NORM_MIN 0x1p-40f

static inline struct screen screen_of(enum metric metric, uint32_t dimension)
{
    double stride = (double)vector_stride(dimension);
    double roundings = 2 * stride / VECTOR_LANES + 16;
    return (struct screen){
        .metric = metric,
        .epsilon = roundings * SCREEN_UNIT / (1 - roundings * SCREEN_UNIT),
        .underflow = stride * 0x1p-148,
    };
}

/* Less than value by 2 to 6 u of it. */
static inline float screen_below(double value)
{
    return (float)(value - 4 * SCREEN_UNIT * fabs(value));
}

static inline void screen_floors(const struct screen *s, const float *norms, size_t count,
                                 float *floors)
{
    double e = s->epsilon, root = sqrt(s->underflow);
    double far = (1 - 2 * e * (1 + e) - SCREEN_UNIT) / 2, near = 2 * e * (1 + e) * (1 + e);
    float least = s->metric == METRIC_COSINE ? SCREEN_COSINE_NORM_MIN : 0.0f;
    for (size_t i = 0; i < count; i++) {
        double n = norms[i];
        float floor = s->metric == METRIC_SQUARED_EUCLIDEAN ? screen_below(far * n * n)
                      : s->metric == METRIC_DOT             ? screen_below(-near * (n + root))
                                                            : norms[i];
        floors[i] = norms[i] >= least && norms[i] <= SCREEN_NORM_MAX ? floor : NAN;
    }
}

/* bound: a score that a row must reach; it is finite or infinite, never NaN. */
static inline struct screen_line screen_line(const struct screen *s, float norm, float bound)
{
    static const struct screen_line pass_all = {0.0f, -INFINITY};
    double e = s->epsilon, u = s->underflow, n = norm, b = bound, far;
    if (!(norm <= SCREEN_NORM_MAX)) return pass_all;
    switch (s->metric) {
    case METRIC_SQUARED_EUCLIDEAN:
        far = (b + u) / (1 - e);
        far += fabs(far) * 0x1p-40;
        far = (1 - 2 * e * (1 + e) - SCREEN_UNIT) * n * n - 6 * u - far;
        return (struct screen_line){1.0f, screen_below(far / 2)};
    case METRIC_DOT:
        return (struct screen_line){-screen_below(-(n + sqrt(u))), screen_below(b - 3 * u)};
    default:
        if (!(norm >= SCREEN_COSINE_NORM_MIN) || bound <= -1.0f) return pass_all;
        b = bound < 2.0f ? bound : 2.0;
        b -= 2 * e * (1 + 2 * e) + 16 * SCREEN_UNIT;
        return (struct screen_line){screen_below(n * b), 0.0f};
    }
}

#endif
