/* attractor: patterns completed from a part of them by a hippocampal model: dentate gyrus, which
 * separates, and CA3, whose weights attract. Bit for bit, all of it.
 * Owner:  the process; one table a variant, const, chosen once (attractor_choose).
 * Thread: any; no state, no allocation.
 * Errors: none. Inputs are validated before they come here.
 *
 * d is the dimension, 1 .. ATTRACTOR_DIMENSION_MAX; sums are the canonical dots of canonical.h, as
 * are the norms; sine is correctly rounded (rounded_sine.h); logistic is canonical_logistic of
 * functions.h; every other operation is one rounding of binary32.
 *
 *   Dentate matrix, 10 d rows of d:  D_ij = 0.1f * sine(float(d * i + j))
 *   Weights at first, d x d:         W_ij = 0.01f * sine(0.1f * float(d * i + j))
 *
 *   Learning, pattern by pattern p: W_ij = fma(rate * p_i, p_j, W_ij); then, if the greatest of all
 *   W_ij (by signed value) is above 1, each is divided by it.
 *
 *   Completion of x, in which what is not known is 0:
 *     dentate  a = D x. The d / 2 (rounded down, at least 1) greatest of the 10 d values by signed
 *              value stay, -0 and +0 tie, ties to the lowest index; the others become +0. Then
 *              s_i = (+0 + a_10i + ... + a_10i+9) / 10, added in rising order.
 *     CA3      s' = logistic(W s), of which the `kept` greatest stay, ties as above, the others
 *              become +0. It ends when the norm of s' - s is below 0.01f, converged, or after 7
 *              rounds; rounds counts the updates, the last one included.
 *     Confidence 0.9f * (1 - float(rounds) / 7).
 *
 * What is 0 in s adds nothing to W s: its products are zeros, and the sum of a partial and a zero
 * is the partial, but for the sign of a sum of nothing else, which the logistic function does not
 * see. (In compensated sums, too; partials are finite, see below.) So W is kept by columns, of
 * which those where s is not 0 are read; a stored column is padded with +0 to vector_stride(d).
 *
 * Weights are at most 1 and at least -2^40; numbers of a pattern are finite, and so is its norm.
 * Then |a| < 2^67, and no sum of an update overflows. */
#ifndef ENGRAM_KERNELS_ATTRACTOR_H
#define ENGRAM_KERNELS_ATTRACTOR_H

#include <stdbool.h>

#include "kernels/vectors.h"

enum { ATTRACTOR_DIMENSION_MAX = 2048, ATTRACTOR_ROUNDS_MAX = 7, ATTRACTOR_SPREAD = 10 };

#define ATTRACTOR_WEIGHT_MAX 1.0f
#define ATTRACTOR_WEIGHT_MIN -0x1p+40f

/* Signed; of no weights: -infinity and +infinity. */
struct attractor_range {
    float greatest, least;
};

struct attractor_kernels {
    const char *name; /* as a table of kernels/vectors.h */

    /* Rows [first, first + count) of the dentate matrix, vector_stride(dimension) floats apart and
     * padded with +0. */
    void (*dentate)(uint32_t dimension, uint64_t first, size_t count, float *rows);

    /* Columns [first, first + count) of the weights at first, likewise. */
    void (*weights)(uint32_t dimension, uint32_t first, size_t count, float *columns);

    /* Columns from[0] .. of count numbers of pattern, all of which scaled holds times the rate (d
     * numbers, padded with 0): to = fma(scaled_i, pattern_j, from / divisor). NULL patterns: the
     * division alone. to: from, or elsewhere. Widens *range by what it writes. */
    void (*learn)(uint32_t dimension, const float *scaled, const float *pattern, float divisor,
                  const float *from, size_t count, float *to, struct attractor_range *range);

    /* next = logistic(W state), by W's columns; state and next: d numbers, padded with 0, next's
     * padding is +0 afterwards. scratch: attractor_update_floats(dimension). */
    void (*update)(uint32_t dimension, const float *columns, const float *state, float *scratch,
                   float *next);
};

extern const struct attractor_kernels attractor_scalar;
#if defined(__x86_64__)
extern const struct attractor_kernels attractor_avx2;
extern const struct attractor_kernels attractor_avx512;
#elif defined(__aarch64__)
extern const struct attractor_kernels attractor_neon;
#endif

/* Returns the table of the variant that vectors_choose returns for this name, or NULL. */
const struct attractor_kernels *attractor_choose(const char *name);

static inline size_t attractor_update_floats(uint32_t dimension)
{
    return 16 * vector_stride(dimension);
}

/* ---- in plain C, the same for all variants (attractor_settle.c) ---- */

/* How many of the dentate's values stay. */
static inline uint32_t attractor_dentate_kept(uint32_t dimension)
{
    return dimension / 2 ? dimension / 2 : 1;
}

/* How many of CA3's: sparsity (0 < sparsity <= 1) of d, rounded to nearest, halves up, at least
 * 1. */
uint32_t attractor_kept(uint32_t dimension, float sparsity);

/* How many inputs must be known: a third of d, rounded down, at least 1. */
static inline uint32_t attractor_known_least(uint32_t dimension)
{
    return dimension / 3 ? dimension / 3 : 1;
}

/* Sets all but the `kept` greatest of count values to +0. Values are not NaN; keys: count
 * numbers of scratch. */
void attractor_keep(float *values, size_t count, size_t kept, uint32_t *keys);

/* The dentate's output: from the sums a (10 d, which change) to state (d, padded with +0). keys:
 * 10 d. */
void attractor_separate(uint32_t dimension, float *sums, uint32_t *keys, float *state);

struct attractor_outcome {
    uint32_t rounds;
    bool converged;
    float confidence;
};

static inline float attractor_confidence(uint32_t rounds)
{
    return 0.9f * (1.0f - (float)rounds / (float)ATTRACTOR_ROUNDS_MAX);
}

/* Bytes of scratch that attractor_settle wants, a multiple of 64. */
size_t attractor_settle_bytes(uint32_t dimension);

/* What a round of CA3 works with; scratch: attractor_settle_bytes. */
struct attractor_ca3 {
    const struct attractor_kernels *kernels;
    const struct vector_kernels *vectors;
    uint32_t dimension, kept;
    const float *columns;
    void *scratch;
};
/* One round, which changes state (d, padded with +0) and what became of it, all 0 at first: for a
 * caller that does something else between rounds. False: it was the last. */
bool attractor_round(const struct attractor_ca3 *a, float *state, struct attractor_outcome *out);

/* CA3: state (d, padded with +0) becomes what it settles at. */
struct attractor_outcome attractor_settle(const struct attractor_kernels *kernels,
                                          const struct vector_kernels *vectors, uint32_t dimension,
                                          uint32_t kept, const float *columns, void *scratch,
                                          float *state);

#endif
