/* shadow_sum: checksums of rows in int8 (kernels/shadow_sum.h): a warp sums up a row, and a block
 * compares a tile. Both are as fast as memory. */
#include "kernels/cuda/shadow.cuh"
#include "kernels/cuda/shadow_sum_cuda.h"

enum { SUM_THREADS = 256, SUM_WARPS = SUM_THREADS / 32 };

struct sum_job {
    struct cuda_shadow shadow;
    const float *norms;
    uint64_t first, count;
    uint64_t *sums;
    struct cuda_shadow_found *found;
    uint32_t dimension, words; /* words: of the codes of a row */
    bool out;
};

/* A lane's part of that. */
__device__ uint64_t centre_sum(const struct sum_job &job, uint32_t lane)
{
    uint64_t sum = 0;
    for (uint32_t i = lane; i < job.dimension; i += 32)
        sum += shadow_sum_term(shadow_sum_centre_place + i, shadow_sum_bits(job.shadow.centre[i]));
    if (lane == 0)
        sum += shadow_sum_term(shadow_sum_centre_place + job.dimension,
                               shadow_sum_bits(*job.shadow.centre_norm));
    return sum;
}

/* By a warp, all of whose lanes get the sum. */
__device__ __forceinline__ uint64_t row_sum(const struct sum_job &job, uint64_t row)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t *codes = (const uint64_t *)job.shadow.codes + row * job.words;
    const uint64_t place = row * (job.words + 2);
    uint64_t sum = 0;
    for (uint32_t i = lane; i < job.words; i += 32)
        sum += shadow_sum_term(place + i, codes[i]);
    if (row == 0) sum += centre_sum(job, lane);
    if (lane == 0)
        sum += shadow_sum_beside(place + job.words, job.shadow.scales[row], job.shadow.losts[row],
                                 job.shadow.lengths[row]);
    for (int partner = 16; partner > 0; partner /= 2)
        sum += __shfl_xor_sync(WARP, sum, partner);
    return sum;
}

__global__ void __launch_bounds__(SUM_THREADS) shadow_sum_kernel(const struct sum_job job)
{
    const uint64_t i = ((uint64_t)blockIdx.x * SUM_THREADS + threadIdx.x) / 32;
    if (i >= job.count) return; /* the whole warp */
    const uint64_t row = job.first + i, sum = row_sum(job, row);
    unsigned long long *to = (unsigned long long *)job.sums + row / SHADOW_SUM_ROWS;
    if (threadIdx.x % 32 == 0) atomicAdd(to, job.out ? 0 - sum : sum);
}

/* What a warp found of its rows, and the block's sums of that. */
struct tile_found {
    uint64_t sum, rows;
    double lost;
};

__global__ void __launch_bounds__(SUM_THREADS) shadow_check_kernel(const struct sum_job job)
{
    __shared__ struct tile_found warps[SUM_WARPS];
    const uint32_t warp = threadIdx.x / 32;
    const uint64_t first = job.first + (uint64_t)blockIdx.x * SHADOW_SUM_ROWS;
    const uint64_t end = min(first + SHADOW_SUM_ROWS, job.first + job.count);
    struct tile_found mine = {0, 0, 0.0};
    for (uint64_t row = first + warp; row < end; row += SUM_WARPS) {
        const float norm = job.norms[row], lost = job.shadow.losts[row];
        mine.sum += row_sum(job, row);
        if (!(norm > 0.0f) || !canonical_is_finite(norm) || !canonical_is_finite(lost)) continue;
        mine.lost += (double)lost / norm;
        mine.rows++;
    }
    if (threadIdx.x % 32 == 0) warps[warp] = mine;
    __syncthreads();
    if (threadIdx.x) return;
    for (uint32_t i = 1; i < SUM_WARPS; i++) {
        mine.sum += warps[i].sum;
        mine.rows += warps[i].rows;
        mine.lost += warps[i].lost;
    }
    if (mine.sum != job.sums[first / SHADOW_SUM_ROWS]) atomicAdd(&job.found->differ, 1ull);
    atomicAdd(&job.found->rows, (unsigned long long)mine.rows);
    unsigned long long *at = (unsigned long long *)&job.found->lost, seen = *at, was;
    do { /* 7.x has an instruction for it, 5.x has not */
        was = seen;
        seen = atomicCAS(at, was, __double_as_longlong(__longlong_as_double(was) + mine.lost));
    } while (seen != was);
}

static struct sum_job job_of(uint32_t dimension, uint64_t first, uint64_t count,
                             const struct cuda_shadow *shadow)
{
    struct sum_job job = {};
    job.shadow = *shadow;
    job.first = first;
    job.count = count;
    job.dimension = dimension;
    job.words = (uint32_t)(shadow_stride(dimension) / 8);
    return job;
}

extern "C" int cuda_shadow_sum(uint32_t dimension, uint64_t first, uint64_t count, bool out,
                               const struct cuda_shadow *shadow, uint64_t *sums,
                               struct CUstream_st *stream)
{
    if (count == 0) return cudaSuccess;
    struct sum_job job = job_of(dimension, first, count, shadow);
    job.sums = sums;
    job.out = out;
    shadow_sum_kernel<<<blocks_for(count, SUM_WARPS), SUM_THREADS, 0, stream>>>(job);
    return cudaGetLastError();
}

extern "C" int cuda_shadow_check(const struct cuda_rows *rows, uint64_t first, uint64_t count,
                                 const struct cuda_shadow *shadow, const uint64_t *sums,
                                 struct cuda_shadow_found *found, struct CUstream_st *stream)
{
    if (count == 0) return cudaSuccess;
    struct sum_job job = job_of(rows->dimension, first, count, shadow);
    job.norms = rows->norms;
    job.sums = (uint64_t *)sums;
    job.found = found;
    shadow_check_kernel<<<blocks_for(count, SHADOW_SUM_ROWS), SUM_THREADS, 0, stream>>>(job);
    return cudaGetLastError();
}
