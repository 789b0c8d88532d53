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
#include "kernels/cuda/hrr_job.cuh"

/* ---- two constant radices */

template <uint32_t R1, uint32_t R2, uint32_t T, uint32_t WARPS, uint32_t BLOCKS> struct hrr_short {
    static const uint32_t threads = 32 * WARPS, blocks = BLOCKS; /* of a multiprocessor */
    static const uint32_t groups = threads / T, points = R1 * R2;
    static const uint32_t first_roots = (R1 - 1) * R2, product_roots = points / 2 + 2;
    static const uint32_t spectra = 2 * R1 * (R2 | 1); /* cells of a group */
    static const uint32_t bytes =
        (first_roots + product_roots + groups * spectra) * sizeof(struct hrr_cell);
};

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

/* ---- which */

/* A kernel of constant radices, or any plan's where a block of it has no room. */
template <uint32_t R1, uint32_t R2, uint32_t T, uint32_t WARPS, uint32_t BLOCKS>
static int two_or_long(const struct hrr_job &job, const struct hrr_device &device,
                       cudaStream_t stream)
{
    typedef struct hrr_short<R1, R2, T, WARPS, BLOCKS> sizes;
    return sizes::bytes + HRR_SHARED_BESIDE <= device.shared
               ? short_enqueue<R1, R2, T, WARPS, BLOCKS>(job, device.processors, stream)
               : hrr_long_enqueue(job, device, stream);
}

static int job_enqueue(const struct hrr_job &job, const struct hrr_device &device,
                       cudaStream_t stream)
{
    if (job.exact_roots || job.offsets) return hrr_long_enqueue(job, device, stream);
    if (hrr_three_has(job, device)) return hrr_three_enqueue(job, device, stream);
    if (hrr_ahead_has(job, device)) return hrr_ahead_enqueue(job, device, stream);
    switch (job.dimension) {
    case 256: return two_or_long<8, 16, 16, 4, 8>(job, device, stream);
    case 512: return two_or_long<16, 16, 16, 4, 5>(job, device, stream);
    case 768: return two_or_long<24, 16, 16, 4, 3>(job, device, stream);
    case 1024: return two_or_long<16, 32, 32, 8, 2>(job, device, stream);
    case 1536: return two_or_long<24, 32, 32, 6, 2>(job, device, stream);
    case 2048: return two_or_long<32, 32, 32, 6, 2>(job, device, stream);
    }
    return hrr_long_enqueue(job, device, stream);
}

/* What kernels can be told of a device that is not asked twice. */
static int device_of(struct hrr_device *out)
{
    int device = 0, shared = 0;
    int error = cudaGetDevice(&device);
    if (!error)
        error = cudaDeviceGetAttribute(&out->processors, cudaDevAttrMultiProcessorCount, device);
    if (!error)
        error = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    out->shared = (uint64_t)shared;
    return error;
}

extern "C" struct cuda_hrr_scratch cuda_hrr_scratch(const struct hrr_plan *plan, uint64_t count)
{
    struct hrr_device device = {};
    if (device_of(&device)) return {};
    return hrr_scratch_of(plan, count, device.shared, (uint32_t)device.processors);
}

extern "C" int cuda_hrr_pairs(const struct cuda_hrr *work, struct CUstream_st *stream)
{
    const struct hrr_plan *plan = work->plan;
    const bool exact = work->form == HRR_UNBIND_EXACT;
    struct hrr_job job = {};
    job.moving.rows = work->a;
    job.kept.rows = work->b;
    job.kept.turned = work->form == HRR_UNBIND;
    if (work->a.step == 0 && !exact && !work->offsets) { /* their product is the same either way */
        struct hrr_side other = job.moving;
        job.moving = job.kept;
        job.kept = other;
    }
    job.roots = work->tables + plan->roots;
    job.product_roots = work->tables + plan->product_roots;
    job.product_step = plan->product_step;
    job.exact_roots = exact ? work->tables + plan->exact_roots : NULL;
    job.exact_step = plan->exact_step;
    job.offsets = work->offsets;
    job.dimension = plan->dimension;
    job.width = plan->width;
    job.factor = plan->factor;
    job.count = work->count;
    job.out = work->out;
    job.out_step = work->out_step;
    job.failed = (unsigned long long *)work->failed;
    job.plan = plan->transform;
    job.planned = plan->planned;
    job.scratch = (struct hrr_cell *)work->scratch;
    job.scratch_bytes = work->scratch_bytes;
    struct hrr_device device = {};
    int error = cudaMemsetAsync(work->failed, 0xff, sizeof *work->failed, stream);
    if (!error) error = device_of(&device);
    return error || work->count == 0 ? error : job_enqueue(job, device, stream);
}
