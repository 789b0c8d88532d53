/* hrr_long: binding by any plan, of pairs, exact inverses and lists of rows: a block works on one
 * result, and every pass goes through the memory that its two spectra lie in: shared memory, if it
 * has room for both, else scratch, which stays in the second cache for the most part. */
#include "kernels/cuda/hrr_job.cuh"

enum { HRR_LONG_THREADS = 512 };

/* What is transformed next: the first row, the next one, the product so far on its way back, or,
 * of a dimension without a plan, that once more. */
enum long_step { LONG_FIRST, LONG_NEXT, LONG_BACK, LONG_AGAIN };

/* A result under way. All threads of a block have the same. */
struct long_result {
    uint64_t number, first, rows; /* of a list: its rows */
    uint64_t done;                /* rows that are part of the product */
    int exponents;
    float limit; /* of powers, for the exact inverse */
    bool sound;  /* as far as this thread saw */
};

/* Where the two spectra are. */
struct long_room {
    struct hrr_cell *a, *b;
    float *warps; /* 33 in shared memory */
};

__device__ __forceinline__ const float *long_row(const struct hrr_job &job,
                                                 const struct long_result &r)
{
    if (job.offsets) return operand_row(job.moving, r.first + r.done);
    return operand_row(r.done == 0 ? job.moving : job.kept, r.number);
}

/* What the powers of b may not be below, from its norm. */
__device__ __forceinline__ float long_limit(const struct hrr_job &job, const float *row,
                                            float scale, float *shared)
{
    if (threadIdx.x < 32) {
        float sum = cells_square_part(row, job.dimension, scale, threadIdx.x);
#pragma unroll
        for (uint32_t s = 16; s > 0; s /= 2)
            sum = lane_add(sum, __shfl_down_sync(HRR_WARP, sum, s));
        if (threadIdx.x == 0) *shared = lane_multiply(0x1p-18f, sum);
    }
    __syncthreads();
    return *shared;
}

/* The next row, in `to`. */
__device__ __forceinline__ void long_load(const struct hrr_job &job, const struct long_room &room,
                                          struct long_result *r, struct hrr_cell *to)
{
    const float *row = long_row(job, *r);
    const bool second = !job.offsets && r->done == 1;
    const bool divisor = second && job.exact_roots;
    float most = cells_largest(row, job.dimension, threadIdx.x, blockDim.x);
    most = block_largest(most, room.warps);
    const int exponent = exponent_of(most);
    const float scale = power_of_two(-exponent);
    cells_load(&job.plan, row, second ? job.kept.turned : job.moving.turned, job.dimension, scale,
               threadIdx.x, blockDim.x, to);
    if (divisor) r->limit = long_limit(job, row, scale, room.warps + 32);
    if (divisor && most == 0.0f) r->sound = false;
    r->exponents += divisor ? 1 - exponent : exponent;
    r->done++;
}

/* Of a dimension without a plan: the product so far as a row again, in a. */
__device__ __forceinline__ void long_again(const struct hrr_job &job, const struct long_room &room,
                                           struct long_result *r)
{
    float most =
        cells_fold(&job.plan, room.b, job.dimension, job.factor, threadIdx.x, blockDim.x, room.a);
    const int exponent = exponent_of(block_largest(most, room.warps));
    cells_scale(&job.plan, power_of_two(-exponent), false, threadIdx.x, blockDim.x, room.a);
    r->exponents += exponent - 2 - job.width;
}

/* With a plan: the product so far, brought to a scale where another can follow, in a. */
__device__ __forceinline__ void long_rescale(const struct hrr_job &job,
                                             const struct long_room &room, struct long_result *r)
{
    float most = cells_most(&job.plan, room.a, threadIdx.x, blockDim.x);
    const int exponent = exponent_of(block_largest(most, room.warps));
    cells_scale(&job.plan, power_of_two(-exponent), true, threadIdx.x, blockDim.x, room.a);
    r->exponents += exponent - 2;
}

/* Product or quotient of both spectra, in a; returns what follows. */
__device__ __forceinline__ enum long_step long_combine(const struct hrr_job &job,
                                                       const struct long_room &room,
                                                       struct long_result *r)
{
    if (job.exact_roots)
        r->sound &= cells_divide(&job.plan, job.exact_roots, job.exact_step, r->limit, threadIdx.x,
                                 blockDim.x, room.a, room.b);
    else
        cells_product(&job.plan, job.product_roots, job.product_step, threadIdx.x, blockDim.x,
                      room.a, room.b);
    __syncthreads();
    if (r->done == r->rows || !job.planned) return LONG_BACK;
    long_rescale(job, room, r);
    return LONG_NEXT;
}

