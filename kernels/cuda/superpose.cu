/* superpose: a thread sums four columns of a piece, in the order of its rows, with several rows'
 * loads in flight. A block of threads has one piece, or several if rows are short, or a part of a
 * long row. Up to SUPERPOSE_FUSED numbers a row its norm is taken and divided by right here, so
 * that rows are read once and sums written once. Longer lists' nodes are folded sixteen at a time:
 * what is left of them after each round stands sixteen times as far apart. */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/normalize.cuh"
#include "kernels/cuda/rows_cuda.h"
#include "kernels/superpose.h"

enum {
    SUPERPOSE_THREADS = 256, /* each four columns */
    SUPERPOSE_FUSED = 4 * SUPERPOSE_THREADS,
    SUPERPOSE_FLIGHT = 8,   /* rows loaded before the first is added */
    SUPERPOSE_FOLD = 16,    /* nodes that are folded at once */
    SUPERPOSE_LISTS = 65535 /* blocks of threads in the grid's second direction */
};

struct superpose_job {
    const float *rows;
    const uint32_t *positions;
    const float *weights;
    const uint64_t *offsets;
    uint64_t pieces;
    float *sums;
    float *norms;
    uint32_t row_quads; /* of four columns in a row */
    uint32_t quads;     /* of them in a block of threads */
    uint32_t slots;     /* pieces in a block of threads */
    bool unit;
};

__device__ __forceinline__ void superpose_take(float4 *sum, float weight, float4 x)
{
    sum->x = fmaf(weight, x.x, sum->x);
    sum->y = fmaf(weight, x.y, sum->y);
    sum->z = fmaf(weight, x.z, sum->z);
    sum->w = fmaf(weight, x.w, sum->w);
}

/* With weights of 1 a fused multiply-add is the sum. */
__device__ __forceinline__ float4 superpose_rows(const struct superpose_job &job, uint64_t piece,
                                                 uint32_t quad)
{
    const uint64_t end = __ldg(&job.offsets[piece + 1]);
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (uint64_t first = __ldg(&job.offsets[piece]); first < end; first += SUPERPOSE_FLIGHT) {
        float4 x[SUPERPOSE_FLIGHT];
        float weights[SUPERPOSE_FLIGHT];
#pragma unroll
        for (int n = 0; n < SUPERPOSE_FLIGHT; n++) {
            uint64_t i = first + n;
            if (i >= end) continue;
            uint64_t row = job.positions ? __ldg(&job.positions[i]) : i;
            weights[n] = job.weights ? __ldg(&job.weights[i]) : 1.0f;
            x[n] = __ldg((const float4 *)job.rows + row * job.row_quads + quad);
        }
#pragma unroll
        for (int n = 0; n < SUPERPOSE_FLIGHT; n++)
            if (first + n < end) superpose_take(&sum, weights[n], x[n]);
    }
    return sum;
}

/* Eight threads for each piece take the norm of its sum, which is in shared memory. Whole warps
 * call it; slots that are not there repeat the last one. */
__device__ __forceinline__ float superpose_norm(const float4 *sums, uint32_t quads, uint32_t slots)
{
    uint32_t slot = threadIdx.x / 8 < slots ? threadIdx.x / 8 : slots - 1;
    float4 p = make_float4(0.0f, 0.0f, 0.0f, 0.0f), unused = p;
    for (uint32_t quad = threadIdx.x % 8; quad < quads; quad += 8) {
        float4 x = sums[slot * quads + quad];
        sum_take_4<false, false>(&p, &unused, x, x);
    }
    return canonical_norm(sum_tree_of_8(p));
}

template <bool FUSED>
__global__ void __launch_bounds__(SUPERPOSE_THREADS)
    superpose_kernel(const struct superpose_job job)
{
    const uint32_t slot = threadIdx.x / job.quads;
    const uint32_t quad = blockIdx.y * SUPERPOSE_THREADS + threadIdx.x % job.quads;
    const uint64_t piece = (uint64_t)blockIdx.x * job.slots + slot;
    const bool mine = slot < job.slots && piece < job.pieces && quad < job.row_quads;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (mine) sum = superpose_rows(job, piece, quad);
    if (FUSED) {
        __shared__ float4 sums[SUPERPOSE_THREADS];
        __shared__ float norms[SUPERPOSE_THREADS / 8];
        sums[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x / 32 * 4 < job.slots) { /* a whole warp, or none of it */
            float norm = superpose_norm(sums, job.quads, job.slots);
            if (threadIdx.x % 8 == 0) norms[threadIdx.x / 8] = norm;
        }
        __syncthreads();
        if (mine && quad == 0) job.norms[piece] = norms[slot];
        if (mine && job.unit) sum = normalize_quad(sum, norms[slot]);
    }
    if (mine) ((float4 *)job.sums)[piece * job.row_quads + quad] = sum;
}

struct superpose_fold_job {
    float4 *nodes;
    const uint64_t *firsts;
    uint64_t lists;
    uint64_t step;  /* from one of the nodes that are left to the next */
    float4 *sums;   /* NULL: another round follows */
    uint32_t quads; /* of four columns in a row */
};

__device__ __forceinline__ float4 superpose_sum(float4 a, float4 b)
{
    return make_float4(canonical_add(a.x, b.x), canonical_add(a.y, b.y), canonical_add(a.z, b.z),
                       canonical_add(a.w, b.w));
}

