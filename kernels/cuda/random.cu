/* random: one thread for the four numbers of a block of words, stored at once. */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows_cuda.h"
#include "kernels/random.h"

enum { RANDOM_THREADS = 256 };

struct random_job {
    uint64_t seed, first, count;
    float *rows;
    uint32_t dimension, quads; /* of four numbers in a row, the pad's included */
    float scale;
};

__global__ void __launch_bounds__(RANDOM_THREADS) random_kernel(const struct random_job job)
{
    uint64_t i = (uint64_t)blockIdx.x * RANDOM_THREADS + threadIdx.x;
    if (i >= job.count * job.quads) return;
    uint64_t row = i / job.quads;
    uint32_t block = (uint32_t)(i - row * job.quads), column = 4 * block;
    struct random_words words = random_block(job.seed, job.first + row, block);
    struct canonical_point near = random_pair(words.w0, words.w1, job.scale);
    struct canonical_point far = random_pair(words.w2, words.w3, job.scale);
    float4 numbers;
    numbers.x = column < job.dimension ? near.cosine : 0.0f;
    numbers.y = column + 1 < job.dimension ? near.sine : 0.0f;
    numbers.z = column + 2 < job.dimension ? far.cosine : 0.0f;
    numbers.w = column + 3 < job.dimension ? far.sine : 0.0f;
    ((float4 *)job.rows)[i] = numbers;
}

extern "C" int cuda_random(uint64_t seed, uint32_t dimension, uint64_t first, uint64_t count,
                           float *rows, struct CUstream_st *stream)
{
    if (count == 0) return cudaSuccess;
    struct random_job job = {};
    job.seed = seed;
    job.first = first;
    job.count = count;
    job.rows = rows;
    job.dimension = dimension;
    job.quads = (uint32_t)(vector_stride(dimension) / 4);
    job.scale = random_scale(dimension);
    random_kernel<<<blocks_for(count * job.quads, RANDOM_THREADS), RANDOM_THREADS, 0, stream>>>(
        job);
    return cudaGetLastError();
}
