/* covariance: sums of columns, a thread each; products, a block of 64 threads for each tile of 64 x
 * 64 and block of rows, each thread with 8 x 8 chains in registers; and the folds. Rows are centred
 * on their way into shared memory, of which one half is filled while the other is read. The tensor
 * units' products of binary64 do not promise an order, so these are plain fused operations: 64
 * for each cycle and multiprocessor. */
#include "kernels/cuda/covariance_cuda.h"

#include <cuda_runtime.h>

#include "kernels/cuda/launch.cuh"

enum {
    TILE = CUDA_COVARIANCE_TILE,
    NUMBERS = CUDA_COVARIANCE_TILE_NUMBERS,
    DEPTH = 16, /* rows in half of the shared memory */
    ADD_THREADS = 64,
    EACH = 8,      /* left and right numbers of a thread */
    ROW_QUADS = 4, /* of DEPTH rows, which a thread brings */
    SUM_THREADS = 128,
    SUM_AHEAD = 16,
    FOLD_THREADS = 256,
    STACK = 34 /* levels of a tree over 2^32 parts */
};

struct covariance_run {
    struct cuda_rows rows;
    struct cuda_covariance work;
    uint32_t stride;
};

__device__ __forceinline__ const float *covariance_row(const struct covariance_run &r, uint64_t i)
{
    uint64_t row = r.work.positions ? __ldg(&r.work.positions[i]) : i;
    return r.rows.rows + row * r.stride;
}

__device__ __forceinline__ uint64_t block_end(const struct covariance_run &r, uint64_t block)
{
    uint64_t end = (block + 1) * COVARIANCE_BLOCK;
    return end < r.work.count ? end : r.work.count;
}

/* ---- sums and the mean ---- */

__global__ void __launch_bounds__(SUM_THREADS) covariance_sum_kernel(const struct covariance_run r)
{
    const uint32_t c = blockIdx.y * SUM_THREADS + threadIdx.x;
    if (c >= r.stride) return;
    const uint64_t block = blockIdx.x, end = block_end(r, block);
    uint64_t i = block * COVARIANCE_BLOCK;
    double sum = 0.0;
    for (; i + SUM_AHEAD <= end; i += SUM_AHEAD) {
        float x[SUM_AHEAD], w[SUM_AHEAD];
#pragma unroll
        for (int k = 0; k < SUM_AHEAD; k++) {
            x[k] = __ldg(covariance_row(r, i + k) + c);
            w[k] = r.work.weights ? __ldg(&r.work.weights[i + k]) : 1.0f;
        }
#pragma unroll
        for (int k = 0; k < SUM_AHEAD; k++)
            sum = __fma_rn((double)w[k], (double)x[k], sum);
    }
    for (; i < end; i++)
        sum = __fma_rn(r.work.weights ? (double)__ldg(&r.work.weights[i]) : 1.0,
                       (double)__ldg(covariance_row(r, i) + c), sum);
    r.work.sums[block * r.stride + c] = sum;
}

/* The tree over `count` numbers, `step` apart: neighbours of one level are added as soon as both
 * are there, and what is left over at the end from the last to the first. */
__device__ double covariance_tree(const double *from, uint64_t step, uint64_t count)
{
    double stack[STACK];
    int height = 0;
    for (uint64_t i = 0; i < count; i++) {
        double sum = from[i * step];
        for (uint64_t ends = i; ends & 1; ends >>= 1)
            sum = __dadd_rn(stack[--height], sum);
        stack[height++] = sum;
    }
    double sum = stack[--height];
    while (height)
        sum = __dadd_rn(stack[--height], sum);
    return sum;
}

__global__ void __launch_bounds__(SUM_THREADS)
    covariance_mean_kernel(const struct covariance_run r, uint64_t blocks)
{
    const uint32_t c = blockIdx.x * SUM_THREADS + threadIdx.x;
    if (c >= r.stride) return;
    r.work.mean[c] = __ddiv_rn(covariance_tree(r.work.sums + c, r.stride, blocks), r.work.total);
}

/* ---- products ---- */

struct covariance_tile {
    uint32_t left, right; /* first columns */
};

__device__ struct covariance_tile tile_of(uint32_t dimension, uint64_t number)
{
    uint32_t sides = (dimension + TILE - 1) / TILE, left = 0;
    for (; number >= sides - left; left++)
        number -= sides - left;
    struct covariance_tile t = {left * TILE, (left + (uint32_t)number) * TILE};
    return t;
}

/* What a thread brings of DEPTH rows: four numbers of each fourth row, for both sides. */
struct covariance_load {
    float4 left[ROW_QUADS], right[ROW_QUADS];
    float weight[ROW_QUADS];
};

