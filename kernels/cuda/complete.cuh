/* complete: what the kernels of a round of completion share. Device code, and the launchers that
 * complete.cu calls. Errors: as vectors_cuda.h. */
#ifndef ENGRAM_KERNELS_CUDA_COMPLETE_CUH
#define ENGRAM_KERNELS_CUDA_COMPLETE_CUH

#include "kernels/complete.h"
#include "kernels/cuda/complete_cuda.h"
#include "kernels/cuda/launch.cuh"

enum { COMPLETE_THREADS = 256, COMPLETE_WARPS = COMPLETE_THREADS / 32 };

/* What all kernels read. */
struct complete_round {
    struct cuda_completion work;
    struct cuda_rows rows;
    uint64_t blocks;
    uint32_t quads; /* of four columns in a row */
};

/* Adds the rows of each block with the shares in work.scores, for the runs in work.runs, and folds
 * the blocks' sums into the first (complete_sums.cu). */
int complete_sums_launch(const struct complete_round *r, cudaStream_t stream);

#endif
