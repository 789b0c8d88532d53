/* rows_cuda: rows made and summed on a device, bit for bit what kernels/functions.h, random.h and
 * superpose.h define.
 * Owner, thread, errors, and what holds everywhere: as vectors_cuda.h. */
#ifndef ENGRAM_KERNELS_ROWS_CUDA_H
#define ENGRAM_KERNELS_ROWS_CUDA_H

#include "kernels/cuda/vectors_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cuda_function {
    CUDA_EXPONENTIAL,
    CUDA_LOGISTIC,
    CUDA_LOGARITHM,
    CUDA_SINE,
    CUDA_COSINE,
};

/* to[i] = f(from[i]); `to` may be `from`. */
int cuda_functions(enum cuda_function function, const float *from, uint64_t count, float *to,
                   struct CUstream_st *stream);

/* Rows first .. first + count - 1 of normal numbers: kernels/random.h. */
int cuda_random(uint64_t seed, uint32_t dimension, uint64_t first, uint64_t count, float *rows,
                struct CUstream_st *stream);

/* Divides each row by its norm; a row of norm 0 becomes +0. */
int cuda_normalize(uint32_t dimension, float *rows, const float *norms, uint64_t count,
                   struct CUstream_st *stream);

/* Sums of lists of rows: kernels/superpose.h. Lists are given in pieces of one block: each of a
 * list's has SUPERPOSE_BLOCK rows, but the last, which may have fewer. Piece i has the rows
 * positions[offsets[i]] .. positions[offsets[i + 1] - 1]. */
struct cuda_superpose {
    const uint32_t *positions; /* each below rows->count; NULL: position i is row i */
    const float *weights;      /* one a position; NULL: all are 1 */
    const uint64_t *offsets;   /* pieces + 1, never falling */
    uint64_t pieces;
    /* List i has pieces firsts[i] .. firsts[i + 1] - 1, `most` of them or fewer. NULL: each piece
     * is a list, lists = pieces, and the next two are not read. */
    const uint64_t *firsts;
    uint64_t most;
    float *nodes; /* room for a row a piece; `sums` may not overlap it */
    uint64_t lists;
    /* Results: a row a list, and its norm before it is divided by it; +inf: an overflow. */
    float *sums;
    float *norms; /* NULL: not wanted */
    bool unit;    /* rows are divided by their norms, which must be wanted */
};
int cuda_superpose(const struct cuda_rows *rows, const struct cuda_superpose *superpose,
                   struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
