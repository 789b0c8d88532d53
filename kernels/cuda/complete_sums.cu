/* complete_sums: sums of rows, weighted with the shares of some states, by blocks of 1,024 rows.
 *
 * For a few states memory is the bound: a thread has four columns, reads its part of every row
 * once and keeps the sums of all states. For many it is arithmetic, a product of the matrix of
 * shares with that of rows: a block of threads has 16 EACH states and 128 columns, a thread EACH
 * states and 8 columns, and half a run of rows and shares is multiplied from shared memory while
 * the next half is copied. Runs in which no state has a share are left out (work.runs). */
#include "kernels/cuda/complete.cuh"
#include "kernels/cuda/copies.cuh"

enum {
    FEW_STATES = 8,      /* whose sums a thread holds */
    FEW_STATES_MAX = 16, /* from here on a tile is faster */
    FEW_FLIGHT = 8,      /* rows loaded before the first is added */
    TILE_QUADS = 32,     /* columns of a block of threads, by fours */
    TILE_HALF = COMPLETE_RUN / 2,
    FOLD = 8, /* leaves of the tree that a thread folds */
};
static_assert(COMPLETE_BLOCK / COMPLETE_RUN == 32, "a bit for each run of a block");

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

__device__ __forceinline__ uint32_t complete_block_rows(const struct complete_round &r, uint64_t b)
{
    const uint64_t left = r.rows.count - b * COMPLETE_BLOCK;
    return left < COMPLETE_BLOCK ? (uint32_t)left : (uint32_t)COMPLETE_BLOCK;
}

/* The runs of a block in which one of these states has a share; at most a thread a state. */
__device__ __forceinline__ uint32_t complete_runs_of(const struct complete_round &r, uint64_t b,
                                                     uint64_t first_state, uint32_t states)
{
    __shared__ uint32_t found;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    const uint64_t q = first_state + threadIdx.x;
    if (threadIdx.x < states && q < r.work.states) {
        const uint32_t runs = r.work.runs[q * r.blocks + b];
        if (runs) atomicOr(&found, runs);
    }
    __syncthreads();
    return found;
}

/* ---- a few states ---- */

/* For one state, many small blocks of threads keep multiprocessors equally busy; for more they are
 * larger, because each reads all shares of its states first. */
template <int STATES> __host__ __device__ constexpr unsigned complete_few_threads(void)
{
    return STATES == 1 ? 64 : 256;
}

/* A run of rows: shares[q][i]. Rows behind the end have a share of 0 and repeat the last one: they
 * add nothing to a sum, which is never -0. */
