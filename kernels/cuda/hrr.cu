/* hrr: a whole bind in one kernel: both rows are read once, and only the result is written.
 *
 * M = R1 R2 (dimensions 256, 512, 768, 1,024, 1,536 and 2,048): a group of 16 or 32 threads of one
 * warp works on a pair, a thread on whole columns and rows in registers, with one exchange through
 * shared memory a transform and no barrier wider than the warp. Of a bind of d = 1,024 an H200
 * moves 12 KiB, 100,000 of them in 286 us at 4.3 TB/s. Instructions: a transform of 512 points is
 * 32 columns of 220 and 16 rows of 416; three of them, the product, scale, magnitudes and shared
 * memory are 2,300 a warp, which 132 multiprocessors issue in 250 us for 100,000 binds. Shared
 * memory: 12 moves of 4 KiB a bind, 166 us at 128 bytes a clock, without conflicts since rows are
 * an odd number of cells apart. Both spectra take 8.3 KiB a warp.
 *
 * Other plans: a block works on a pair and every pass goes through shared memory; those of 4,096,
 * 8,192 and 16,384 are constants. */
#include "kernels/cuda/hrr_cells.cuh"
#include "kernels/cuda/hrr_cuda.h"

#include <cuda_runtime.h>

enum { HRR_LONG_BYTES = 227 * 1024, HRR_LONG_THREADS = 512 };

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
    uint32_t dimension;
    int32_t width;
    float factor;
    uint64_t count;
    float *out;
    uint64_t out_step;
    unsigned long long *failed;
    struct transform_plan plan;
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

/* ---- two constant radices */

template <uint32_t R1, uint32_t R2, uint32_t T, uint32_t WARPS, uint32_t BLOCKS> struct hrr_short {
    static const uint32_t threads = 32 * WARPS, blocks = BLOCKS; /* of a multiprocessor */
    static const uint32_t groups = threads / T, points = R1 * R2;
    static const uint32_t first_roots = (R1 - 1) * R2, product_roots = points / 2 + 2;
    static const uint32_t spectra = 2 * R1 * (R2 | 1); /* cells of a group */
    static const uint32_t bytes =
        (first_roots + product_roots + groups * spectra) * sizeof(struct hrr_cell);
};

template <uint32_t T> __device__ __forceinline__ float group_largest(float most)
{
#pragma unroll
    for (uint32_t partner = T / 2; partner > 0; partner /= 2)
        most = fmaxf(most, __shfl_xor_sync(HRR_WARP, most, partner));
    return most;
}

/* A row to the first pass of its transform; returns its exponent. */
template <uint32_t R1, uint32_t R2, uint32_t T>
__device__ __forceinline__ int short_begin(const struct hrr_side &operand, uint64_t pair,
                                           const struct hrr_cell *roots, uint32_t t,
                                           struct hrr_cell *cells)
{
    const struct hrr_shape shape = {R1, R2, T};
    struct hrr_registers x;
    float most = shape_load(shape, operand_row(operand, pair), operand.turned, t, &x);
    int exponent = exponent_of(group_largest<T>(most));
    shape_scale(shape, power_of_two(-exponent), &x);
    shape_columns(shape, &x, roots, t, cells);
    return exponent;
}

