/* complete_cuda: rounds of pattern completion on a device, bit for bit what kernels/complete.h
 * defines. The dot products of a round come from cuda_scan or cuda_tile before.
 * Owner, thread, errors, and what holds everywhere: as vectors_cuda.h. */
#ifndef ENGRAM_KERNELS_COMPLETE_CUDA_H
#define ENGRAM_KERNELS_COMPLETE_CUDA_H

#include "kernels/complete.h"
#include "kernels/cuda/vectors_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The best row of a block, and the largest norm. */
struct complete_block_best {
    uint64_t id;
    uint32_t row;
    float score, norm;
    uint32_t reserved;
};

/* One round for each of `states` states over rows->count >= 1 rows. */
struct cuda_completion {
    uint64_t states; /* at most CUDA_COMPLETION_STATES_MAX */
    uint32_t begin;  /* 1: only makes the states of the cues, and records; no round */
    uint32_t rounds; /* after so many, or when it stands still, a state is done */
    float beta;
    uint32_t unit;
    const float *cues;    /* states x stride */
    const uint8_t *known; /* bytes, known_step apart (0: one line for all); NULL: none is */
    uint64_t known_step;
    const uint64_t *ids;               /* of the rows */
    float *state;                      /* states x stride, padded with +0 */
    float *moved;                      /* scratch: states x stride */
    float *scores;                     /* in: states x rows dot products; scratch afterwards */
    struct complete_block_best *bests; /* scratch: states x blocks */
    uint32_t *runs;                    /* scratch: states x blocks; bit i: run i has a share */
    double *totals;                    /* scratch: states x blocks */
    float *sums;                       /* scratch: states x blocks x stride */
    struct complete_record *records;   /* states */
};
enum { CUDA_COMPLETION_STATES_MAX = 128 };
int cuda_complete(const struct cuda_rows *rows, const struct cuda_completion *work,
                  struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