template <int STATES>
__device__ __forceinline__ void complete_few_run(const float4 *rows, uint32_t quads, uint32_t last,
                                                 const float (*shares)[COMPLETE_BLOCK],
                                                 uint32_t first, float4 *sums)
{
    float4 p[STATES];
#pragma unroll
    for (int q = 0; q < STATES; q++)
        p[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (uint32_t i = first; i < first + COMPLETE_RUN; i += FEW_FLIGHT) {
        float4 x[FEW_FLIGHT];
#pragma unroll
        for (uint32_t n = 0; n < FEW_FLIGHT; n++)
            x[n] = __ldg(&rows[(uint64_t)(i + n < last ? i + n : last) * quads]);
#pragma unroll
        for (int q = 0; q < STATES; q++)
#pragma unroll
            for (uint32_t n = 0; n < FEW_FLIGHT; n += 4) {
                const float4 share = *(const float4 *)&shares[q][i + n];
                complete_take(&p[q], share.x, x[n]);
                complete_take(&p[q], share.y, x[n + 1]);
                complete_take(&p[q], share.z, x[n + 2]);
                complete_take(&p[q], share.w, x[n + 3]);
            }
    }
#pragma unroll
    for (int q = 0; q < STATES; q++)
        sums[q] = complete_sum(sums[q], p[q]);
}

template <int STATES>
__global__ void __launch_bounds__(complete_few_threads<STATES>())
    complete_few_kernel(const struct complete_round r)
{
    __shared__ __align__(16) float shares[STATES][COMPLETE_BLOCK];
    const uint64_t b = blockIdx.y;
    const uint64_t first_state = (uint64_t)blockIdx.z * STATES;
    const uint32_t quad = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t count = complete_block_rows(r, b);
    uint32_t runs = complete_runs_of(r, b, first_state, STATES);
    for (int q = 0; runs && q < STATES; q++) {
        const uint64_t state = first_state + q;
        const bool there = state < r.work.states && !r.work.records[state].done;
        const float *from = r.work.scores + state * r.rows.count + b * COMPLETE_BLOCK;
        for (uint32_t i = threadIdx.x; i < COMPLETE_BLOCK; i += blockDim.x)
            shares[q][i] = there && i < count ? from[i] : 0.0f;
    }
    __syncthreads();
    if (quad >= r.quads) return;
    const float4 *rows = (const float4 *)r.rows.rows + b * COMPLETE_BLOCK * r.quads + quad;
    float4 sums[STATES];
#pragma unroll
    for (int q = 0; q < STATES; q++)
        sums[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (; runs; runs &= runs - 1)
        complete_few_run<STATES>(rows, r.quads, count - 1, shares,
                                 (uint32_t)(__ffs((int)runs) - 1) * COMPLETE_RUN, sums);
#pragma unroll
    for (int q = 0; q < STATES; q++)
        if (first_state + q < r.work.states)
            ((float4 *)r.work.sums)[((first_state + q) * r.blocks + b) * r.quads + quad] = sums[q];
}

template <int STATES> static void complete_few(const struct complete_round *r, cudaStream_t stream)
{
    const unsigned most = complete_few_threads<STATES>();
    const unsigned threads = r->quads < most ? (r->quads + 31) / 32 * 32 : most;
    dim3 grid(blocks_for(r->quads, threads), (unsigned)r->blocks,
              blocks_for(r->work.states, STATES));
    complete_few_kernel<STATES><<<grid, threads, 0, stream>>>(*r);
}

/* ---- many states ---- */

template <int EACH> struct complete_half {
    /* Four floats more in a line: copies of 8 rows x 4 states hit 32 banks. */
    float shares[TILE_HALF][16 * EACH + 4];
    float4 rows[TILE_HALF][TILE_QUADS];
};

/* Which half of which run is copied next. */
struct complete_ahead {
    uint32_t runs, half;
};

/* Starts to copy the next half run, if there is one. Where there is no row, state or column there
 * are zeros. */
template <int EACH>
__device__ __forceinline__ void complete_copy(const struct complete_round &r,
                                              struct complete_ahead *ahead,
                                              struct complete_half<EACH> *to)
{
    if (ahead->runs) {
        const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const uint32_t first =
            (uint32_t)(__ffs((int)ahead->runs) - 1) * COMPLETE_RUN + ahead->half * TILE_HALF;
        const uint64_t b = blockIdx.y, begin = b * COMPLETE_BLOCK + first;
        const uint32_t row = warp % 2 * 8 + lane % 8;
#pragma unroll
        for (uint32_t n = 0; n < EACH; n++) {
            const uint32_t line = n * 16 + warp / 2 * 4 + lane / 8;
            const uint64_t state = (uint64_t)blockIdx.z * 16 * EACH + line;
            if (begin + row < r.rows.count && state < r.work.states)
                copy_4(&to->shares[row][line], r.work.scores + state * r.rows.count + begin + row);
            else
                to->shares[row][line] = 0.0f;
        }
        const uint32_t quad = blockIdx.x * TILE_QUADS + lane;
#pragma unroll
        for (uint32_t n = warp; n < TILE_HALF; n += COMPLETE_WARPS) {
            if (begin + n < r.rows.count && quad < r.quads)
                copy_16((float *)&to->rows[n][lane],
                        r.rows.rows + ((begin + n) * r.quads + quad) * 4);
            else
                to->rows[n][lane] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        ahead->runs &= ahead->runs - ahead->half;
        ahead->half ^= 1;
    }
    copies_commit();
}

/* The i-th state of a thread with states from 4 line (or, with fewer each, EACH line) on. */
template <int EACH> __device__ __forceinline__ uint32_t complete_line_of(uint32_t line, int i)
{
    return EACH <= 4 ? line * EACH + i : i / 4 * 64 + line * 4 + i % 4;
}

template <int EACH>
__device__ __forceinline__ void complete_multiply_half(const struct complete_half<EACH> &half,
                                                       uint32_t line, uint32_t quad, float4 (*p)[2])
{
#pragma unroll 8
    for (int k = 0; k < TILE_HALF; k++) {
        const float4 left = half.rows[k][quad], right = half.rows[k][quad + TILE_QUADS / 2];
        float share[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            share[i] = half.shares[k][complete_line_of<EACH>(line, i)];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            complete_take(&p[i][0], share[i], left);
            complete_take(&p[i][1], share[i], right);
        }
    }
}

template <int EACH>
__device__ __forceinline__ void complete_store(const struct complete_round &r, uint32_t line,
                                               uint32_t column, const float4 (*sums)[2])
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const uint64_t state = (uint64_t)blockIdx.z * 16 * EACH + complete_line_of<EACH>(line, i);
        if (state >= r.work.states) continue;
        float4 *to = (float4 *)r.work.sums + (state * r.blocks + blockIdx.y) * r.quads;
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const uint32_t quad = blockIdx.x * TILE_QUADS + n * TILE_QUADS / 2 + column;
            if (quad < r.quads) to[quad] = sums[i][n];
        }
    }
}

