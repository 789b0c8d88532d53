/* covariance: the mean and the covariance of rows, in binary64, bit for bit.
 * Owner:  the process; one table a variant, const, chosen once (covariance_choose). The functions
 *         named covariance_ are the definition, included by C and by CUDA.
 * Thread: any; no state, no allocation.
 * Errors: none. Inputs are validated before they come here: rows have finite norms (canonical.h),
 *         weights are finite and not negative. No intermediate overflows then.
 *
 * n rows x_r of d binary32 numbers, in an order that the caller defines, and weights w_r of
 * binary32, 1 each if none are given. All arithmetic is of binary64, each operation rounded once;
 * rows and weights are converted, which is exact. Source: the two-pass algorithm (Chan, Golub and
 * LeVeque 1983), weighted as numpy.cov does with aweights.
 *
 * Rows are taken in blocks of COVARIANCE_BLOCK, cut from the first row on, the last one shorter.
 * Each sum below is, in a block, one chain from +0 with r rising, and the blocks' sums are the
 * leaves of a tree: neighbours are added, the first to the second, the third to the fourth and so
 * on; one that is left over is carried as it is; and again with what comes out, until one is left.
 *
 *   total    W    = sum of w_r                   s = s + w_r
 *   squares  Q    = sum of w_r^2                 s = fma(w_r, w_r, s)
 *   column   S_c  = sum of w_r x_rc              s = fma(w_r, x_rc, s)
 *   mean     m_c  = S_c / W
 *   centred  y_rc = x_rc - m_c
 *   product  P_ij = sum of w_r y_ri y_rj, i <= j s = fma(w_r y_ri, y_rj, s), w_r y_ri rounded
 *   divisor  f    = W - Q / W, the quotient rounded; it must be above 0
 *   C_ij = C_ji   = P_ij / f, i <= j
 *
 * A weight of 1 changes no bit, so rows without weights need no multiplication; and f is n - 1
 * then. A chain is one rounding after the other, whoever computes it; level k of the tree is the
 * sums of pieces of 2^k blocks, cut from the first block on, so a piece of a power of two of blocks
 * may be summed by anyone, and the tree over such pieces is the rest of the tree. */
#ifndef ENGRAM_KERNELS_COVARIANCE_H
#define ENGRAM_KERNELS_COVARIANCE_H

#include "kernels/vectors.h"

enum {
    COVARIANCE_BLOCK = 4096,
    COVARIANCE_TILE = 192, /* columns and rows of a tile of products */
    COVARIANCE_DEPTH = 128 /* most rows that are packed at once */
};

/* The numbers of a tile, and those of the packed rows of one side. */
enum {
    COVARIANCE_TILE_NUMBERS = COVARIANCE_TILE * COVARIANCE_TILE,
    COVARIANCE_PACK_NUMBERS = COVARIANCE_TILE * COVARIANCE_DEPTH
};

/* Some rows, of any alignment, and their weights. */
struct covariance_rows {
    const float *const *rows;
    const float *weights; /* NULL: all are 1 */
    size_t count;
};

/* Columns [first, first + count) of the rows, count <= COVARIANCE_TILE. */
struct covariance_columns {
    size_t first, count;
};

struct covariance_kernels {
    const char *name; /* as a table of kernels/vectors.h */
    /* Rows that are packed and added at once, so that it takes some tenths of a millisecond:
     * COVARIANCE_DEPTH or less. */
    size_t depth;

    /* Continues the chains of columns [first, first + columns): sums has a place for each. */
    void (*sum)(const struct covariance_rows *rows, size_t first, size_t columns, double *sums);

    /* Centres and packs some columns of at most `depth` rows, as the left or the right side of
     * products; only the left side has weights. mean: of column 0 on. packed:
     * COVARIANCE_PACK_NUMBERS, 64-byte aligned. */
    void (*pack_left)(const struct covariance_rows *rows, struct covariance_columns columns,
                      const double *mean, double *packed);
    void (*pack_right)(const struct covariance_rows *rows, struct covariance_columns columns,
                       const double *mean, double *packed);

    /* Continues the chains of a tile with `depth` packed rows: the product of column i of the left
     * side and j of the right is at tile[j * COVARIANCE_TILE + i], 64-byte aligned. What lies
     * beyond the columns is undefined, but written. diagonal: both sides are the same columns, and
     * products with i > j are undefined. */
    void (*add)(const double *left, size_t left_columns, const double *right, size_t right_columns,
                size_t depth, bool diagonal, double *tile);

    /* Adds `numbers` numbers, a multiple of 8, 64-byte aligned, to those at `to`. */
    void (*fold)(const double *from, size_t numbers, double *to);
};

extern const struct covariance_kernels covariance_scalar;
#if defined(__x86_64__)
extern const struct covariance_kernels covariance_avx2;
extern const struct covariance_kernels covariance_avx512;
#elif defined(__aarch64__)
extern const struct covariance_kernels covariance_neon;
#endif

/* Returns the table of the variant that vectors_choose returns for this name, or NULL. */
const struct covariance_kernels *covariance_choose(const char *name);

/* How many blocks `rows` rows have. */
static inline uint64_t covariance_blocks(uint64_t rows)
{
    return (rows + COVARIANCE_BLOCK - 1) / COVARIANCE_BLOCK;
}

/* Folds count >= 1 nodes, `stride` numbers apart and `numbers` long, by the tree; the first becomes
 * their sum, the others lose their meaning. */
void covariance_fold(double *nodes, size_t stride, size_t numbers, size_t count);

/* The sums of weights over a block of at most COVARIANCE_BLOCK rows: total and squares. */
void covariance_weigh(const float *weights, size_t count, double sums[2]);

/* The divisor; 0 or less: there is none. */
double covariance_divisor(double total, double squares);

/* Writes a tile of products, divided, to its place in the covariance of `dimension` columns, and
 * mirrors it. left.first <= right.first; equal: on the diagonal. */
void covariance_write(const double *tile, struct covariance_columns left,
                      struct covariance_columns right, double divisor, uint32_t dimension,
                      double *out);

#endif
