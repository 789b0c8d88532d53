/* hrr_ahead: binding of d = 1,024 where no row stands beside all: a warp works on two pairs, so
 * that in the last pass, of 16 rows a pair, no thread idles, and their four rows are on their way
 * into the places of spectra that are not needed any more while it works on those before. Of a bind
 * an H200 moves 12 KiB, 100,000 of them in 286 us at 4.3 TB/s; 2,670 instructions of a warp, which
 * 132 multiprocessors issue in 255 us for as many. */
#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/hrr_job.cuh"

enum { AHEAD_DIMENSION = 1024, AHEAD_WARPS = 4, AHEAD_BLOCKS = 4 };

struct hrr_ahead {
    static const uint32_t first = 16, second = 32, points = first * second;
    static const uint32_t first_roots = (first - 1) * second, product_roots = points / 2 + 2;
    static const uint32_t spectrum = first * (second | 1); /* cells, a multiple of 2 */
    static const uint32_t bytes =
        (first_roots + product_roots + AHEAD_WARPS * 3 * spectrum) * sizeof(struct hrr_cell);
};

/* Sixteen bytes on their way, or, on devices that cannot, there. */
__device__ __forceinline__ void ahead_copy(float4 *to, const float4 *from)
{
#if __CUDA_ARCH__ >= 800
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
#else
    *to = __ldg(from);
#endif
}

/* A row of pair n, or, behind the last, of that. */
__device__ __forceinline__ void ahead_fetch(const struct hrr_job &job, const struct hrr_side &side,
                                            uint64_t n, uint32_t t, struct hrr_cell *to)
{
    const uint64_t pair = n < job.count ? n : job.count - 1;
    const float4 *from = (const float4 *)operand_row(side, pair);
#pragma unroll
    for (uint32_t i = 0; i < AHEAD_DIMENSION / 4; i += 32)
        ahead_copy((float4 *)to + i + t, from + i + t);
    copies_commit();
}

/* The first pass of a row that lies where its spectrum will; returns its exponent. */
__device__ __forceinline__ int ahead_begin(const struct hrr_side &side,
                                           const struct hrr_cell *roots, uint32_t t,
                                           struct hrr_cell *cells)
{
    const struct hrr_shape shape = {hrr_ahead::first, hrr_ahead::second, 32};
    struct hrr_registers x;
    float most = shape_load(shape, (const float *)cells, side.turned, t, &x);
#pragma unroll
    for (uint32_t partner = 16; partner > 0; partner /= 2)
        most = fmaxf(most, __shfl_xor_sync(HRR_WARP, most, partner));
    __syncwarp();
    int exponent = exponent_of(most);
    shape_scale(shape, power_of_two(-exponent), &x);
    shape_columns(shape, &x, roots, t, cells);
    return exponent;
}

/* Of both pairs of a warp the last pass, while the next rows come; n: the first of them. */
__device__ __forceinline__ void ahead_end(const struct hrr_job &job, uint64_t n, uint64_t step,
                                          const int exponents[2], uint32_t t, struct hrr_cell *p,
                                          struct hrr_cell *r)
{
    const struct hrr_shape shape = {hrr_ahead::first, hrr_ahead::second, 32};
    const uint32_t half = t / hrr_ahead::first, row = t % hrr_ahead::first;
    const struct hrr_cell *from = (half ? r : p) + row * shape_row(shape);
    const int sum = half ? exponents[1] : exponents[0];
    struct transform_point x[32], y[32];
#pragma unroll
    for (uint32_t i = 0; i < hrr_ahead::second; i++)
        x[i] = cell_read(from + i);
    __syncwarp();
    ahead_fetch(job, job.moving, n + step, t, p);
    ahead_fetch(job, job.moving, n + step + 1, t, r);
    codelet(hrr_ahead::second, x, y);
    if (n + half >= job.count) return;
    struct hrr_cell *to = (struct hrr_cell *)(job.out + (n + half) * job.out_step) + row;
    note_failure(job, n + half,
                 points_write(hrr_ahead::second, y, job_scaling(job, sum), is_bounded(sum),
                              hrr_ahead::first, to));
}