template <int EACH>
__global__ void __launch_bounds__(COMPLETE_THREADS, EACH == 8 ? 1 : 2)
    complete_tile_kernel(const struct complete_round r)
{
    __shared__ __align__(16) struct complete_half<EACH> halves[2];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t line = warp % 4 * 4 + lane / 8, column = warp / 4 * 8 + lane % 8;
    uint32_t runs = complete_runs_of(r, blockIdx.y, (uint64_t)blockIdx.z * 16 * EACH, 16 * EACH);
    struct complete_ahead ahead = {runs, 0};
    float4 sums[EACH][2];
#pragma unroll
    for (int i = 0; i < EACH; i++)
        sums[i][0] = sums[i][1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    complete_copy<EACH>(r, &ahead, &halves[0]);
    for (; runs; runs &= runs - 1) {
        float4 p[EACH][2];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            p[i][0] = p[i][1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            /* This half has arrived, and all threads are done with the one before it, whose place
             * is filled again. */
            copies_wait<0>();
            __syncthreads();
            complete_copy<EACH>(r, &ahead, &halves[half ^ 1]);
            complete_multiply_half<EACH>(halves[half], line, column, p);
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            sums[i][0] = complete_sum(sums[i][0], p[i][0]);
            sums[i][1] = complete_sum(sums[i][1], p[i][1]);
        }
    }
    complete_store<EACH>(r, line, column, sums);
}

template <int EACH> static void complete_tile(const struct complete_round *r, cudaStream_t stream)
{
    dim3 grid(blocks_for(r->quads, TILE_QUADS), (unsigned)r->blocks,
              blocks_for(r->work.states, 16 * EACH));
    complete_tile_kernel<EACH><<<grid, COMPLETE_THREADS, 0, stream>>>(*r);
}

/* ---- the tree over blocks ---- */

/* Three levels: node i takes those of its neighbours that are there, `step` apart. */
__global__ void __launch_bounds__(COMPLETE_THREADS)
    complete_fold_kernel(const struct complete_round r, uint64_t step)
{
    const uint64_t i = (uint64_t)blockIdx.x * COMPLETE_THREADS + threadIdx.x;
    const uint64_t node = i / r.quads * FOLD * step, q = blockIdx.y;
    if (node + step >= r.blocks) return;
    float4 *nodes = (float4 *)r.work.sums + q * r.blocks * r.quads + i % r.quads;
    float4 v[FOLD];
#pragma unroll
    for (int n = 0; n < FOLD; n++)
        v[n] = nodes[(node + n * step < r.blocks ? node + n * step : node) * r.quads];
#pragma unroll
    for (int level = 1; level < FOLD; level *= 2)
#pragma unroll
        for (int n = 0; n < FOLD; n += 2 * level)
            if (node + (n + level) * step < r.blocks) v[n] = complete_sum(v[n], v[n + level]);
    nodes[node * r.quads] = v[0];
}

int complete_sums_launch(const struct complete_round *r, cudaStream_t stream)
{
    if (r->work.states == 1)
        complete_few<1>(r, stream);
    else if (r->work.states <= FEW_STATES_MAX)
        complete_few<FEW_STATES>(r, stream);
    else if (r->work.states <= 32)
        complete_tile<2>(r, stream);
    else if (r->work.states <= 64)
        complete_tile<4>(r, stream);
    else
        complete_tile<8>(r, stream);
    cudaError_t error = cudaGetLastError();
    for (uint64_t step = 1; !error && step < r->blocks; step *= FOLD) {
        uint64_t nodes = (r->blocks + FOLD * step - 1) / (FOLD * step);
        dim3 grid(blocks_for(nodes * r->quads, COMPLETE_THREADS), (unsigned)r->work.states);
        complete_fold_kernel<<<grid, COMPLETE_THREADS, 0, stream>>>(*r, step);
        error = cudaGetLastError();
    }
    return error;
}