__device__ __forceinline__ void bring(const struct covariance_run &r, struct covariance_tile t,
                                      uint64_t first, uint64_t end, struct covariance_load *load)
{
    const uint32_t column = threadIdx.x % 16 * 4;
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int q = 0; q < ROW_QUADS; q++) {
        const uint64_t i = first + threadIdx.x / 16 + 4 * q;
        load->left[q] = load->right[q] = none;
        load->weight[q] = 1.0f;
        if (i >= end) continue;
        const float *row = covariance_row(r, i);
        if (t.left + column < r.stride)
            load->left[q] = __ldg((const float4 *)(row + t.left + column));
        if (t.right + column < r.stride)
            load->right[q] = __ldg((const float4 *)(row + t.right + column));
        if (r.work.weights) load->weight[q] = __ldg(&r.work.weights[i]);
    }
}

__device__ __forceinline__ double centre(float x, double mean)
{
    return __dsub_rn((double)x, mean);
}

/* Rows behind the last one are zeros, which change no chain: none is ever -0. */
__device__ __forceinline__ void put(const struct covariance_load *load, bool weighted,
                                    uint64_t first, uint64_t end, const double *means,
                                    double (*left)[TILE], double (*right)[TILE])
{
    const uint32_t column = threadIdx.x % 16 * 4;
    const double *m = means + column, *n = means + TILE + column;
#pragma unroll
    for (int q = 0; q < ROW_QUADS; q++) {
        const uint32_t row = threadIdx.x / 16 + 4 * q;
        const bool there = first + row < end;
        const float4 a = load->left[q], b = load->right[q];
        double x[4] = {centre(a.x, m[0]), centre(a.y, m[1]), centre(a.z, m[2]), centre(a.w, m[3])};
        double y[4] = {centre(b.x, n[0]), centre(b.y, n[1]), centre(b.z, n[2]), centre(b.w, n[3])};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (weighted) x[k] = __dmul_rn((double)load->weight[q], x[k]);
            if (!there) x[k] = y[k] = 0.0;
        }
        *(double2 *)&left[row][column] = make_double2(x[0], x[1]);
        *(double2 *)&left[row][column + 2] = make_double2(x[2], x[3]);
        *(double2 *)&right[row][column] = make_double2(y[0], y[1]);
        *(double2 *)&right[row][column + 2] = make_double2(y[2], y[3]);
    }
}

/* A thread's numbers of a side lie two by two, 16 apart, so that those of eight threads fill all
 * banks. */
__device__ __forceinline__ void take(const double *row, uint32_t at, double numbers[EACH])
{
#pragma unroll
    for (int m = 0; m < EACH / 2; m++) {
        const double2 two = *(const double2 *)(row + 2 * at + 16 * m);
        numbers[2 * m] = two.x;
        numbers[2 * m + 1] = two.y;
    }
}

__global__ void __launch_bounds__(ADD_THREADS, 4)
    covariance_add_kernel(const struct covariance_run r, double *nodes)
{
    __shared__ __align__(16) double left[2][DEPTH][TILE], right[2][DEPTH][TILE];
    __shared__ double means[2 * TILE];
    const struct covariance_tile t = tile_of(r.rows.dimension, r.work.first_tile + blockIdx.x);
    const uint64_t block = r.work.first_block + blockIdx.y, end = block_end(r, block);
    const uint32_t across = threadIdx.x % 8, down = threadIdx.x / 8;
    const bool weighted = r.work.weights != NULL;
    const uint32_t from_left = t.left + threadIdx.x, from_right = t.right + threadIdx.x;
    means[threadIdx.x] = from_left < r.stride ? r.work.mean[from_left] : 0.0;
    means[TILE + threadIdx.x] = from_right < r.stride ? r.work.mean[from_right] : 0.0;
    double sums[EACH][EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++)
#pragma unroll
        for (int i = 0; i < EACH; i++)
            sums[j][i] = 0.0;
    struct covariance_load load;
    uint64_t at = block * COVARIANCE_BLOCK;
    bring(r, t, at, end, &load);
    __syncthreads();
    put(&load, weighted, at, end, means, left[0], right[0]);
    __syncthreads();
    for (uint32_t half = 0; at < end; at += DEPTH, half ^= 1) {
        const bool more = at + DEPTH < end;
        if (more) bring(r, t, at + DEPTH, end, &load);
#pragma unroll 2
        for (int k = 0; k < DEPTH; k++) {
            double a[EACH], b[EACH];
            take(left[half][k], across, a);
            take(right[half][k], down, b);
#pragma unroll
            for (int j = 0; j < EACH; j++)
#pragma unroll
                for (int i = 0; i < EACH; i++)
                    sums[j][i] = __fma_rn(a[i], b[j], sums[j][i]);
        }
        if (more) put(&load, weighted, at + DEPTH, end, means, left[half ^ 1], right[half ^ 1]);
        __syncthreads();
    }
    double *node = nodes + (blockIdx.y * (uint64_t)gridDim.x + blockIdx.x) * NUMBERS;
#pragma unroll
    for (int j = 0; j < EACH; j++)
#pragma unroll
        for (int m = 0; m < EACH / 2; m++) {
            const uint32_t line = 2 * down + 16 * (j / 2) + j % 2;
            *(double2 *)(node + line * TILE + 2 * across + 16 * m) =
                make_double2(sums[j][2 * m], sums[j][2 * m + 1]);
        }
}

