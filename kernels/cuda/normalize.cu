/* normalize: one thread for four numbers of a row. */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/normalize.cuh"
#include "kernels/cuda/rows_cuda.h"

enum { NORMALIZE_THREADS = 256 };

__global__ void __launch_bounds__(NORMALIZE_THREADS)
    normalize_kernel(float4 *rows, const float *norms, uint64_t count, uint32_t quads)
{
    uint64_t i = (uint64_t)blockIdx.x * NORMALIZE_THREADS + threadIdx.x;
    if (i >= count * quads) return;
    rows[i] = normalize_quad(rows[i], __ldg(&norms[i / quads]));
}

extern "C" int cuda_normalize(uint32_t dimension, float *rows, const float *norms, uint64_t count,
                              struct CUstream_st *stream)
{
    if (count == 0) return cudaSuccess;
    uint32_t quads = (uint32_t)(vector_stride(dimension) / 4);
    normalize_kernel<<<blocks_for(count * quads, NORMALIZE_THREADS), NORMALIZE_THREADS, 0,
                       stream>>>((float4 *)rows, norms, count, quads);
    return cudaGetLastError();
}
