/* hrr_job: what the kernels of binding are told, and what all of them do.
 * Owner:  hrr.cu, which says what runs where, and the hrr_*.cu.
 * Thread, errors: as hrr_cuda.h. */
#ifndef ENGRAM_KERNELS_CUDA_HRR_JOB_CUH
#define ENGRAM_KERNELS_CUDA_HRR_JOB_CUH

#include "kernels/cuda/hrr_cells.cuh"
#include "kernels/cuda/hrr_cuda.h"

#include <cuda_runtime.h>

static const unsigned HRR_WARP = 0xffffffffu;

struct hrr_side {
    struct cuda_hrr_rows rows;
    bool turned;
};

/* The spectrum of `kept` stays where it is, if all pairs have one row there. */
struct hrr_job {
    struct hrr_side moving, kept;
    const float *roots, *product_roots;
    uint32_t product_step;
    const float *exact_roots; /* NULL: not the exact inverse */
    uint32_t exact_step;
    const uint64_t *offsets; /* NULL: pairs; or lists of rows of `moving`, count of them */
    uint32_t dimension;
    int32_t width;
    float factor;
    uint64_t count;
    float *out;
    uint64_t out_step;
    unsigned long long *failed;
    struct transform_plan plan;
    bool planned;
    struct hrr_cell *scratch; /* of spectra that do not fit shared memory */
    uint64_t scratch_bytes;
};

__device__ __forceinline__ const float *operand_row(const struct hrr_side &operand, uint64_t pair)
{
    const struct cuda_hrr_rows &r = operand.rows;
    if (r.step == 0) return r.rows;
    return r.rows + (r.positions ? __ldg(&r.positions[pair]) : pair) * r.step;
}

__device__ __forceinline__ void note_failure(const struct hrr_job &job, uint64_t pair, float most)
{
    if (!(most <= FLT_MAX)) atomicMin(job.failed, (unsigned long long)pair);
}

__device__ __forceinline__ struct hrr_scaling job_scaling(const struct hrr_job &job, int exponents)
{
    return scaling_of(job.factor, exponents - 2 - job.width);
}

template <uint32_t T> __device__ __forceinline__ float group_largest(float most)
{
#pragma unroll
    for (uint32_t partner = T / 2; partner > 0; partner /= 2)
        most = fmaxf(most, __shfl_xor_sync(HRR_WARP, most, partner));
    return most;
}

/* Of all threads of the block. */
__device__ __forceinline__ float block_largest(float most, float *warps)
{
    most = group_largest<32>(most);
    __syncthreads(); /* the last one was read */
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
    __syncthreads();
    for (uint32_t i = 0; i < blockDim.x / 32; i++)
        most = fmaxf(most, warps[i]);
    return most;
}

/* What a device has. */
struct hrr_device {
    int processors;
    uint64_t shared; /* bytes of shared memory that a block may have */
};

/* Beside what a kernel asks for: its own variables. */
enum { HRR_SHARED_BESIDE = 1024 };

/* hrr_three.cu: dimensions of three constant radices. */
bool hrr_three_has(const struct hrr_job &job, const struct hrr_device &device);
int hrr_three_enqueue(const struct hrr_job &job, const struct hrr_device &device,
                      cudaStream_t stream);

/* hrr_ahead.cu: pairs of rows of 1,024 numbers, none of which stands beside all. */
bool hrr_ahead_has(const struct hrr_job &job, const struct hrr_device &device);
int hrr_ahead_enqueue(const struct hrr_job &job, const struct hrr_device &device,
                      cudaStream_t stream);

/* hrr_long.cu: any plan, any form, pairs or lists. */
int hrr_long_enqueue(const struct hrr_job &job, const struct hrr_device &device,
                     cudaStream_t stream);

#endif
