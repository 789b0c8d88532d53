/* superpose: sums of lists of rows, bit for bit.
 * Owner:  the process; one table a variant, const, chosen once (superpose_choose).
 * Thread: any; no state, no allocation.
 * Errors: none. A sum that overflows has elements that are not finite: its norm (vectors.h) then is
 *         not finite either, and vectors_find_bad names the list.
 *
 * A list's rows are taken in blocks of SUPERPOSE_BLOCK, the last one shorter. In a block, for each
 * column c and i rising from +0:
 *     sum = fma(weight[i], row[i][c], sum)         without weights: sum + row[i][c]
 * The blocks' sums are the leaves of a tree: neighbours are added, the first to the second, the
 * third to the fourth and so on; if one is left over it is carried as it is; and again with what
 * comes out, until one is left. An empty list's sum is +0.
 *
 * The tree does not depend on who computes it: the nodes of level k are the sums of the list's
 * pieces of 2^k blocks, cut from its beginning, the last one shorter. So a long list may be cut
 * into pieces of the same power of two of blocks, anyone may sum each of them with `sums`, and
 * `fold` of those sums is the sum of the list.
 *
 * Unit sums are these, divided by their norms: `norms` and `normalize` of vectors.h, which leave a
 * zero sum zero. */
#ifndef ENGRAM_KERNELS_SUPERPOSE_H
#define ENGRAM_KERNELS_SUPERPOSE_H

#include "kernels/vectors.h"

enum { SUPERPOSE_BLOCK = 256 };

/* Lists of rows one behind the other: list i has rows[offsets[i]] .. rows[offsets[i + 1] - 1], each
 * of `dimension` floats with any alignment. A row may be in several lists. */
struct superpose_lists {
    const float *const *rows;
    const float *weights;    /* one a row, finite; NULL: all are 1 */
    const uint64_t *offsets; /* count + 1, never falling */
    size_t count;
};

struct superpose_kernels {
    const char *name; /* as a table of kernels/vectors.h */

    /* Writes the sum of each list, vector_stride(dimension) floats apart, padded with +0. scratch:
     * superpose_scratch(dimension, the longest list) floats. */
    void (*sums)(uint32_t dimension, const struct superpose_lists *lists, float *scratch,
                 float *sums);

    /* Folds count >= 1 nodes, vector_stride(dimension) floats apart: the first becomes their sum,
     * the others have no meaning afterwards. */
    void (*fold)(uint32_t dimension, float *nodes, size_t count);

    /* Returns the bits of the largest magnitude, 0 of none; a NaN counts as the largest. */
    uint32_t (*largest)(const float *numbers, size_t count);
};

extern const struct superpose_kernels superpose_scalar;
#if defined(__x86_64__)
extern const struct superpose_kernels superpose_avx2;
extern const struct superpose_kernels superpose_avx512;
#elif defined(__aarch64__)
extern const struct superpose_kernels superpose_neon;
#endif

/* Returns the table of the variant that vectors_choose returns for this name, or NULL. */
const struct superpose_kernels *superpose_choose(const char *name);

/* Floats of scratch for lists of up to `longest` rows: a node for each level of the tree but the
 * last. */
static inline size_t superpose_scratch(uint32_t dimension, uint64_t longest)
{
    size_t levels = 0;
    for (uint64_t blocks = (longest + SUPERPOSE_BLOCK - 1) / SUPERPOSE_BLOCK; blocks > 1;
         blocks /= 2)
        levels++;
    return levels * vector_stride(dimension);
}

#endif
