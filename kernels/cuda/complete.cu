/* complete: what follows the dot products of a round. The best score by blocks of 1,024 rows, one
 * block of threads each; weights and totals the same; the sums of complete_sums.cu; and a block of
 * threads a state that ends the round. */
#include "kernels/cuda/complete.cuh"

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
    const float *dots = r.work.scores + q * r.rows.count;
    struct complete_block_best best = complete_none();
    for (uint32_t i = threadIdx.x; i < COMPLETE_BLOCK; i += COMPLETE_THREADS) {
        uint64_t row = b * COMPLETE_BLOCK + i;
        if (row >= r.rows.count) break;
        float norm = __ldg(&r.rows.norms[row]);
        float score = complete_score(dots[row], r.work.unit ? norm : 1.0f);
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
    __shared__ uint32_t runs;
    const uint64_t b = blockIdx.x, q = blockIdx.y;
    if (threadIdx.x == 0) runs = 0;
    __syncthreads();
    const bool done = r.work.records[q].done;
    const float most = r.work.records[q].score;
    float *scores = r.work.scores + q * r.rows.count;
    for (uint32_t i = threadIdx.x; !done && i < COMPLETE_BLOCK; i += COMPLETE_THREADS) {
        const uint64_t row = b * COMPLETE_BLOCK + i;
        float weight = 0.0f, share = 0.0f; /* adds nothing to a total, which is never -0 */
        if (row < r.rows.count) {
            const float norm = complete_norm_of(r, row);
            weight = complete_weight(complete_score(scores[row], norm), most, r.work.beta);
            share = complete_share(weight, norm);
            scores[row] = share;
        }
        weights[i] = weight;
        const bool any = __any_sync(WARP, share != 0.0f);
        if (any && threadIdx.x % 32 == 0) atomicOr(&runs, 1u << i / COMPLETE_RUN);
    }
    __syncthreads();
    if (threadIdx.x == 0) r.work.runs[q * r.blocks + b] = runs;
    if (done) return;
    if (threadIdx.x >= 32) return;
    double total = 0.0;
    for (uint32_t i = threadIdx.x; i < COMPLETE_BLOCK; i += 32)
        total = complete_add(total, (double)weights[i]);
    total = complete_tree_of_32(total);
    if (threadIdx.x == 0) r.work.totals[q * r.blocks + b] = total;
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
    if (!error) error = complete_sums_launch(&r, stream);
    if (error) return error;
    complete_settle_kernel<<<states, COMPLETE_THREADS, 0, stream>>>(r);
    return cudaGetLastError();
}
