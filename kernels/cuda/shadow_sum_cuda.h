/* shadow_sum_cuda: checksums of rows in int8 on a device (kernels/shadow_sum.h).
 * Owner, thread, errors, and what holds everywhere: as vectors_cuda.h. */
#ifndef ENGRAM_KERNELS_SHADOW_SUM_CUDA_H
#define ENGRAM_KERNELS_SHADOW_SUM_CUDA_H

#include "kernels/cuda/shadow_cuda.h"
#include "kernels/shadow_sum.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a look at some tiles found. */
struct cuda_shadow_found {
    unsigned long long differ; /* tiles whose rows have another sum */
    unsigned long long rows;   /* that have a norm */
    double lost;               /* the sum of lost / norm over those */
};

/* Adds the parts of rows first .. first + count - 1 to their tiles' sums, or takes them out. */
int cuda_shadow_sum(uint32_t dimension, uint64_t first, uint64_t count, bool out,
                    const struct cuda_shadow *shadow, uint64_t *sums, struct CUstream_st *stream);

/* Compares the tiles of rows first .. first + count - 1 with their sums; first is a multiple of
 * SHADOW_SUM_ROWS, and so is count unless they end with the last row. Adds to *found, which starts
 * as the caller leaves it. Reads the rows' norms. */
int cuda_shadow_check(const struct cuda_rows *rows, uint64_t first, uint64_t count,
                      const struct cuda_shadow *shadow, const uint64_t *sums,
                      struct cuda_shadow_found *found, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