/* ---- folds ---- */

/* The tree over 2^LEVEL numbers from the first on, of which there are `count` in all. */
template <int LEVEL> struct covariance_fold_level {
    static __device__ __forceinline__ double sum(const double *from, uint64_t step, uint32_t first,
                                                 uint32_t count)
    {
        const uint32_t middle = first + (1u << (LEVEL - 1));
        const double left = covariance_fold_level<LEVEL - 1>::sum(from, step, first, count);
        if (middle >= count) return left;
        return __dadd_rn(left, covariance_fold_level<LEVEL - 1>::sum(from, step, middle, count));
    }
};
template <> struct covariance_fold_level<0> {
    static __device__ __forceinline__ double sum(const double *from, uint64_t step, uint32_t first,
                                                 uint32_t count)
    {
        (void)count;
        return from[first * step];
    }
};

__global__ void __launch_bounds__(FOLD_THREADS)
    covariance_fold_kernel(const struct covariance_run r)
{
    const uint64_t i = blockIdx.x * (uint64_t)FOLD_THREADS + threadIdx.x;
    const uint64_t step = r.work.tiles * NUMBERS;
    if (i < step)
        r.work.part[i] =
            covariance_fold_level<5>::sum(r.work.nodes + i, step, 0, (uint32_t)r.work.blocks);
}

__global__ void __launch_bounds__(FOLD_THREADS)
    covariance_write_kernel(const struct covariance_run r)
{
    const uint64_t tile = blockIdx.x / (NUMBERS / FOLD_THREADS), d = r.rows.dimension;
    const uint32_t at = blockIdx.x % (NUMBERS / FOLD_THREADS) * FOLD_THREADS + threadIdx.x;
    const struct covariance_tile t = tile_of(r.rows.dimension, r.work.first_tile + tile);
    const uint64_t i = t.left + at % TILE, j = t.right + at / TILE;
    if (i > j || j >= d) return;
    const double sum =
        covariance_tree(r.work.part + tile * NUMBERS + at, r.work.tiles * NUMBERS, r.work.parts);
    const double value = __ddiv_rn(sum, r.work.divisor);
    r.work.covariance[j * d + i] = value;
    r.work.covariance[i * d + j] = value;
}

/* ---- launching ---- */

static int launch_add(const struct covariance_run &r, cudaStream_t stream)
{
    const struct cuda_covariance &w = r.work;
    const dim3 grid((unsigned)w.tiles, (unsigned)w.blocks);
    covariance_add_kernel<<<grid, ADD_THREADS, 0, stream>>>(r, w.blocks == 1 ? w.part : w.nodes);
    if (w.blocks > 1)
        covariance_fold_kernel<<<blocks_for(w.tiles * NUMBERS, FOLD_THREADS), FOLD_THREADS, 0,
                                 stream>>>(r);
    return cudaGetLastError();
}

extern "C" int cuda_covariance(const struct cuda_rows *rows, const struct cuda_covariance *work,
                               struct CUstream_st *stream)
{
    const struct covariance_run r = {*rows, *work, (uint32_t)vector_stride(rows->dimension)};
    const uint64_t blocks = covariance_blocks(work->count);
    const unsigned lines = blocks_for(r.stride, SUM_THREADS);
    if (!work->count) return cudaSuccess;
    switch (work->stage) {
    case CUDA_COVARIANCE_SUM:
        covariance_sum_kernel<<<dim3((unsigned)blocks, lines), SUM_THREADS, 0, stream>>>(r);
        break;
    case CUDA_COVARIANCE_MEAN:
        covariance_mean_kernel<<<lines, SUM_THREADS, 0, stream>>>(r, blocks);
        break;
    case CUDA_COVARIANCE_ADD: return work->tiles && work->blocks ? launch_add(r, stream) : 0;
    case CUDA_COVARIANCE_WRITE:
        if (work->tiles)
            covariance_write_kernel<<<(unsigned)(work->tiles * (NUMBERS / FOLD_THREADS)),
                                      FOLD_THREADS, 0, stream>>>(r);
        break;
    }
    return cudaGetLastError();
}
