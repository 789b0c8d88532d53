/* prefix: the first bytes of a rank, by which a selection narrows down a byte at a time. Device code
 * only. */
#ifndef ENGRAM_KERNELS_CUDA_PREFIX_CUH
#define ENGRAM_KERNELS_CUDA_PREFIX_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* The first `bytes` bytes of (key, id). */
struct rank_prefix {
    uint32_t key;
    uint64_t id;
    uint32_t bytes;
};

/* Extends the prefix by the byte of the rank-th of those that have it, when all threads have counted
 * them by their next byte in shared->bins: `rank` is then that among those with the longer prefix,
 * of which there are shared->inside. */
template <typename SHARED>
__device__ __forceinline__ void prefix_extend(SHARED *shared, struct rank_prefix *prefix,
                                              uint32_t *rank)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t before = 0, digit = 0;
        while (before + shared->bins[digit] < *rank)
            before += shared->bins[digit++];
        shared->digit = digit;
        shared->before = before;
        shared->inside = shared->bins[digit];
    }
    __syncthreads();
    if (prefix->bytes < 4)
        prefix->key |= shared->digit << (24 - 8 * prefix->bytes);
    else
        prefix->id |= (uint64_t)shared->digit << (56 - 8 * (prefix->bytes - 4));
    prefix->bytes++;
    *rank -= shared->before;
}

#endif