template <uint32_t R1, uint32_t R2, uint32_t T, uint32_t WARPS, uint32_t BLOCKS>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS) hrr_short_kernel(const struct hrr_job job)
{
    typedef struct hrr_short<R1, R2, T, WARPS, BLOCKS> sizes;
    const struct hrr_shape shape = {R1, R2, T};
    extern __shared__ __align__(16) struct hrr_cell memory[];
    struct hrr_cell *roots = memory, *product_roots = roots + sizes::first_roots;
    for (uint32_t i = threadIdx.x; i < sizes::first_roots; i += sizes::threads)
        roots[i] = {job.roots[i], job.roots[sizes::first_roots + i]};
    for (uint32_t i = threadIdx.x; i <= sizes::points / 2; i += sizes::threads)
        product_roots[i] = {job.product_roots[i], job.product_roots[job.product_step + i]};
    __syncthreads();

    const uint32_t group = threadIdx.x / T, t = threadIdx.x % T;
    struct hrr_cell *a = product_roots + sizes::product_roots + group * sizes::spectra;
    struct hrr_cell *b = a + sizes::spectra / 2;
    bool begun = false;
    int kept = 0;
    const uint64_t step = (uint64_t)gridDim.x * sizes::groups;
    for (uint64_t n = (uint64_t)blockIdx.x * sizes::groups; n < job.count; n += step) {
        /* Groups without a pair do the last one with the others of their warp. */
        const bool mine = n + group < job.count;
        const uint64_t pair = mine ? n + group : job.count - 1;
        const bool fresh = !begun || job.kept.rows.step != 0;
        int exponents = kept;
        /* One text for both: what is fetched of it counts. */
#pragma unroll(R1 *R2 < 512 ? 2 : 1)
        for (uint32_t side = 0; side < (fresh ? 2 : 1); side++) {
            int exponent = short_begin<R1, R2, T>(side == 0 ? job.moving : job.kept, pair, roots, t,
                                                  side == 0 ? a : b);
            if (side == 0)
                exponents = exponent;
            else
                kept = exponent;
        }
        begun = true;
        __syncwarp();
        shape_rows(shape, 0, fresh ? 2 * R1 : R1, t, a);
        __syncwarp();
        shape_product(shape, product_roots, t, a, b);
        __syncwarp();
        struct hrr_registers x;
        shape_gather(shape, a, t, &x);
        __syncwarp();
        shape_columns(shape, &x, roots, t, a);
        __syncwarp();
        if (mine)
            note_failure(job, pair,
                         shape_write(shape, a, job_scaling(job, exponents + kept), t,
                                     job.out + pair * job.out_step));
        __syncwarp();
    }
}

template <uint32_t R1, uint32_t R2, uint32_t T, uint32_t WARPS, uint32_t BLOCKS>
static int short_enqueue(const struct hrr_job &job, int processors, cudaStream_t stream)
{
    typedef struct hrr_short<R1, R2, T, WARPS, BLOCKS> sizes;
    void (*kernel)(struct hrr_job) = hrr_short_kernel<R1, R2, T, WARPS, BLOCKS>;
    int error = cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, sizes::bytes);
    if (error) return error;
    uint64_t blocks = (job.count + sizes::groups - 1) / sizes::groups;
    uint64_t most = (uint64_t)processors * BLOCKS;
    kernel<<<(unsigned)(blocks < most ? blocks : most), sizes::threads, sizes::bytes, stream>>>(
        job);
    return cudaGetLastError();
}

/* ---- any plan */

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

__device__ __forceinline__ int long_load(const struct hrr_job &job, const struct hrr_side &operand,
                                         uint64_t pair, struct hrr_cell *cells, float *warps)
{
    const float *row = operand_row(operand, pair);
    float most = cells_largest(row, job.dimension, threadIdx.x, blockDim.x);
    int exponent = exponent_of(block_largest(most, warps));
    cells_load(&job.plan, row, operand.turned, job.dimension, power_of_two(-exponent), threadIdx.x,
               blockDim.x, cells);
    return exponent;
}

__global__ void __launch_bounds__(HRR_LONG_THREADS, 1) hrr_long_kernel(const struct hrr_job job)
{
    extern __shared__ __align__(16) struct hrr_cell memory[];
    __shared__ float warps[32];
    const struct transform_plan &plan = job.plan;
    struct hrr_cell *a = memory, *b = a + cells_count(&plan);
    for (uint64_t pair = blockIdx.x; pair < job.count; pair += gridDim.x) {
        int exponents = long_load(job, job.moving, pair, a, warps);
        exponents += long_load(job, job.kept, pair, b, warps);
        __syncthreads();
        /* One call for all passes of the three transforms, since it is long. */
#pragma unroll 1
        for (uint32_t pass = 0; pass < 3 * plan.passes; pass++) {
            const uint32_t transform = pass / plan.passes, i = pass % plan.passes;
            const bool digits = transform == 2 && i == 0;
            struct hrr_cell *to = transform == 0 ? a : b;
            if (digits) {
                cells_product(&plan, job.product_roots, job.product_step, threadIdx.x, blockDim.x,
                              a, b);
                __syncthreads();
            }
            struct hrr_pass p = cells_pass_of(&plan, job.roots, i, digits ? a : to, to, digits);
            cells_pass(&plan, &p, i, threadIdx.x, blockDim.x);
            __syncthreads();
        }
        float *out = job.out + pair * job.out_step;
        note_failure(job, pair,
                     cells_write(&plan, b, job.dimension, job_scaling(job, exponents), threadIdx.x,
                                 blockDim.x, out));
        __syncthreads();
    }
}

