/* covariance_cuda: mean and covariance on a device, bit for bit what kernels/covariance.h defines.
 * Owner, thread, errors, and what holds everywhere: as vectors_cuda.h. */
#ifndef ENGRAM_KERNELS_COVARIANCE_CUDA_H
#define ENGRAM_KERNELS_COVARIANCE_CUDA_H

#include "kernels/covariance.h"
#include "kernels/cuda/vectors_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CUDA_COVARIANCE_TILE = 64, /* columns and rows of a tile of products */
    CUDA_COVARIANCE_TILE_NUMBERS = CUDA_COVARIANCE_TILE * CUDA_COVARIANCE_TILE,
    CUDA_COVARIANCE_BLOCKS_MAX = 32 /* that are added at once; a power of two */
};

/* In this order: SUM and MEAN once, then, for any range of tiles, ADD for each run of blocks and
 * WRITE. */
enum cuda_covariance_stage {
    CUDA_COVARIANCE_SUM,  /* columns of all blocks -> sums */
    CUDA_COVARIANCE_MEAN, /* sums, which lose their meaning -> mean */
    CUDA_COVARIANCE_ADD,  /* products of some tiles and blocks, folded -> part */
    CUDA_COVARIANCE_WRITE /* parts of these tiles, folded and divided -> covariance */
};

/* Tiles on and above the diagonal count from 0, those of the first rows of products first. */
struct cuda_covariance {
    enum cuda_covariance_stage stage;
    uint64_t count;            /* of rows, 1 or more, in their order */
    const uint32_t *positions; /* where they are among rows; NULL: i is row i */
    const float *weights;      /* one each; NULL: all are 1 */
    double total, divisor;
    double *sums; /* blocks of count x stride */
    double *mean; /* stride numbers */
    uint64_t first_tile, tiles;
    /* ADD: blocks [first_block, first_block + blocks), of which first_block is a multiple of a
     * power of two that blocks is, or than which it is less, at most CUDA_COVARIANCE_BLOCKS_MAX */
    uint64_t first_block, blocks;
    double *nodes; /* ADD: scratch of blocks x tiles x TILE_NUMBERS */
    double *part;  /* ADD: tiles x TILE_NUMBERS; WRITE: the same for each of `parts` */
    uint64_t parts;
    double *covariance; /* WRITE: dimension x dimension */
};
int cuda_covariance(const struct cuda_rows *rows, const struct cuda_covariance *work,
                    struct CUstream_st *stream);

/* Tiles of so many dimensions. */
static inline uint64_t cuda_covariance_tiles(uint32_t dimension)
{
    uint64_t sides = (dimension + CUDA_COVARIANCE_TILE - 1) / CUDA_COVARIANCE_TILE;
    return sides * (sides + 1) / 2;
}

#ifdef __cplusplus
}
#endif
#endif
