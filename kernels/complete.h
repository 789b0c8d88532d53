/* complete: pattern completion by the modern rule: a state becomes the softmax-weighted mean of a
 * collection's rows, round after round, bit for bit.
 * Owner:  the process; one table a variant, const, chosen once (complete_choose). The functions
 *         named complete_ are the definition, included by C and by CUDA.
 * Thread: any; no state, no allocation.
 * Errors: none. Inputs are validated before they come here: rows have finite norms (canonical.h),
 *         and so have states, whose unknown numbers may be anything in a cue; beta is
 *         COMPLETE_BETA_MIN to COMPLETE_BETA_MAX.
 *
 * The rule: state <- sum_i softmax(beta x_i . state) x_i. Source: Ramsauer et al., "Hopfield
 * Networks is All You Need" (2020), equation 3 for the energy and 5 for the update. Rows are taken
 * as they are stored (raw), or as if divided by their canonical norms (unit; one of norm 0 counts
 * as a zero vector). With N >= 1 rows x_i in storage order, a round is:
 *
 * 1. Scores. s_i = complete_score(canonical_dot(x_i, state), norm_i). m = the largest of them.
 * 2. Weights. w_i = complete_weight(s_i, m, beta) = e^(beta (s_i - m)), in 0 .. 1, that of the
 *    largest score 1. The rows are added with the shares u_i = complete_share(w_i, norm_i).
 * 3. Sums, in blocks of COMPLETE_BLOCK rows, cut from the first row on, the last one shorter. In a
 *    block:
 *      total, binary64: 32 partials from +0; partial k takes the block's w_i with
 *        i = k, k + 32, ... rising; then the tree of canonical.h (s = 16, 8, 4, 2, 1).
 *      column c, binary32: runs of COMPLETE_RUN rows. In a run, from +0 and i rising,
 *        p = fma(u_i, x_ic, p); the block's sum is, from +0 and run after run, s = s + p.
 *    The blocks' totals and sums are the leaves of the tree of superpose.h: neighbours are added,
 *    one that is left over is carried, and again until one is left: Z (binary64) and S_c.
 *    A block's sum is never -0, so a run whose shares are all 0 may be left out.
 * 4. state_c = complete_value(S_c, Z) = S_c / Z in binary64, rounded to binary32; where a mask says
 *    that number c is known, the cue's number instead.
 *
 * The state begins as the cue; where there is a mask, its unknown numbers begin as +0. Rounds end
 * after as many as are asked for, or after one that moves the state by less than
 * COMPLETE_STILL: canonical norm of the differences, each rounded. That one counts.
 *
 * The state's energy as the last round began is complete_energy. The best row is that of the
 * largest score in the last round, of several the one with the smallest id.
 *
 * Error of a state after one round, relative to its norm, against binary64: about 2e-8 times beta
 * times the norms of row and state for the scores (canonical dots), and 2e-7 for all that follows;
 * below 2e-6 for 768 dimensions and a product of 32 (tests/kernels/test_complete_error.c). */
#ifndef ENGRAM_KERNELS_COMPLETE_H
#define ENGRAM_KERNELS_COMPLETE_H

#include "kernels/functions.h"

enum { COMPLETE_BLOCK = 1024, COMPLETE_RUN = 32, COMPLETE_ROUNDS_MAX = 100 };

#define COMPLETE_BETA_MIN 1e-6f
#define COMPLETE_BETA_MAX 1e6f
#define COMPLETE_STILL    1e-4f

/* Operations of binary64, each one rounding; a compiler for a device must not contract them. */
CANONICAL_INLINE double complete_add(double a, double b)
{
#if defined(__CUDA_ARCH__)
    return __dadd_rn(a, b);
#else
    return a + b;
#endif
}

CANONICAL_INLINE double complete_multiply(double a, double b)
{
#if defined(__CUDA_ARCH__)
    return __dmul_rn(a, b);
#else
    return a * b;
#endif
}

CANONICAL_INLINE double complete_divide(double a, double b)
{
#if defined(__CUDA_ARCH__)
    return __ddiv_rn(a, b);
#else
    return a / b;
#endif
}

/* A dot product of two rows of almost the largest norm may round to infinity. */
CANONICAL_INLINE float complete_limit(float score)
{
    float below = score < FLT_MAX ? score : FLT_MAX;
    return below > -FLT_MAX ? below : -FLT_MAX;
}