static int long_enqueue(const struct hrr_job &job, uint32_t threads, int processors,
                        cudaStream_t stream)
{
    const size_t bytes = 2 * cells_count(&job.plan) * sizeof(struct hrr_cell);
    int error = cudaFuncSetAttribute((const void *)hrr_long_kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error) return error;
    uint64_t most = (uint64_t)processors * 32;
    hrr_long_kernel<<<(unsigned)(job.count < most ? job.count : most), threads, bytes, stream>>>(
        job);
    return cudaGetLastError();
}

/* ---- three constant radices */

template <uint32_t R1, uint32_t R2, uint32_t R3>
__device__ __forceinline__ struct transform_plan three_plan(void)
{
    const uint32_t points = R1 * R2 * R3, rest = R2 * R3;
    struct transform_plan plan = {
        points, 3, {R1, R2, R3}, {0, 2 * (points - rest), 2 * (points - rest) + 2 * (rest - R3)}};
    return plan;
}

/* A row to the first pass of its transform; returns its exponent. */
template <uint32_t R1, uint32_t R2, uint32_t R3, uint32_t THREADS>
__device__ __forceinline__ int three_begin(const struct hrr_job &job, const struct hrr_side &side,
                                           uint64_t pair, struct hrr_cell *cells, float *warps)
{
    const struct transform_plan plan = three_plan<R1, R2, R3>();
    const struct hrr_shape shape = {R1, R2 * R3, THREADS};
    struct hrr_registers x;
    float most = shape_load(shape, operand_row(side, pair), side.turned, threadIdx.x, &x);
    int exponent = exponent_of(block_largest(most, warps));
    shape_scale(shape, power_of_two(-exponent), &x);
    cells_columns(&plan, shape, &x, job.roots, threadIdx.x, cells);
    return exponent;
}

template <uint32_t R1, uint32_t R2, uint32_t R3, uint32_t THREADS, uint32_t BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS) hrr_three_kernel(const struct hrr_job job)
{
    extern __shared__ __align__(16) struct hrr_cell memory[];
    __shared__ float warps[32];
    const struct transform_plan plan = three_plan<R1, R2, R3>();
    const uint32_t t = threadIdx.x;
    struct hrr_cell *a = memory, *b = a + cells_count(&plan);
    for (uint64_t pair = blockIdx.x; pair < job.count; pair += gridDim.x) {
        int exponents = three_begin<R1, R2, R3, THREADS>(job, job.moving, pair, a, warps);
        exponents += three_begin<R1, R2, R3, THREADS>(job, job.kept, pair, b, warps);
        __syncthreads();
#pragma unroll 1
        for (uint32_t side = 0; side < 2; side++) {
            struct hrr_cell *to = side == 0 ? a : b;
            struct hrr_pass p = cells_pass_of(&plan, job.roots, 1, to, to, false);
            pass_columns(R2, &plan, &p, t, THREADS);
        }
        __syncthreads();
#pragma unroll 1
        for (uint32_t side = 0; side < 2; side++) {
            struct hrr_cell *to = side == 0 ? a : b;
            struct hrr_pass p = cells_pass_of(&plan, job.roots, 2, to, to, false);
            pass_columns(R3, &plan, &p, t, THREADS);
        }
        __syncthreads();
        cells_product(&plan, job.product_roots, job.product_step, t, THREADS, a, b);
        __syncthreads();
        struct hrr_pass first = cells_pass_of(&plan, job.roots, 0, a, b, true);
        pass_columns(R1, &plan, &first, t, THREADS);
        __syncthreads();
        struct hrr_pass second = cells_pass_of(&plan, job.roots, 1, b, b, false);
        pass_columns(R2, &plan, &second, t, THREADS);
        __syncthreads();
        note_failure(job, pair,
                     cells_finish(R3, &plan, b, job_scaling(job, exponents), t, THREADS,
                                  job.out + pair * job.out_step));
        __syncthreads();
    }
}

