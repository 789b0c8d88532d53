/* complete: what follows the dot products of a round. Scores and their best row by blocks of 1,024
 * rows, one block of threads each; weights and totals the same; sums of a block's rows by threads
 * of four columns each, for several states at once; the tree over blocks, a level a launch; and a
 * block of threads a state that ends the round. */
#include "kernels/complete.h"
#include "kernels/cuda/complete_cuda.h"
#include "kernels/cuda/launch.cuh"

enum {
    COMPLETE_THREADS = 256,
    COMPLETE_WARPS = COMPLETE_THREADS / 32,
    COMPLETE_STATES = 8, /* whose sums a thread holds */
    COMPLETE_FLIGHT = 8, /* rows loaded before the first is added */
};

/* What all kernels read. */
struct complete_round {
    struct cuda_completion work;
    struct cuda_rows rows;
    uint64_t blocks;
    uint32_t quads; /* of four columns in a row */
};

__device__ __forceinline__ float complete_norm_of(const struct complete_round &r, uint64_t row)
{
    return r.work.unit ? __ldg(&r.rows.norms[row]) : 1.0f;
}

__device__ __forceinline__ bool complete_better(const struct complete_block_best &a,
                                                const struct complete_block_best &b)
{
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

__device__ __forceinline__ struct complete_block_best complete_none(void)
{
    struct complete_block_best none = {~0ull, ~0u, -INFINITY, 0.0f, 0};
    return none;
}

/* The best of a block of threads, in thread 0. */
__device__ struct complete_block_best complete_best_of(struct complete_block_best mine)
{
    __shared__ struct complete_block_best bests[COMPLETE_THREADS];
    bests[threadIdx.x] = mine;
    for (int s = COMPLETE_THREADS / 2; s > 0; s /= 2) {
        __syncthreads();
        if (threadIdx.x >= s) continue;
        struct complete_block_best *a = &bests[threadIdx.x], *b = &bests[threadIdx.x + s];
        float norm = fmaxf(a->norm, b->norm);
        if (complete_better(*b, *a)) *a = *b;
        a->norm = norm;
    }
    return bests[threadIdx.x];
}

__global__ void __launch_bounds__(COMPLETE_THREADS)
    complete_begin_kernel(const struct complete_round r)
{
    const uint64_t q = blockIdx.x;
    const uint32_t stride = 4 * r.quads;
    const uint8_t *known = r.work.known ? r.work.known + q * r.work.known_step : NULL;
    for (uint32_t c = threadIdx.x; c < stride; c += COMPLETE_THREADS) {
        bool kept = c < r.rows.dimension && (!known || known[c]);
        r.work.state[q * stride + c] = kept ? r.work.cues[q * stride + c] : 0.0f;
    }
    struct complete_record fresh = {};
    if (threadIdx.x == 0) r.work.records[q] = fresh;
}

__global__ void __launch_bounds__(COMPLETE_THREADS)
    complete_score_kernel(const struct complete_round r)
{
    const uint64_t b = blockIdx.x, q = blockIdx.y;
    if (r.work.records[q].done) return;
    float *scores = r.work.scores + q * r.rows.count;
    struct complete_block_best best = complete_none();
    for (uint32_t i = threadIdx.x; i < COMPLETE_BLOCK; i += COMPLETE_THREADS) {
        uint64_t row = b * COMPLETE_BLOCK + i;
        if (row >= r.rows.count) break;
        float norm = __ldg(&r.rows.norms[row]);
        float score = complete_score(scores[row], r.work.unit ? norm : 1.0f);
        scores[row] = score;
        struct complete_block_best mine = {__ldg(&r.work.ids[row]), (uint32_t)row, score, 0.0f, 0};
        float length = r.work.unit ? (norm == 0.0f ? 0.0f : 1.0f) : norm;
        float norms = fmaxf(best.norm, length);
        if (complete_better(mine, best)) best = mine;
        best.norm = norms;
    }
    best = complete_best_of(best);
    if (threadIdx.x == 0) r.work.bests[q * r.blocks + b] = best;
}

/* The best of all blocks takes the first one's place. */
__global__ void __launch_bounds__(COMPLETE_THREADS)
    complete_best_kernel(const struct complete_round r)
{
    const uint64_t q = blockIdx.x;
    struct complete_record *record = &r.work.records[q];
    if (record->done) return;
    struct complete_block_best best = complete_none();
    for (uint64_t b = threadIdx.x; b < r.blocks; b += COMPLETE_THREADS) {
        struct complete_block_best other = r.work.bests[q * r.blocks + b];
        float norm = fmaxf(best.norm, other.norm);
        if (complete_better(other, best)) best = other;
        best.norm = norm;
    }
    best = complete_best_of(best);
    if (threadIdx.x > 0) return;
    r.work.bests[q * r.blocks] = best;
    record->id = best.id;
    record->row = best.row;
    record->score = best.score;
}

__device__ __forceinline__ double complete_tree_of_32(double p)
{
    for (int partner = 16; partner > 0; partner /= 2)
        p = complete_add(p, __shfl_xor_sync(WARP, p, partner));
    return p;
}

__global__ void __launch_bounds__(COMPLETE_THREADS)
    complete_weigh_kernel(const struct complete_round r)
{
    __shared__ float weights[COMPLETE_BLOCK];
    const uint64_t b = blockIdx.x, q = blockIdx.y;
    if (r.work.records[q].done) return;
    float *scores = r.work.scores + q * r.rows.count, most = r.work.records[q].score;
    for (uint32_t i = threadIdx.x; i < COMPLETE_BLOCK; i += COMPLETE_THREADS) {
        uint64_t row = b * COMPLETE_BLOCK + i;
        weights[i] = 0.0f; /* adds nothing to a total, which is never -0 */
        if (row >= r.rows.count) continue;
        weights[i] = complete_weight(scores[row], most, r.work.beta);
        scores[row] = complete_share(weights[i], complete_norm_of(r, row));
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    double total = 0.0;
    for (uint32_t i = threadIdx.x; i < COMPLETE_BLOCK; i += 32)
        total = complete_add(total, (double)weights[i]);
    total = complete_tree_of_32(total);
    if (threadIdx.x == 0) r.work.totals[q * r.blocks + b] = total;
}

__device__ __forceinline__ void complete_take(float4 *p, float share, float4 x)
{
    p->x = fmaf(share, x.x, p->x);
    p->y = fmaf(share, x.y, p->y);
    p->z = fmaf(share, x.z, p->z);
    p->w = fmaf(share, x.w, p->w);
}

__device__ __forceinline__ float4 complete_sum(float4 a, float4 b)
{
    return make_float4(canonical_add(a.x, b.x), canonical_add(a.y, b.y), canonical_add(a.z, b.z),
                       canonical_add(a.w, b.w));
}

/* A run of rows for some states: shares[q][i]. Rows behind the end have a share of 0 and repeat
 * the last one: they add nothing to a sum, which is never -0. */
template <int STATES>
__device__ __forceinline__ void complete_run(const float4 *rows, uint64_t row, uint64_t last,
                                             uint32_t quads, uint32_t quad,
                                             float (*shares)[COMPLETE_RUN], float4 *sums)
{
    float4 p[STATES];
#pragma unroll
    for (int q = 0; q < STATES; q++)
        p[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int i = 0; i < COMPLETE_RUN; i += COMPLETE_FLIGHT) {
        float4 x[COMPLETE_FLIGHT];
#pragma unroll
        for (int n = 0; n < COMPLETE_FLIGHT; n++) {
            uint64_t at = row + i + n < last ? row + i + n : last;
            x[n] = __ldg(&rows[at * quads + quad]);
        }
#pragma unroll
        for (int n = 0; n < COMPLETE_FLIGHT; n++)
#pragma unroll
            for (int q = 0; q < STATES; q++)
                complete_take(&p[q], shares[q][i + n], x[n]);
    }
#pragma unroll
    for (int q = 0; q < STATES; q++)
        sums[q] = complete_sum(sums[q], p[q]);
}

template <int STATES>
__global__ void __launch_bounds__(COMPLETE_THREADS)
    complete_add_kernel(const struct complete_round r)
{
    __shared__ float shares[STATES][COMPLETE_RUN];
    const uint64_t first_state = (uint64_t)blockIdx.x * STATES, b = blockIdx.y;
    const uint32_t quad = blockIdx.z * COMPLETE_THREADS + threadIdx.x;
    const uint64_t begin = b * COMPLETE_BLOCK, last = r.rows.count - 1;
    const uint64_t left = r.rows.count - begin;
    const uint32_t count = left < COMPLETE_BLOCK ? (uint32_t)left : (uint32_t)COMPLETE_BLOCK;
    float4 sums[STATES];
#pragma unroll
    for (int q = 0; q < STATES; q++)
        sums[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (uint32_t run = 0; run < count; run += COMPLETE_RUN) {
        int mine = 0;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < STATES * COMPLETE_RUN; i += blockDim.x) {
            uint64_t q = first_state + i / COMPLETE_RUN;
            uint32_t at = run + i % COMPLETE_RUN;
            bool there = q < r.work.states && at < count && !r.work.records[q].done;
            float share = there ? r.work.scores[q * r.rows.count + begin + at] : 0.0f;
            shares[i / COMPLETE_RUN][i % COMPLETE_RUN] = share;
            mine |= share != 0.0f;
        }
        if (!__syncthreads_or(mine) || quad >= r.quads) continue;
        complete_run<STATES>((const float4 *)r.rows.rows, begin + run, last, r.quads, quad, shares,
                             sums);
    }
    if (quad >= r.quads) return;
#pragma unroll
    for (int q = 0; q < STATES; q++)
        if (first_state + q < r.work.states)
            ((float4 *)r.work.sums)[((first_state + q) * r.blocks + b) * r.quads + quad] = sums[q];
}

/* One level of the tree: node i takes its neighbour, `step` behind it, if that is there. */
__global__ void __launch_bounds__(COMPLETE_THREADS)
    complete_fold_kernel(const struct complete_round r, uint64_t step)
{
    const uint64_t i = (uint64_t)blockIdx.x * COMPLETE_THREADS + threadIdx.x;
    const uint64_t node = i / r.quads * 2 * step, q = blockIdx.y;
    if (node + step >= r.blocks) return;
    float4 *nodes = (float4 *)r.work.sums + q * r.blocks * r.quads + i % r.quads;
    nodes[node * r.quads] = complete_sum(nodes[node * r.quads], nodes[(node + step) * r.quads]);
}

/* Of a warp: the canonical dot product of rows that this kernel may have written. */
__device__ float complete_dot(uint32_t dimension, uint32_t stride, const float *x, const float *y)
{
    float p = 0.0f, c = 0.0f;
    bool compensated = canonical_is_compensated(dimension);
    for (uint32_t i = threadIdx.x % 32; i < stride; i += 32) {
        if (compensated)
            canonical_take_compensated(&p, &c, x[i], y[i]);
        else
            canonical_take(&p, x[i], y[i]);
    }
    float sum = sum_tree_of_32(p);
    return compensated ? canonical_corrected(sum, sum_tree_of_32(c)) : sum;
}

/* The blocks' totals, by the tree; the sum is in the first. */
__device__ void complete_fold_totals_of(double *totals, uint64_t count)
{
    for (uint64_t step = 1; step < count; step *= 2) {
        for (uint64_t i = threadIdx.x; i * 2 * step + step < count; i += COMPLETE_THREADS)
            totals[i * 2 * step] = complete_add(totals[i * 2 * step], totals[i * 2 * step + step]);
        __syncthreads();
    }
}

__global__ void __launch_bounds__(COMPLETE_THREADS)
    complete_settle_kernel(const struct complete_round r)
{
    const uint64_t q = blockIdx.x;
    const uint32_t stride = 4 * r.quads, d = r.rows.dimension;
    struct complete_record *record = &r.work.records[q];
    if (record->done) return;
    float *state = r.work.state + q * stride, *moved = r.work.moved + q * stride;
    const float *sums = r.work.sums + q * r.blocks * stride, *cue = r.work.cues + q * stride;
    const uint8_t *known = r.work.known ? r.work.known + q * r.work.known_step : NULL;
    double *totals = r.work.totals + q * r.blocks;
    complete_fold_totals_of(totals, r.blocks);
    const double total = totals[0];
    const float before = canonical_norm(complete_dot(d, stride, state, state));
    __syncthreads();
    for (uint32_t c = threadIdx.x; c < stride; c += COMPLETE_THREADS) {
        float value = c < d ? complete_value(sums[c], total) : 0.0f;
        if (c < d && known && known[c]) value = cue[c];
        moved[c] = canonical_subtract(value, state[c]);
        state[c] = value;
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    const bool still = canonical_norm(complete_dot(d, stride, moved, moved)) < COMPLETE_STILL;
    const float norm = canonical_norm(complete_dot(d, stride, state, state));
    const uint64_t best = record->row;
    const float dot = complete_dot(d, stride, state, r.rows.rows + best * stride);
    if (threadIdx.x > 0) return;
    record->rounds++;
    record->still = still;
    record->energy = complete_energy(before, r.work.bests[q * r.blocks].norm, record->score, total,
                                     r.rows.count, r.work.beta);
    record->cosine = canonical_cosine(dot, norm, r.rows.norms[best]);
    record->done = still || record->rounds >= r.work.rounds;
}

static int complete_sums(const struct complete_round &r, cudaStream_t stream)
{
    const unsigned threads =
        r.quads < COMPLETE_THREADS ? (r.quads + 31) / 32 * 32 : (unsigned)COMPLETE_THREADS;
    const unsigned columns = blocks_for(r.quads, COMPLETE_THREADS);
    if (r.work.states == 1) {
        dim3 grid(1, (unsigned)r.blocks, columns);
        complete_add_kernel<1><<<grid, threads, 0, stream>>>(r);
    } else {
        dim3 grid(blocks_for(r.work.states, COMPLETE_STATES), (unsigned)r.blocks, columns);
        complete_add_kernel<COMPLETE_STATES><<<grid, threads, 0, stream>>>(r);
    }
    cudaError_t error = cudaGetLastError();
    for (uint64_t step = 1; !error && step < r.blocks; step *= 2) {
        uint64_t nodes = (r.blocks + 2 * step - 1) / (2 * step);
        dim3 grid(blocks_for(nodes * r.quads, COMPLETE_THREADS), (unsigned)r.work.states);
        complete_fold_kernel<<<grid, COMPLETE_THREADS, 0, stream>>>(r, step);
        error = cudaGetLastError();
    }
    return error;
}

/* A grid's second direction has 65,535 blocks: there the blocks of rows do not fit for ever. */
enum { COMPLETE_BLOCKS_MAX = 65535 };

extern "C" int cuda_complete(const struct cuda_rows *rows, const struct cuda_completion *work,
                             struct CUstream_st *stream)
{
    if (work->states == 0) return cudaSuccess;
    struct complete_round r = {};
    r.work = *work;
    r.rows = *rows;
    r.blocks = complete_blocks(rows->count);
    r.quads = (uint32_t)(vector_stride(rows->dimension) / 4);
    if (r.blocks > COMPLETE_BLOCKS_MAX || work->states > CUDA_COMPLETION_STATES_MAX)
        return cudaErrorInvalidValue;
    const unsigned states = (unsigned)work->states;
    if (work->begin) {
        complete_begin_kernel<<<states, COMPLETE_THREADS, 0, stream>>>(r);
        return cudaGetLastError();
    }
    dim3 blocks((unsigned)r.blocks, states);
    complete_score_kernel<<<blocks, COMPLETE_THREADS, 0, stream>>>(r);
    complete_best_kernel<<<states, COMPLETE_THREADS, 0, stream>>>(r);
    complete_weigh_kernel<<<blocks, COMPLETE_THREADS, 0, stream>>>(r);
    int error = cudaGetLastError();
    if (!error) error = complete_sums(r, stream);
    if (error) return error;
    complete_settle_kernel<<<states, COMPLETE_THREADS, 0, stream>>>(r);
    return cudaGetLastError();
}