/* Neighbours by neighbours; one that is left over stays where it is. */
__device__ __forceinline__ float4 superpose_fold_some(const float4 *nodes, uint64_t distance,
                                                      uint64_t count)
{
    float4 x[SUPERPOSE_FOLD];
#pragma unroll
    for (int n = 0; n < SUPERPOSE_FOLD; n++)
        if (n < count) x[n] = nodes[n * distance];
#pragma unroll
    for (int apart = 1; apart < SUPERPOSE_FOLD; apart *= 2)
#pragma unroll
        for (int n = 0; n < SUPERPOSE_FOLD; n += 2 * apart)
            if (n + apart < count) x[n] = superpose_sum(x[n], x[n + apart]);
    return count ? x[0] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

__global__ void __launch_bounds__(SUPERPOSE_THREADS)
    superpose_fold_kernel(const struct superpose_fold_job job)
{
    const uint64_t thread = (uint64_t)blockIdx.x * SUPERPOSE_THREADS + threadIdx.x;
    const uint64_t group = thread / job.quads;
    const uint32_t quad = (uint32_t)(thread - group * job.quads);
    const uint64_t ahead = group * SUPERPOSE_FOLD * job.step; /* nodes before the group's first */
    for (uint64_t list = blockIdx.y; list < job.lists; list += gridDim.y) {
        uint64_t first = __ldg(&job.firsts[list]), count = __ldg(&job.firsts[list + 1]) - first;
        if (ahead >= count && (ahead > 0 || !job.sums)) continue;
        uint64_t left = (count - ahead + job.step - 1) / job.step;
        float4 *node = job.nodes + (first + ahead) * job.quads + quad;
        float4 sum = superpose_fold_some(node, job.step * job.quads,
                                         left < SUPERPOSE_FOLD ? left : SUPERPOSE_FOLD);
        if (job.sums)
            job.sums[list * job.quads + quad] = sum;
        else
            *node = sum;
    }
}

/* Rounds until one node a list is left; the last one writes it to the sums. */
static int superpose_fold(const struct cuda_superpose *superpose, uint32_t quads,
                          cudaStream_t stream)
{
    struct superpose_fold_job job = {};
    job.nodes = (float4 *)superpose->nodes;
    job.firsts = superpose->firsts;
    job.lists = superpose->lists;
    job.quads = quads;
    for (uint64_t left = superpose->most, step = 1; !job.sums; step *= SUPERPOSE_FOLD) {
        left = left > SUPERPOSE_FOLD ? (left + SUPERPOSE_FOLD - 1) / SUPERPOSE_FOLD : 1;
        job.step = step;
        job.sums = left == 1 ? (float4 *)superpose->sums : NULL;
        unsigned lists = superpose->lists < SUPERPOSE_LISTS ? (unsigned)superpose->lists
                                                            : (unsigned)SUPERPOSE_LISTS;
        dim3 grid(blocks_for(left * quads, SUPERPOSE_THREADS), lists);
        superpose_fold_kernel<<<grid, SUPERPOSE_THREADS, 0, stream>>>(job);
        cudaError_t error = cudaGetLastError();
        if (error) return error;
    }
    return cudaSuccess;
}

static int superpose_pieces(const struct cuda_rows *rows, const struct cuda_superpose *superpose,
                            bool fused, cudaStream_t stream)
{
    if (superpose->pieces == 0) return cudaSuccess;
    struct superpose_job job = {};
    job.rows = rows->rows;
    job.positions = superpose->positions;
    job.weights = superpose->weights;
    job.offsets = superpose->offsets;
    job.pieces = superpose->pieces;
    job.sums = superpose->firsts ? superpose->nodes : superpose->sums;
    job.norms = superpose->norms;
    job.unit = superpose->unit;
    job.row_quads = (uint32_t)(vector_stride(rows->dimension) / 4);
    job.quads = job.row_quads < SUPERPOSE_THREADS ? job.row_quads : (uint32_t)SUPERPOSE_THREADS;
    job.slots = SUPERPOSE_THREADS / job.quads;
    const unsigned threads = (job.slots * job.quads + 31) / 32 * 32;
    dim3 grid(blocks_for(job.pieces, job.slots), blocks_for(job.row_quads, SUPERPOSE_THREADS));
    if (fused)
        superpose_kernel<true><<<grid, threads, 0, stream>>>(job);
    else
        superpose_kernel<false><<<grid, threads, 0, stream>>>(job);
    return cudaGetLastError();
}

extern "C" int cuda_superpose(const struct cuda_rows *rows, const struct cuda_superpose *superpose,
                              struct CUstream_st *stream)
{
    if (superpose->lists == 0) return cudaSuccess;
    const bool fused = superpose->norms && !superpose->firsts && rows->dimension <= SUPERPOSE_FUSED;
    int error = superpose_pieces(rows, superpose, fused, stream);
    if (!error && superpose->firsts)
        error = superpose_fold(superpose, (uint32_t)(vector_stride(rows->dimension) / 4), stream);
    if (error || fused || !superpose->norms) return error;
    struct cuda_rows sums = {};
    sums.dimension = rows->dimension;
    sums.rows = superpose->sums;
    sums.count = superpose->lists;
    error = cuda_norms(&sums, superpose->norms, stream);
    if (error || !superpose->unit) return error;
    return cuda_normalize(rows->dimension, superpose->sums, superpose->norms, superpose->lists,
                          stream);
}
