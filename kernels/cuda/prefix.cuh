/* prefix: the first bytes of a rank, by which a selection narrows down a byte at a time. Device
 * code only. */
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

/* The bin of the rank-th, by a warp: a lane adds up eight bins. */
template <typename SHARED>
__device__ __forceinline__ void prefix_digit(SHARED *shared, uint32_t rank)
{
    enum { EACH = 256 / 32 };
    static_assert(sizeof shared->bins == 256 * sizeof(uint32_t), "a bin for each byte");
    const uint32_t *bins = shared->bins + threadIdx.x * EACH;
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        sum += bins[i];
    uint32_t end = sum;
    for (int o = 1; o < 32; o *= 2) {
        const uint32_t below = __shfl_up_sync(0xffffffffu, end, o);
        if (threadIdx.x >= (unsigned)o) end += below;
    }
    uint32_t before = end - sum, digit = 0;
    if (before >= rank || end < rank) return; /* it is another lane's */
    while (before + bins[digit] < rank)
        before += bins[digit++];
    shared->digit = threadIdx.x * EACH + digit;
    shared->before = before;
    shared->inside = bins[digit];
}

/* Extends the prefix by the byte of the rank-th of those that have it, when all threads have
 * counted them by their next byte in shared->bins: `rank` is then that among those with the longer
 * prefix, of which there are shared->inside. */
template <typename SHARED>
__device__ __forceinline__ void prefix_extend(SHARED *shared, struct rank_prefix *prefix,
                                              uint32_t *rank)
{
    __syncthreads();
    if (threadIdx.x < 32) prefix_digit(shared, *rank);
    __syncthreads();
    if (prefix->bytes < 4)
        prefix->key |= shared->digit << (24 - 8 * prefix->bytes);
    else
        prefix->id |= (uint64_t)shared->digit << (56 - 8 * (prefix->bytes - 4));
    prefix->bytes++;
    *rank -= shared->before;
}

#endif
