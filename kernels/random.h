/* random: rows of normal numbers that a seed names, bit for bit.
 * Owner:  the process; one table a variant, const, chosen once (random_choose). The functions below
 *         are the definition, included by C and by CUDA.
 * Thread: any; no state: a number depends on seed, row, column and dimension alone.
 * Errors: none.
 *
 * Words: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * 2011). Key: the seed's lower half, its upper half. Counter: column / 4, 0, the row's lower half,
 * its upper half. Of the four words (w0, w1) make columns 4 i and 4 i + 1, and (w2, w3) the next
 * two, by Box and Muller ("A note on the generation of random normal deviates", 1958):
 *     u = fma((float)w0, 2^-32, 2^-33)           in [2^-33, 1]; the conversion rounds to nearest
 *     r = sqrt(fma(-2, log u, 0))                correctly rounded; at most 6.77
 *     s = r * (1 / sqrt((float)dimension))       quotient and root correctly rounded
 *     even column: s * cosine, odd column: s * sine, of (w1 / 256) / 2^24 of a turn
 * with logarithm, cosine and sine of kernels/functions.h. So the numbers' variance is 1 / dimension
 * and a row's expected squared norm 1. Rows are padded with +0 to their stride.
 *
 * Unit rows are these, divided by their norms: `norms` and `normalize` of kernels/vectors.h. */
#ifndef ENGRAM_KERNELS_RANDOM_H
#define ENGRAM_KERNELS_RANDOM_H

#include "kernels/functions.h"

struct random_words {
    uint32_t w0, w1, w2, w3;
};

/* Ten rounds; the key grows by Weyl's sequence between them. */
CANONICAL_INLINE struct random_words random_philox(struct random_words counter, uint64_t seed)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t w0 = counter.w0, w1 = counter.w1, w2 = counter.w2, w3 = counter.w3;
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)w0 * 0xd2511f53u, b = (uint64_t)w2 * 0xcd9e8d57u;
        w0 = (uint32_t)(b >> 32) ^ w1 ^ k0;
        w1 = (uint32_t)b;
        w2 = (uint32_t)(a >> 32) ^ w3 ^ k1;
        w3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    struct random_words words = {w0, w1, w2, w3};
    return words;
}

/* The words of columns 4 block .. 4 block + 3. */
CANONICAL_INLINE struct random_words random_block(uint64_t seed, uint64_t row, uint32_t block)
{
    struct random_words counter = {block, 0, (uint32_t)row, (uint32_t)(row >> 32)};
    return random_philox(counter, seed);
}

CANONICAL_INLINE float random_square_root(float value)
{
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(value);
#else
    return sqrtf(value);
#endif
}

/* What each number is multiplied with. */
CANONICAL_INLINE float random_scale(uint32_t dimension)
{
    return canonical_divide(1.0f, random_square_root((float)dimension));
}

/* cosine: the even column's number; sine: the odd one's. */
CANONICAL_INLINE struct canonical_point random_pair(uint32_t first, uint32_t second, float scale)
{
    float u = fmaf((float)first, 0x1p-32f, 0x1p-33f);
    float radius = random_square_root(fmaf(-2.0f, canonical_logarithm(u), 0.0f));
    float scaled = canonical_multiply(radius, scale);
    struct canonical_point point = canonical_turn(second >> 8);
    point.sine = canonical_multiply(scaled, point.sine);
    point.cosine = canonical_multiply(scaled, point.cosine);
    return point;
}

struct random_kernels {
    const char *name; /* as a table of kernels/vectors.h */

    /* Writes rows first .. first + count - 1, vector_stride(dimension) floats apart. */
    void (*normal)(uint64_t seed, uint32_t dimension, uint64_t first, size_t count, float *rows);
};

extern const struct random_kernels random_scalar;
#if defined(__x86_64__)
extern const struct random_kernels random_avx2;
extern const struct random_kernels random_avx512;
#elif defined(__aarch64__)
extern const struct random_kernels random_neon;
#endif

/* Returns the table of the variant that vectors_choose returns for this name, or NULL. */
const struct random_kernels *random_choose(const char *name);

#endif
