/* transform: the discrete Fourier transform of M complex points, bit for bit, and its plan.
 * Owner:  plans lie in memory of the caller and are immutable.
 * Thread: any; no state, no allocation.
 * Errors: none.
 *
 *     F(z)[k] = sum over n of z[n] exp(-2 pi i k n / M)
 *
 * Roots. cos and sin of 2 pi k / M are the binary32 numbers nearest to the true ones.
 *
 * Product with a root (c, s) = (cos, sin):
 *     z exp(-i phi) = (fma(z.re, c, (z.im s)), fma(z.im, c, -(z.re s)))        brackets are rounded
 * Where c or s is 0 this is exact and may be left out: signs of zeros are open (hrr.h).
 *
 * Passes. M = r_1 r_2 .. r_p. Pass i takes L = M / (r_1 .. r_(i-1)) points apart, S = L / r_i:
 * for each of the M / L transforms of L points that the passes before have left, and each n < S,
 *     x[h] = z[h S + n], h < r_i;   X = codelet of r_i points;   z'[g][n] = X[g] exp(-2 pi i g n/L)
 * and the S points z'[g][.] are transformed by the passes after. In the last pass S = 1, without a
 * root. F(z)[g_1 + r_1 g_2 + r_1 r_2 g_3 + ..] is what the digits g of the passes lead to.
 *
 * Codelets are written in transform_codelets.h, with fixed radices and constants, whose text C and
 * CUDA share. A thread that holds x[0..r-1] in registers needs one exchange of all points between
 * two passes. In which order columns are taken does not matter to a bit.
 *
 * Which radices. M = 2^a 3^b 5^c 7^e. In this order: a 7 for each e; then the fives by pairs, as
 * 25, and of an odd one 20 if a = 2 or a >= 6, else 5; the threes by pairs, as 9, and of an odd
 * one 24 if a = 3 or a >= 7 (after what the 20 took), else 3; then what is left of 2^a:
 *     1..5: one factor; 6: 4, 16; 7: 8, 16; 8: 16, 16; 9: 16, 32; 10: 32, 32; 11: 8, 16, 16;
 *     12: 16, 16, 16; 13: 16, 16, 32; 14: 16, 32, 32.
 * If the last is not 16 or 32, which leave columns in multiples of 16 for lanes and threads, the
 * radices are sorted to rise. M has a plan if 2 <= M <= 16,384, it has no other prime factor, and
 * there are at most TRANSFORM_PASSES_MAX radices. */
#ifndef ENGRAM_KERNELS_TRANSFORM_H
#define ENGRAM_KERNELS_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRANSFORM_PASSES_MAX = 6, TRANSFORM_POINTS_MAX = 16384 };

struct transform_plan {
    uint32_t points; /* M */
    uint32_t passes;
    uint32_t radix[TRANSFORM_PASSES_MAX];
    /* Where the roots of pass i begin, in floats from the table's start: the cosines of
     * 2 pi g n / L at (g - 1) S + n for g = 1..r - 1, then as many sines; none of the last pass. */
    uint32_t roots[TRANSFORM_PASSES_MAX];
};

/* Fills in everything and returns true, or returns false if M has no plan. */
bool transform_plan_init(uint32_t points, struct transform_plan *plan);

/* Floats in the table of roots. */
size_t transform_roots_count(const struct transform_plan *plan);

/* Writes the table of roots. */
void transform_roots_make(const struct transform_plan *plan, float *table);

/* cos and sin of 2 pi k / n, rounded to nearest, for n <= 32,768 and any k. */
struct transform_root {
    float cosine, sine;
};
struct transform_root transform_root(uint32_t k, uint32_t n);

#endif
