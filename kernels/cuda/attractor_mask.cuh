/* attractor_mask: what an attractor's kernels share, and the first of them: the cue in which what
 * is not known is 0, its norm, and, where a mask that all cues share leaves much out, cue and
 * dentate matrix without it. A gathered row has its numbers in the lanes that they have in a whole
 * one, so that each of the 32 partials takes the same products in the same order: what is left out
 * is a product with 0. */
#ifndef ENGRAM_KERNELS_CUDA_ATTRACTOR_MASK_CUH
#define ENGRAM_KERNELS_CUDA_ATTRACTOR_MASK_CUH

#include "kernels/cuda/attractor_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/functions.h"

enum { MASK_THREADS = 256, ATTRACTOR_LANES = VECTOR_LANES };

struct attractor_work {
    struct cuda_attractor work;
    const float *columns;
    uint32_t dimension, stride;
};

/* Of a warp: the canonical dot product of a row with itself, which this kernel may have written. */
__device__ __forceinline__ float attractor_norm(uint32_t dimension, uint32_t stride,
                                                const float *row)
{
    float p = 0.0f, c = 0.0f;
    const bool compensated = canonical_is_compensated(dimension);
    for (uint32_t i = threadIdx.x % 32; i < stride; i += 32) {
        if (compensated)
            canonical_take_compensated(&p, &c, row[i], row[i]);
        else
            canonical_take(&p, row[i], row[i]);
    }
    float sum = sum_tree_of_32(p);
    if (compensated) sum = canonical_corrected(sum, sum_tree_of_32(c));
    return canonical_norm(sum);
}

__device__ __forceinline__ uint32_t warp_total(uint32_t n)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(WARP, n);
#else
    for (int partner = 16; partner > 0; partner /= 2)
        n += __shfl_xor_sync(WARP, n, partner);
    return n;
#endif
}

/* ---------------------------------------------------------------- what is known */

enum { GATHER_ROWS = 16, COLUMN_NONE = 0xffff };

/* columns[i]: of number i of a gathered row, or COLUMN_NONE. All threads call it. */
__device__ void attractor_columns(const struct attractor_work &a, const uint8_t *marks,
                                  uint16_t *columns)
{
    for (uint32_t i = threadIdx.x; i < a.work.width; i += blockDim.x)
        columns[i] = COLUMN_NONE;
    __syncthreads();
    for (uint32_t c = threadIdx.x; c < a.dimension; c += blockDim.x) {
        uint32_t before = 0;
        for (uint32_t k = c % ATTRACTOR_LANES; k < c; k += ATTRACTOR_LANES)
            before += marks[k] != 0;
        const uint32_t place = before * ATTRACTOR_LANES + c % ATTRACTOR_LANES;
        if (marks[c] && place < a.work.width) columns[place] = (uint16_t)c;
    }
    __syncthreads();
}

__global__ void __launch_bounds__(MASK_THREADS)
    attractor_gather_kernel(const struct attractor_work a, const float *dentate)
{
    __shared__ uint16_t columns[VECTOR_COMPENSATED_ABOVE];
    attractor_columns(a, a.work.known, columns);
    const uint32_t first = blockIdx.x * GATHER_ROWS, width = a.work.width;
    const uint32_t rows = ATTRACTOR_SPREAD * a.dimension - first;
    const uint32_t count = (rows < GATHER_ROWS ? rows : GATHER_ROWS) * width;
    for (uint32_t i = threadIdx.x; i < count; i += MASK_THREADS) {
        const uint64_t row = first + i / width;
        const uint32_t column = columns[i % width];
        a.work.gathered[row * width + i % width] =
            column == COLUMN_NONE ? 0.0f : __ldg(&dentate[row * a.stride + column]);
    }
}

/* ---------------------------------------------------------------- mask */

__global__ void __launch_bounds__(MASK_THREADS)
    attractor_mask_kernel(const struct attractor_work a, uint32_t least)
{
    __shared__ uint32_t known;
    __shared__ bool refused;
    __shared__ uint16_t columns[VECTOR_COMPENSATED_ABOVE];
    const uint64_t q = blockIdx.x;
    const float *cue = a.work.cues + q * a.dimension;
    const uint8_t *marks = a.work.known ? a.work.known + q * a.work.known_step : NULL;
    float *state = a.work.states + q * a.stride;
    if (threadIdx.x == 0) known = 0;
    __syncthreads();
    uint32_t mine = 0;
    for (uint32_t c = threadIdx.x; c < a.stride; c += MASK_THREADS) {
        bool kept = c < a.dimension && (!marks || marks[c]);
        state[c] = kept ? cue[c] : 0.0f;
        mine += kept;
    }
    mine = warp_total(mine);
    if (threadIdx.x % 32 == 0) atomicAdd(&known, mine);
    __syncthreads();
    if (threadIdx.x < 32) {
        float norm = attractor_norm(a.dimension, a.stride, state);
        bool bad = known < least || !canonical_is_finite(norm);
        struct cuda_attractor_end end = {0, 0, bad};
        if (threadIdx.x == 0) {
            a.work.norms[q] = bad ? 0.0f : norm;
            a.work.ends[q] = end;
            refused = bad;
        }
    }
    __syncthreads();
    for (uint32_t c = threadIdx.x; c < a.stride && refused; c += MASK_THREADS)
        state[c] = 0.0f;
    if (!a.work.width) return;
    attractor_columns(a, marks, columns);
    for (uint32_t i = threadIdx.x; i < a.work.width; i += MASK_THREADS)
        a.work.gathered[q * a.work.width + i] =
            columns[i] == COLUMN_NONE ? 0.0f : state[columns[i]];
}

#endif
