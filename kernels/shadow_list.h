/* shadow_list: what a score is at least, told by a shadow (shadow.h) alone. Where no rows lie
 * beside the shadow, the k-th best of these is the bound that the best rows must reach (screen.h).
 * Owner:  nobody; pure functions. Included by C and by CUDA.
 * Thread: any.
 * Errors: none. Where nothing is proven, the score is the worst.
 *
 * The bound (4) of shadow.h holds for -x as well, which stands as -x = s_x (-p) - e_x with the same
 * |e_x| and |x|. Every step of shadow_estimate is odd, since rounding to nearest is, so -x has the
 * estimate of x with the sign turned; and -x t = -D. So
 *     D >= shadow_below = -fma(norm_above, lost, fma(lost_x, length, -estimate))               (5)
 * and the canonical score follows with the errors e and U of screen.h, by (2) and (3) there:
 *  - Dot. canonical >= D - e |x||t| - U, |x| <= (1 + e) (nx + sqrt U), so
 *        >= below - e (1 + e)^2 (nx + sqrt U) (nt + sqrt U) - U
 *  - Cosine, both norms from 2^-40 on: |x||t| <= nx nt (1 + 2e + e^2) (1 + 2^-26), U <= 2^-54 nx
 *    nt, the product of norms and the quotient cost 3 u:
 *        >= below / (nx nt) - e (1 + 2e) - 4 u
 *    cut to 1, since the canonical score is.
 *  - Squared Euclidean. canonical <= (1 + e) Q + U, Q = |x|^2 + |t|^2 - 2 D, so
 *        <= (1 + e) ((1 + 2e) (nx^2 + nt^2 + 2U) - 2 below) + U
 * They are evaluated in double, whose roundings are some 2^-50 of every term by itself: slack is
 * 16 u for cosine, a factor 1 + 2u on what the norms bring, 2^-39 of below for distances, another
 * U. What becomes a float is rounded away from the better side (screen_below). */
#ifndef ENGRAM_KERNELS_SHADOW_LIST_H
#define ENGRAM_KERNELS_SHADOW_LIST_H

#include "kernels/shadow.h"

/* A row that may be among the best, with what is needed to score it where the rows are. */
struct shadow_survivor {
    uint64_t id;
    uint32_t row;
    float norm;
};

/* What x t is at least, from its estimate (5). */
CANONICAL_INLINE float shadow_below(const struct shadow_query *q, float estimate, float row_lost,
                                    float row_length)
{
    return -fmaf(q->norm_above, row_lost, fmaf(q->lost, row_length, -estimate));
}

CANONICAL_INLINE float shadow_worst(enum metric metric)
{
    return metric == METRIC_SQUARED_EUCLIDEAN ? INFINITY : -INFINITY;
}

/* What the canonical score of a row is at least (distances: at most), from `below` and the norms of
 * query and row. s: of screen_of_shadow. */
CANONICAL_INLINE float shadow_least(const struct screen *s, float query_norm, float row_norm,
                                    float below)
{
    const double e = s->epsilon, underflow = s->underflow, x = query_norm, t = row_norm, d = below;
    double near = e * (1 + e) * (1 + e) * (1 + 2 * SCREEN_UNIT), root = sqrt(underflow), far;
    float least;
    if (!(query_norm <= SCREEN_NORM_MAX) || !(row_norm <= SCREEN_NORM_MAX) ||
        !canonical_is_finite(below))
        return shadow_worst(s->metric);
    switch (s->metric) {
    case METRIC_SQUARED_EUCLIDEAN:
        far = (1 + 2 * e) * (1 + 2 * SCREEN_UNIT) * (x * x + t * t + 2 * underflow);
        far += fabs(d) * 0x1p-39 - 2 * d;
        return -screen_below(-((1 + e) * far + 2 * underflow));
    case METRIC_DOT: return screen_below(d - near * (x + root) * (t + root) - 2 * underflow);
    case METRIC_COSINE:
        if (!(query_norm >= SCREEN_COSINE_NORM_MIN) || !(row_norm >= SCREEN_COSINE_NORM_MIN))
            return shadow_worst(s->metric);
        least = screen_below(d / (x * t) - e * (1 + 2 * e) - 16 * SCREEN_UNIT);
        return least < 1.0f ? least : 1.0f;
    }
    return shadow_worst(s->metric);
}

#endif
