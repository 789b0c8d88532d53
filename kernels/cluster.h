/* cluster: what the two rules of clustering compute, bit for bit.
 * Owner:  the process; one table a variant, const, chosen once (cluster_choose).
 * Thread: any; no state, no allocation.
 * Errors: none; rows are checked before they come here.
 *
 * Both rules begin with every row as a cluster of its own. A cluster's id is its lowest input
 * index. The best pair is the one with the largest value, of several the one with the lowest
 * smaller id, of these the one with the lowest larger id. Two are merged while the best pair's
 * value is at least a threshold. Cosines are canonical (canonical.h).
 *
 * Mean of count numbers x, in a given order. s is binary32, c binary64, both from +0:
 *     t = s + x                              binary32
 *     a = t - s, f = (s - (t - a)) + (x - a) binary32: the exact error of t (Knuth)
 *     c = c + f                              binary64
 *     s = t
 * and at the end, in binary64, (s + c) / count, rounded to binary32. This is Neumaier's compensated
 * sum ("Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974), whose two
 * cases give the same f without a branch.
 *
 * Rule centroid. A pair's value is the cosine of the two centroids. A centroid is, element by
 * element, the mean of the raw member rows in input order, also of a cluster of one row. Its norm
 * is the canonical one; should rounding make it infinite, which a row's cannot be, it counts as
 * CLUSTER_NORM_MAX. Strength: the mean of the cosines of the members to the centroid, in input
 * order.
 *
 * Rule average. Each operation is one rounding to binary32; times in hours; without times e = 1:
 *     d = |t_i - t_j|,  e = e^(-(d / 24)),  p = cos_ij * e,  S_ij = sigma(10 * (p - 0.5))
 * with e^x and sigma of functions.h. A pair's value is the mean of S over all pairs of members of
 * the two. The sum is exact, so that it has no order: p is in [-1, 1], S therefore in (2^-22, 1),
 * which binary32 tells in multiples of 2^-45, and the sum is an integer of those. It is divided by
 * the number of pairs and rounded once, to nearest, ties to even. Coherence: the same mean over the
 * pairs inside a cluster, of S without times; 1 for a cluster of one row, which has no pairs.
 *
 * A mean that is rounded once never exceeds the larger of the two that it lies between, so no merge
 * makes a third cluster nearer than both of its halves were. Nothing of the kind holds of
 * centroids. */
#ifndef ENGRAM_KERNELS_CLUSTER_H
#define ENGRAM_KERNELS_CLUSTER_H

#include "kernels/functions.h"

/* The largest norm that a row can have: 2^64 (1 - 2^-24). */
#define CLUSTER_NORM_MAX 0x1.fffffep+63f
#define CLUSTER_HOURS    24.0f

enum {
    CLUSTER_SIMILARITY_BITS = 45, /* S is a multiple of 2^-45 */
    CLUSTER_ROWS_MAX = 1 << 18,   /* sums of that many rows' pairs stay below 2^80 */
};

/* ---- the mean of numbers ---- */

struct cluster_sum {
    float sum;
    double correction;
};

CANONICAL_INLINE void cluster_sum_take(struct cluster_sum *s, float x)
{
    float total = canonical_add(s->sum, x);
    float added = canonical_subtract(total, s->sum);
    float kept = canonical_subtract(total, added);
    float error = canonical_add(canonical_subtract(s->sum, kept), canonical_subtract(x, added));
    s->correction = s->correction + (double)error;
    s->sum = total;
}

CANONICAL_INLINE float cluster_sum_mean(const struct cluster_sum *s, uint64_t count)
{
    return (float)(((double)s->sum + s->correction) / (double)count);
}

CANONICAL_INLINE float cluster_norm(float norm)
{
    return norm < CLUSTER_NORM_MAX ? norm : CLUSTER_NORM_MAX;
}

/* ---- similarities, and exact sums of them ---- */

/* Returns p without times: the cosine. */
CANONICAL_INLINE float cluster_decayed(float cosine, float a, float b)
{
    float apart = fabsf(canonical_subtract(a, b));
    float decay = canonical_exponential(-canonical_divide(apart, CLUSTER_HOURS));
    return canonical_multiply(cosine, decay);
}

CANONICAL_INLINE float cluster_similarity(float p)
{
    return canonical_logistic(canonical_multiply(10.0f, canonical_subtract(p, 0.5f)));
}

/* Returns S in multiples of 2^-45. */
CANONICAL_INLINE uint64_t cluster_units(float similarity)
{
    return (uint64_t)canonical_multiply(similarity, 0x1p+45f);
}

/* A sum of similarities in those units: high * 2^64 + low. */
struct cluster_total {
    uint64_t low;
    uint16_t high;
};

CANONICAL_INLINE struct cluster_total cluster_total_add(struct cluster_total a,
                                                        struct cluster_total b)
{
    struct cluster_total t;
    t.low = a.low + b.low;
    t.high = (uint16_t)(a.high + b.high + (t.low < a.low));
    return t;
}

/* Returns the mean of `pairs` similarities, rounded once. A quotient of at least 26 bits is taken,
 * the last of which says whether anything is left, and the conversion rounds it. */
CANONICAL_INLINE float cluster_total_mean(struct cluster_total t, uint64_t pairs)
{
    uint64_t quotient;
    bool rest;
    if (t.high == 0 && t.low < UINT64_C(1) << 60) {
        uint64_t wide = t.low << 3;
        quotient = wide / pairs;
        rest = wide % pairs != 0;
    } else {
        unsigned __int128 wide = ((unsigned __int128)t.high << 64 | t.low) << 3;
        quotient = (uint64_t)(wide / pairs);
        rest = wide % pairs != 0;
    }
    return (float)(quotient | rest) * 0x1p-48f;
}

/* ---- the table ---- */

struct cluster_kernels {
    const char *name; /* as a table of kernels/vectors.h */

    /* Adds columns [first, first + columns) of rows[0] .. rows[count - 1], which may have any
     * alignment, to sums and corrections, and makes means of those after so many rows in all. */
    void (*add)(const float *const *rows, size_t count, size_t first, size_t columns, float *sums,
                double *corrections);
    void (*divide)(const float *sums, const double *corrections, size_t columns, uint64_t count,
                   float *means);

    /* Turns cosines into similarities, in place; time: of the one, times: of the others, NULL:
     * without times. */
    void (*similarities)(float time, const float *times, size_t count, float *cosines);

    /* Returns the first i with the largest value, and that value; count 0: 0 and -infinity. No
     * value is NaN; -0 and +0 are equal. */
    size_t (*largest)(const float *values, size_t count, float *value);
};

extern const struct cluster_kernels cluster_scalar;
#if defined(__x86_64__)
extern const struct cluster_kernels cluster_avx2;
extern const struct cluster_kernels cluster_avx512;
#elif defined(__aarch64__)
extern const struct cluster_kernels cluster_neon;
#endif

/* Returns the table of the variant that vectors_choose returns for this name, or NULL. */
const struct cluster_kernels *cluster_choose(const char *name);

#endif
