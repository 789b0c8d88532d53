/* weighted_sum: a column a thread, because each column's sum runs in the rows' order. The loads of
 * eight rows are in flight at once; only the additions wait for each other. */
#include "kernels/cuda/launch.cuh"

enum { WEIGHTED_THREADS = 64 };

__global__ void __launch_bounds__(WEIGHTED_THREADS)
    weighted_sum_kernel(const float *rows, const uint64_t *positions, const float *weights,
                        uint64_t count, uint32_t dimension, uint32_t stride, float *sums)
{
    uint32_t column = blockIdx.x * WEIGHTED_THREADS + threadIdx.x;
    if (column >= dimension) return;
    float sum = 0.0f;
#pragma unroll 8
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row = positions ? __ldg((const unsigned long long *)&positions[i]) : i;
        sum = fmaf(__ldg(&weights[i]), __ldg(&rows[row * stride + column]), sum);
    }
    sums[column] = sum;
}

extern "C" int cuda_weighted_sum(const struct cuda_rows *rows, const uint64_t *positions,
                                 const float *weights, uint64_t count, float *sums,
                                 struct CUstream_st *stream)
{
    if (rows->dimension == 0) return cudaSuccess;
    uint32_t stride = (uint32_t)vector_stride(rows->dimension);
    weighted_sum_kernel<<<blocks_for(rows->dimension, WEIGHTED_THREADS), WEIGHTED_THREADS, 0,
                          stream>>>(rows->rows, positions, weights, count, rows->dimension, stride,
                                    sums);
    return cudaGetLastError();
}