__global__ void __launch_bounds__(32 * AHEAD_WARPS, AHEAD_BLOCKS)
    hrr_ahead_kernel(const struct hrr_job job)
{
    const struct hrr_shape shape = {hrr_ahead::first, hrr_ahead::second, 32};
    extern __shared__ __align__(16) struct hrr_cell memory[];
    struct hrr_cell *roots = memory, *product_roots = roots + hrr_ahead::first_roots;
    for (uint32_t i = threadIdx.x; i < hrr_ahead::first_roots; i += 32 * AHEAD_WARPS)
        roots[i] = {job.roots[i], job.roots[hrr_ahead::first_roots + i]};
    for (uint32_t i = threadIdx.x; i <= hrr_ahead::points / 2; i += 32 * AHEAD_WARPS)
        product_roots[i] = {job.product_roots[i], job.product_roots[job.product_step + i]};
    __syncthreads();

    const uint32_t warp = threadIdx.x / 32, t = threadIdx.x % 32;
    struct hrr_cell *p = product_roots + hrr_ahead::product_roots + warp * 3 * hrr_ahead::spectrum;
    struct hrr_cell *q = p + hrr_ahead::spectrum, *r = q + hrr_ahead::spectrum;
    const uint64_t step = (uint64_t)gridDim.x * AHEAD_WARPS * 2;
    uint64_t n = ((uint64_t)blockIdx.x * AHEAD_WARPS + warp) * 2;
    ahead_fetch(job, job.kept, n, t, q);
    ahead_fetch(job, job.moving, n, t, p);
    ahead_fetch(job, job.moving, n + 1, t, r);
    for (; n < job.count; n += step) {
        int exponents[2];
        /* One text for both pairs and rows: what is fetched of it counts. */
#pragma unroll 1
        for (uint32_t half = 0; half < 2; half++) {
            struct hrr_cell *a = half ? r : p;
            if (half)
                copies_wait<0>();
            else
                copies_wait<1>(); /* r may be on its way */
            __syncwarp();
            int sum = 0;
#pragma unroll 1
            for (uint32_t side = 0; side < 2; side++)
                sum += ahead_begin(side ? job.kept : job.moving, roots, t, side ? q : a);
            if (half)
                exponents[1] = sum;
            else
                exponents[0] = sum;
            __syncwarp();
            shape_rows(shape, 0, 2 * hrr_ahead::first, t, half ? q : p);
            __syncwarp();
            shape_product_warp(shape, product_roots, t, a, q);
            __syncwarp();
            ahead_fetch(job, job.kept, half ? n + step : n + 1, t, q);
        }
#pragma unroll 1
        for (uint32_t half = 0; half < 2; half++) {
            struct hrr_registers x;
            shape_gather(shape, half ? r : p, t, &x);
            __syncwarp();
            shape_columns(shape, &x, roots, t, half ? r : p);
        }
        __syncwarp();
        ahead_end(job, n, step, exponents, t, p, r);
        __syncwarp();
    }
    copies_wait<0>();
}

static bool is_aligned(const struct cuda_hrr_rows &rows)
{
    return (uintptr_t)rows.rows % 16 == 0 && rows.step % 4 == 0 && rows.step;
}

bool hrr_ahead_has(const struct hrr_job &job, const struct hrr_device &device)
{
    return job.dimension == AHEAD_DIMENSION && is_aligned(job.moving.rows) &&
           is_aligned(job.kept.rows) && hrr_ahead::bytes + HRR_SHARED_BESIDE <= device.shared;
}

int hrr_ahead_enqueue(const struct hrr_job &job, const struct hrr_device &device,
                      cudaStream_t stream)
{
    const uint32_t bytes = hrr_ahead::bytes;
    int error = cudaFuncSetAttribute((const void *)hrr_ahead_kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error) return error;
    uint64_t blocks = (job.count + 2 * AHEAD_WARPS - 1) / (2 * AHEAD_WARPS);
    uint64_t most = (uint64_t)device.processors * AHEAD_BLOCKS;
    hrr_ahead_kernel<<<(unsigned)(blocks < most ? blocks : most), 32 * AHEAD_WARPS, bytes,
                       stream>>>(job);
    return cudaGetLastError();
}