template <uint32_t R1, uint32_t R2, uint32_t R3, uint32_t THREADS, uint32_t BLOCKS>
static int three_enqueue(const struct hrr_job &job, int processors, cudaStream_t stream)
{
    void (*kernel)(struct hrr_job) = hrr_three_kernel<R1, R2, R3, THREADS, BLOCKS>;
    const size_t bytes = 2 * cells_count(&job.plan) * sizeof(struct hrr_cell);
    int error = cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error) return error;
    uint64_t most = (uint64_t)processors * BLOCKS;
    kernel<<<(unsigned)(job.count < most ? job.count : most), THREADS, bytes, stream>>>(job);
    return cudaGetLastError();
}

/* ---- which */

static int job_enqueue(const struct hrr_job &job, int processors, cudaStream_t stream)
{
    switch (job.dimension) {
    case 256: return short_enqueue<8, 16, 16, 4, 8>(job, processors, stream);
    case 512: return short_enqueue<16, 16, 16, 4, 5>(job, processors, stream);
    case 768: return short_enqueue<24, 16, 16, 4, 3>(job, processors, stream);
    case 1024: return short_enqueue<16, 32, 32, 8, 2>(job, processors, stream);
    case 1536: return short_enqueue<24, 32, 32, 6, 2>(job, processors, stream);
    case 2048: return short_enqueue<32, 32, 32, 6, 2>(job, processors, stream);
    case 4096: return three_enqueue<8, 16, 16, 128, 4>(job, processors, stream);
    case 8192: return three_enqueue<16, 16, 16, 256, 2>(job, processors, stream);
    case 16384: return three_enqueue<16, 16, 32, 256, 1>(job, processors, stream);
    }
    uint32_t threads = job.plan.points <= 512    ? 32
                       : job.plan.points <= 2048 ? 64
                       : job.plan.points <= 8192 ? 256
                                                 : HRR_LONG_THREADS;
    return long_enqueue(job, threads, processors, stream);
}

extern "C" bool cuda_hrr_runs(const struct hrr_plan *plan, enum hrr_form form)
{
    return form != HRR_UNBIND_EXACT &&
           2 * cells_count(&plan->transform) * sizeof(struct hrr_cell) + 1024 <= HRR_LONG_BYTES;
}

extern "C" int cuda_hrr_pairs(const struct cuda_hrr *work, struct CUstream_st *stream)
{
    const struct hrr_plan *plan = work->plan;
    struct hrr_job job = {};
    job.moving.rows = work->a;
    job.kept.rows = work->b;
    job.kept.turned = work->form == HRR_UNBIND;
    if (work->a.step == 0) { /* their product is the same either way */
        struct hrr_side other = job.moving;
        job.moving = job.kept;
        job.kept = other;
    }
    job.roots = work->tables + plan->roots;
    job.product_roots = work->tables + plan->product_roots;
    job.product_step = plan->product_step;
    job.dimension = plan->dimension;
    job.width = plan->width;
    job.factor = plan->factor;
    job.count = work->count;
    job.out = work->out;
    job.out_step = work->out_step;
    job.failed = (unsigned long long *)work->failed;
    job.plan = plan->transform;
    int device = 0, processors = 0;
    int error = cudaMemsetAsync(work->failed, 0xff, sizeof *work->failed, stream);
    if (!error) error = cudaGetDevice(&device);
    if (!error) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    return error || work->count == 0 ? error : job_enqueue(job, processors, stream);
}
