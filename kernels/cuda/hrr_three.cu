/* hrr_three: binding with three constant radices, d = 4,096, 8,192 and 16,384: a block works on a
 * pair, and every pass goes through shared memory. Of a bind of d = 4,096 an H200 moves 48 KiB;
 * 13,100 instructions of a warp and 400 KiB through shared memory take 2 us of a multiprocessor. */
#include "kernels/cuda/hrr_job.cuh"
#include "kernels/cuda/hrr_three.cuh"

/* A row to the first pass of its transform; returns its exponent. */
template <uint32_t R1, uint32_t R2, uint32_t R3>
__device__ __forceinline__ int three_begin(const struct hrr_job &job, const struct hrr_side &side,
                                           uint64_t pair, struct hrr_cell *cells, float *warps)
{
    const struct hrr_three s = {R1, R2, R3};
    const struct hrr_shape shape = {R1, R2 * R3, R1 * R2};
    struct hrr_registers x;
    float most = shape_load(shape, operand_row(side, pair), side.turned, threadIdx.x, &x);
    int exponent = exponent_of(block_largest(most, warps));
    shape_scale(shape, power_of_two(-exponent), &x);
    three_first(s, x.x, job.roots, threadIdx.x, cells);
    return exponent;
}

template <uint32_t R1, uint32_t R2, uint32_t R3, uint32_t BLOCKS>
__global__ void __launch_bounds__(R1 *R2, BLOCKS) hrr_three_kernel(const struct hrr_job job)
{
    extern __shared__ __align__(16) struct hrr_cell memory[];
    __shared__ float warps[32];
    const struct hrr_three s = {R1, R2, R3};
    const uint32_t t = threadIdx.x;
    const float *second = job.roots + 2 * (R1 - 1) * R2 * R3;
    struct hrr_cell *a = memory, *b = a + three_cells(s);
    for (uint64_t pair = blockIdx.x; pair < job.count; pair += gridDim.x) {
        int exponents = 0;
        /* One text for both: what is fetched of it counts. */
#pragma unroll 1
        for (uint32_t side = 0; side < 2; side++)
            exponents += three_begin<R1, R2, R3>(job, side ? job.kept : job.moving, pair,
                                                 side ? b : a, warps);
        __syncthreads();
#pragma unroll 1
        for (uint32_t side = 0; side < 2; side++)
            three_second(s, second, t, side ? b : a);
        __syncthreads();
#pragma unroll 1
        for (uint32_t side = 0; side < 2; side++)
            three_third(s, t, side ? b : a);
        __syncthreads();
        three_product(s, job.product_roots, job.product_step, t, a, b);
        __syncthreads();
        struct hrr_registers x;
        three_gather(s, a, t, x.x);
        three_first(s, x.x, job.roots, t, b);
        __syncthreads();
        three_second(s, second, t, b);
        __syncthreads();
        note_failure(job, pair,
                     three_write(s, b, job_scaling(job, exponents), is_bounded(exponents), t,
                                 job.out + pair * job.out_step));
        __syncthreads();
    }
}

template <uint32_t R1, uint32_t R2, uint32_t R3, uint32_t BLOCKS>
static int three_enqueue(const struct hrr_job &job, const struct hrr_device &device,
                         cudaStream_t stream)
{
    void (*kernel)(struct hrr_job) = hrr_three_kernel<R1, R2, R3, BLOCKS>;
    const struct hrr_three s = {R1, R2, R3};
    const size_t bytes = 2 * three_cells(s) * sizeof(struct hrr_cell);
    int error = cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error) return error;
    uint64_t most = (uint64_t)device.processors * BLOCKS;
    kernel<<<(unsigned)(job.count < most ? job.count : most), R1 * R2, bytes, stream>>>(job);
    return cudaGetLastError();
}

bool hrr_three_has(const struct hrr_job &job, const struct hrr_device &device)
{
    const struct transform_plan &p = job.plan;
    if (job.dimension != 4096 && job.dimension != 8192 && job.dimension != 16384) return false;
    const struct hrr_three s = {p.radix[0], p.radix[1], p.radix[2]};
    return 2 * three_cells(s) * sizeof(struct hrr_cell) + HRR_SHARED_BESIDE <= device.shared;
}

int hrr_three_enqueue(const struct hrr_job &job, const struct hrr_device &device,
                      cudaStream_t stream)
{
    switch (job.dimension) {
    case 4096: return three_enqueue<8, 16, 16, 4>(job, device, stream);
    case 8192: return three_enqueue<16, 16, 16, 2>(job, device, stream);
    case 16384: return three_enqueue<16, 16, 32, 1>(job, device, stream);
    }
    return cudaErrorInvalidValue;
}
