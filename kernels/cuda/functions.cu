/* functions: one thread for each number. */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows_cuda.h"
#include "kernels/functions.h"

enum { FUNCTION_THREADS = 256 };

__device__ __forceinline__ float function_of(enum cuda_function function, float x)
{
    switch (function) {
    case CUDA_EXPONENTIAL: return canonical_exponential(x);
    case CUDA_LOGISTIC: return canonical_logistic(x);
    case CUDA_LOGARITHM: return canonical_logarithm(x);
    case CUDA_SINE: return canonical_angle_sine(x);
    case CUDA_COSINE: return canonical_angle_cosine(x);
    }
    return x;
}

__global__ void __launch_bounds__(FUNCTION_THREADS)
    functions_kernel(enum cuda_function function, const float *from, uint64_t count, float *to)
{
    uint64_t i = (uint64_t)blockIdx.x * FUNCTION_THREADS + threadIdx.x;
    if (i < count) to[i] = function_of(function, from[i]);
}

extern "C" int cuda_functions(enum cuda_function function, const float *from, uint64_t count,
                              float *to, struct CUstream_st *stream)
{
    if (count == 0) return cudaSuccess;
    functions_kernel<<<blocks_for(count, FUNCTION_THREADS), FUNCTION_THREADS, 0, stream>>>(
        function, from, count, to);
    return cudaGetLastError();
}
