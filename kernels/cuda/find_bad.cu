/* find_bad: the first of many norms that is not finite. One block reads all of them: some
 * microseconds for 100,000, and no memory has to be set before. */
#include "kernels/cuda/launch.cuh"

enum { FIND_BAD_THREADS = 1024 };

__global__ void __launch_bounds__(FIND_BAD_THREADS)
    find_bad_kernel(const float *norms, uint64_t count, uint64_t *first)
{
    __shared__ unsigned long long least;
    if (threadIdx.x == 0) least = ~0ull;
    __syncthreads();
    for (uint64_t i = threadIdx.x; i < count; i += FIND_BAD_THREADS)
        if (!(__ldg(&norms[i]) < INFINITY)) {
            atomicMin(&least, (unsigned long long)i);
            break;
        }
    __syncthreads();
    if (threadIdx.x == 0) *first = least;
}

extern "C" int cuda_find_bad(const float *norms, uint64_t count, uint64_t *first,
                             struct CUstream_st *stream)
{
    find_bad_kernel<<<1, FIND_BAD_THREADS, 0, stream>>>(norms, count, first);
    return cudaGetLastError();
}