__device__ __forceinline__ void long_write(const struct hrr_job &job, const struct long_room &room,
                                           const struct long_result &r)
{
    float most = cells_write(&job.plan, room.b, job.dimension, job_scaling(job, r.exponents),
                             threadIdx.x, blockDim.x, job.out + r.number * job.out_step);
    note_failure(job, r.number, r.sound ? most : FLT_MAX * 2.0f);
}

/* A product of one row is that row; an empty list, which there should be none of, gets zeros. */
__device__ __forceinline__ void long_copy(const struct hrr_job &job, const struct long_result &r)
{
    const float *row = r.rows ? long_row(job, r) : NULL;
    for (uint32_t i = threadIdx.x; i < job.dimension; i += blockDim.x)
        job.out[r.number * job.out_step + i] = row ? row[i] : 0.0f;
}

__device__ __forceinline__ void long_make(const struct hrr_job &job, const struct long_room &room,
                                          struct long_result *r)
{
    enum long_step step = LONG_FIRST;
#pragma unroll 1
    for (;;) {
        struct hrr_cell *to = step == LONG_FIRST || step == LONG_AGAIN ? room.a : room.b;
        if (step == LONG_FIRST || step == LONG_NEXT) long_load(job, room, r, to);
        if (step == LONG_AGAIN) long_again(job, room, r);
        __syncthreads();
        /* One call for all passes of all transforms, since it is long. */
#pragma unroll 1
        for (uint32_t i = 0; i < job.plan.passes; i++) {
            const bool digits = step == LONG_BACK && i == 0;
            struct hrr_pass p =
                cells_pass_of(&job.plan, job.roots, i, digits ? room.a : to, to, digits);
            cells_pass(&job.plan, &p, i, threadIdx.x, blockDim.x);
            __syncthreads();
        }
        if (step == LONG_BACK && r->done == r->rows) break;
        if (step == LONG_NEXT)
            step = long_combine(job, room, r);
        else
            step = step == LONG_BACK ? LONG_AGAIN : LONG_NEXT;
    }
    long_write(job, room, *r);
}

/* SHARED: both spectra lie in shared memory; otherwise b, or none. */
template <bool SHARED>
__global__ void __launch_bounds__(HRR_LONG_THREADS, 1)
    hrr_long_kernel(const struct hrr_job job, const bool one_shared)
{
    extern __shared__ __align__(16) struct hrr_cell memory[];
    __shared__ float warps[33];
    const uint32_t cells = cells_count(&job.plan);
    struct long_room room = {memory, memory + cells, warps};
    if (!SHARED) {
        room.a = job.scratch + (uint64_t)blockIdx.x * cells * (one_shared ? 1 : 2);
        room.b = one_shared ? memory : room.a + cells;
    }
    for (uint64_t i = blockIdx.x; i < job.count; i += gridDim.x) {
        struct long_result r = {};
        r.number = i;
        r.rows = 2;
        r.sound = true;
        if (job.offsets) {
            r.first = __ldg(&job.offsets[i]);
            r.rows = __ldg(&job.offsets[i + 1]) - r.first;
        }
        if (r.rows < 2)
            long_copy(job, r);
        else
            long_make(job, room, &r);
        __syncthreads();
    }
}

template <bool SHARED>
static int long_launch(const struct hrr_job &job, uint32_t threads, uint64_t blocks, uint64_t bytes,
                       cudaStream_t stream)
{
    void (*kernel)(struct hrr_job, bool) = hrr_long_kernel<SHARED>;
    int error = cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error) return error;
    kernel<<<(unsigned)blocks, threads, bytes, stream>>>(job, bytes != 0);
    return cudaGetLastError();
}

int hrr_long_enqueue(const struct hrr_job &job, const struct hrr_device &device,
                     cudaStream_t stream)
{
    const uint32_t points = job.plan.points;
    const uint32_t threads = points <= 512    ? 32
                             : points <= 2048 ? 64
                             : points <= 8192 ? 256
                                              : HRR_LONG_THREADS;
    const uint64_t bytes = cells_count(&job.plan) * sizeof(struct hrr_cell);
    const uint64_t room = device.shared > HRR_SHARED_BESIDE ? device.shared - HRR_SHARED_BESIDE : 0;
    uint64_t most = (uint64_t)device.processors * 32;
    if (2 * bytes <= room)
        return long_launch<true>(job, threads, job.count < most ? job.count : most, 2 * bytes,
                                 stream);
    const uint64_t shared = bytes <= room ? bytes : 0;
    most = job.scratch_bytes / (2 * bytes - shared);
    if (most > (uint64_t)device.processors) most = (uint64_t)device.processors;
    if (most == 0) return cudaErrorInvalidValue;
    return long_launch<false>(job, threads, job.count < most ? job.count : most, shared, stream);
}
