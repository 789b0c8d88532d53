/* attractor_cuda: cues completed by an attractor on a device, bit for bit what kernels/attractor.h
 * defines. The dot products of the dentate matrix come from cuda_scan or cuda_tile, before the last
 * step.
 *
 * Where one mask is all cues', what it does not know may be left out of the products: a gathered
 * row has `width` numbers, of which number m * VECTOR_LANES + j is the m-th known one of partial j
 * (columns j, j + VECTOR_LANES, ...), or +0. So each partial has the same numbers in their order,
 * and a sum differs by the sign of a zero at most, which nobody sees; but not where the dimension
 * has compensated sums and the width has not.
 * Owner, thread, errors, and what holds everywhere: as vectors_cuda.h. */
#ifndef ENGRAM_KERNELS_ATTRACTOR_CUDA_H
#define ENGRAM_KERNELS_ATTRACTOR_CUDA_H

#include "kernels/attractor.h"
#include "kernels/cuda/vectors_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cuda_attractor_step {
    CUDA_ATTRACTOR_MASK,   /* cues to states, in which what is not known is 0 */
    CUDA_ATTRACTOR_GATHER, /* the dentate matrix without what no cue knows */
    CUDA_ATTRACTOR_SETTLE, /* sums to states as CA3 leaves them */
};

/* refused: fewer than attractor_known_least numbers of the cue are known, or it is not finite, or
 * its norm is not. Its state is all 0 after the first step. */
struct cuda_attractor_end {
    uint32_t rounds, converged, refused;
};

/* One step for each of `count` cues, by the weights, which are the rows' numbers: columns,
 * rows->count = rows->dimension of them, at most ATTRACTOR_DIMENSION_MAX. */
struct cuda_attractor {
    enum cuda_attractor_step step;
    uint32_t kept; /* of CA3: 1 .. dimension */
    uint64_t count;
    const float *cues;    /* MASK: count x dimension, without pads */
    const uint8_t *known; /* MASK: bytes, known_step apart (0: one line for all); NULL: all are */
    uint64_t known_step;
    uint32_t width;    /* MASK: 0 if nothing is gathered; GATHER: VECTOR_LANES times the most
                             numbers of a partial that are known, or more */
    float *gathered;   /* MASK: count x width: of the states; GATHER: of the dentate's rows */
    float *states;     /* count x stride, padded with +0: written by both */
    float *norms;      /* count: of the states, written by both */
    const float *sums; /* SETTLE: count x ATTRACTOR_SPREAD * dimension */
    float *settled;    /* SETTLE: count x dimension: the states again */
    struct cuda_attractor_end *ends; /* count: MASK writes refused, SETTLE the others */
};
int cuda_attractor(const struct cuda_rows *columns, const struct cuda_attractor *work,
                   struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