/* norm: that of the row; 1: it is taken as it is. */
CANONICAL_INLINE float complete_score(float dot, float norm)
{
    return complete_limit(norm == 0.0f ? 0.0f : canonical_divide(dot, norm));
}

CANONICAL_INLINE float complete_weight(float score, float largest, float beta)
{
    return canonical_exponential(canonical_multiply(beta, canonical_subtract(score, largest)));
}

CANONICAL_INLINE float complete_share(float weight, float norm)
{
    return norm == 0.0f ? 0.0f : canonical_divide(weight, norm);
}

CANONICAL_INLINE float complete_value(float sum, double total)
{
    return (float)complete_divide((double)sum, total);
}

/* E = (|state|^2 + M^2) / 2 - m - (ln Z - ln N) / beta, with M the largest norm of a row (of unit
 * rows 1, or 0 if all are zero vectors); every operation of binary64 but the logarithms, which are
 * the canonical ones of binary32, then rounded once. For |state| <= M it lies in 0 .. 2 M^2, but
 * for rounding. */
CANONICAL_INLINE float complete_energy(float state_norm, float largest_norm, float largest_score,
                                       double total, uint64_t rows, float beta)
{
    double squares = complete_add(complete_multiply(state_norm, state_norm),
                                  complete_multiply(largest_norm, largest_norm));
    double logarithms =
        complete_add(canonical_logarithm((float)rows), -canonical_logarithm((float)total));
    double energy = complete_add(complete_multiply(0.5, squares), -(double)largest_score);
    return (float)complete_add(energy, complete_divide(logarithms, beta));
}

/* Shares of some states: those of state q at shares + q * stride. */
struct complete_shares {
    const float *shares;
    size_t stride;
    size_t states;
};

/* What is known of a state besides its numbers. */
struct complete_record {
    uint64_t id;  /* of the row with the largest score in its last round */
    uint32_t row; /* that row's number */
    float score;
    float cosine; /* of that row with the state, once it is done */
    float energy;
    uint32_t rounds; /* done */
    uint32_t still;  /* its last round moved it by less than COMPLETE_STILL */
    uint32_t done;   /* further rounds leave it as it is */
    uint32_t reserved;
};

struct complete_kernels {
    const char *name; /* as a table of kernels/vectors.h */

    /* Turns dot products into scores, in place, and returns the largest; -infinity for none.
     * norms: of unit rows; NULL: raw. */
    float (*score)(const float *norms, size_t count, float *scores);

    /* Turns the scores of a block (count <= COMPLETE_BLOCK) into shares, in place, and returns the
     * block's total. */
    double (*weigh)(const float *norms, size_t count, float largest, float beta, float *scores);

    /* Adds rows, vector_stride(dimension) floats apart and 64-byte aligned, to the block's sums of
     * each state, sums_stride floats apart, 64-byte aligned and padded. They begin with a run of
     * the block; count is a multiple of COMPLETE_RUN unless the block ends with them. */
    void (*add)(uint32_t dimension, const float *rows, size_t count,
                const struct complete_shares *shares, float *sums, size_t sums_stride);

    /* Step 4 for one state, of which `moved` becomes the difference to what it was. known: a byte
     * a number, not 0 where the cue's is kept; NULL: nowhere. All have `dimension` numbers; state
     * and moved may have any alignment. */
    void (*settle)(uint32_t dimension, const float *sums, double total, const uint8_t *known,
                   const float *cue, float *state, float *moved);
};

extern const struct complete_kernels complete_scalar;
#if defined(__x86_64__)
extern const struct complete_kernels complete_avx2;
extern const struct complete_kernels complete_avx512;
#elif defined(__aarch64__)
extern const struct complete_kernels complete_neon;
#endif

/* Returns the table of the variant that vectors_choose returns for this name, or NULL. */
const struct complete_kernels *complete_choose(const char *name);

/* Folds count >= 1 totals by the tree; the first becomes their sum, the others lose their
 * meaning. */
void complete_fold_totals(double *totals, size_t count);

/* How many blocks `rows` rows have. */
static inline uint64_t complete_blocks(uint64_t rows)
{
    return (rows + COMPLETE_BLOCK - 1) / COMPLETE_BLOCK;
}

#endif
