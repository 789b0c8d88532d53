/* cluster: what the kernels of both rules of clustering share: the least of a block's keys. Device
 * code only. */
#ifndef ENGRAM_KERNELS_CUDA_CLUSTER_CUH
#define ENGRAM_KERNELS_CUDA_CLUSTER_CUH

#include "kernels/cuda/cluster_cuda.h"

#include <cuda_runtime.h>

#include "kernels/cuda/launch.cuh"

struct cluster_run {
    struct cuda_rows rows;
    struct cuda_cluster work;
    uint32_t stride;
};

/* Two keys, of which the first decides, and whose they are. */
struct cluster_key {
    uint64_t first, second;
    uint32_t whose;
};

__device__ __forceinline__ struct cluster_key cluster_key_none(void)
{
    const struct cluster_key none = {~0ull, ~0ull, 0};
    return none;
}

/* Rises from the largest value to the smallest, and with id where those are equal. */
__device__ __forceinline__ uint64_t cluster_key_of(float value, uint32_t id)
{
    return (uint64_t)sink_key(value, false) << 32 | id;
}

__device__ __forceinline__ float cluster_key_value(uint64_t key)
{
    return sink_score((uint32_t)(key >> 32), false);
}

__device__ __forceinline__ bool cluster_key_before(const struct cluster_key &a,
                                                   const struct cluster_key &b)
{
    return a.first != b.first ? a.first < b.first : a.second < b.second;
}

__device__ __forceinline__ struct cluster_key cluster_key_least_of_warp(struct cluster_key k)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        struct cluster_key other;
        other.first = __shfl_xor_sync(WARP, k.first, step);
        other.second = __shfl_xor_sync(WARP, k.second, step);
        other.whose = __shfl_xor_sync(WARP, k.whose, step);
        if (cluster_key_before(other, k)) k = other;
    }
    return k;
}

/* All threads of the block call it, and get the block's least. room: 32 places of shared memory. */
__device__ __forceinline__ struct cluster_key cluster_key_least(struct cluster_key k,
                                                                struct cluster_key *room)
{
    const uint32_t warps = blockDim.x / 32;
    k = cluster_key_least_of_warp(k);
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = k;
    __syncthreads();
    k = threadIdx.x % 32 < warps ? room[threadIdx.x % 32] : cluster_key_none();
    return cluster_key_least_of_warp(k);
}

int cluster_average_launch(const struct cluster_run &r, cudaStream_t stream);
int cluster_mean_launch(const struct cluster_run &r, cudaStream_t stream);
int cluster_begin_launch(const struct cluster_run &r, cudaStream_t stream);
int cluster_again_launch(const struct cluster_run &r, cudaStream_t stream);

#endif
