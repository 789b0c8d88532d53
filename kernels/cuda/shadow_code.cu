/* shadow_code: rows become int8 (kernels/shadow.h), and the centre that they are coded from. Coding
 * reads each row once from memory, and again from the cache. */
#include "kernels/cuda/shadow.cuh"

enum {
    SHADOW_THREADS = 256,
    SHADOW_SAMPLE = 4096, /* rows whose mean is the centre */
    SHADOW_COLUMNS = 32,  /* of a block, a lane each */
    SHADOW_SHARES = 32    /* of the sample, a warp each */
};

struct code_job {
    struct cuda_shadow shadow;
    const float *rows;
    uint64_t first, count;
    uint32_t stride, code_stride;
};

__global__ void __launch_bounds__(SHADOW_THREADS) shadow_code_kernel(const struct code_job job)
{
    const uint64_t i = ((uint64_t)blockIdx.x * SHADOW_THREADS + threadIdx.x) / 32;
    if (i >= job.count) return; /* the whole warp */
    const uint64_t row = job.first + i;
    const uint32_t lane = threadIdx.x % 32;
    int8_t *codes = job.shadow.codes + row * job.code_stride;
    struct shadow_row coded = shadow_measure_warp(
        job.stride, job.rows + row * job.stride, job.shadow.centre, *job.shadow.centre_norm,
        SHADOW_LEVELS, [&](uint32_t n, int code) { codes[n] = (int8_t)code; });
    if (job.stride + lane < job.code_stride) codes[job.stride + lane] = 0;
    if (lane != 0) return;
    job.shadow.scales[row] = coded.scale;
    job.shadow.losts[row] = coded.lost;
    job.shadow.lengths[row] = coded.length;
}

/* The mean of one column by each lane, of a share of the rows by each warp. */
__global__ void __launch_bounds__(SHADOW_COLUMNS *SHADOW_SHARES)
    shadow_centre_kernel(const float *rows, uint64_t count, uint32_t stride, float *centre)
{
    __shared__ float sums[SHADOW_SHARES][SHADOW_COLUMNS];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t column = blockIdx.x * SHADOW_COLUMNS + lane;
    const uint64_t taken = count < SHADOW_SAMPLE ? count : SHADOW_SAMPLE;
    float sum = 0.0f;
    for (uint64_t n = warp; n < taken; n += SHADOW_SHARES) {
        /* without overflow: count * n could pass 2^64 */
        uint64_t row = count / taken * n + count % taken * n / taken;
        sum = canonical_add(sum, rows[row * stride + column]);
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0) return;
    for (uint32_t n = 1; n < SHADOW_SHARES; n++)
        sum = canonical_add(sum, sums[n][lane]);
    float mean = taken ? canonical_divide(sum, (float)taken) : 0.0f;
    centre[column] = canonical_is_finite(mean) ? mean : 0.0f;
}

extern "C" int cuda_shadow_centre(const struct cuda_rows *rows, float *centre, float *centre_norm,
                                  struct CUstream_st *stream)
{
    const uint32_t stride = (uint32_t)vector_stride(rows->dimension);
    const struct cuda_rows as_rows = {rows->dimension, centre, NULL, 1};
    shadow_centre_kernel<<<stride / SHADOW_COLUMNS, SHADOW_COLUMNS * SHADOW_SHARES, 0, stream>>>(
        rows->rows, rows->count, stride, centre);
    int error = cudaGetLastError();
    return error ? error : cuda_norms(&as_rows, centre_norm, stream);
}

extern "C" int cuda_shadow_code(const struct cuda_rows *rows, uint64_t first, uint64_t count,
                                const struct cuda_shadow *shadow, struct CUstream_st *stream)
{
    if (count == 0) return cudaSuccess;
    struct code_job job = {};
    job.shadow = *shadow;
    job.rows = rows->rows;
    job.first = first;
    job.count = count;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    job.code_stride = (uint32_t)shadow_stride(rows->dimension);
    shadow_code_kernel<<<blocks_for(count, SHADOW_THREADS / 32), SHADOW_THREADS, 0, stream>>>(job);
    return cudaGetLastError();
}
