/* sums: one canonical sum by a group of 8 or 32 neighbouring threads of a warp, and the sink that
 * takes rows which may be among the best k. Device code only. In a group of 8 each thread has four
 * neighbouring partials and loads 16 bytes at a time, which keeps the most bytes in flight. A
 * group of 32, with a partial for each thread, spreads a few rows over more warps. */
#ifndef ENGRAM_KERNELS_CUDA_SUMS_CUH
#define ENGRAM_KERNELS_CUDA_SUMS_CUH

#include "kernels/canonical.h"
#include "kernels/cuda/vectors_cuda.h"

#include <cuda_runtime.h>

enum {
    SUMS_THREADS = 256,
    SUMS_BLOCKS = 4,        /* blocks of a multiprocessor: registers for the loads in flight */
    SUMS_WIDE_BELOW = 16384 /* up to this many rows, a warp for each row is faster */
};

static const unsigned WARP = 0xffffffffu;

/* The worst (key, id) that may still enter: an entry passes if it is no worse. */
struct topk_bound {
    uint64_t id;
    uint32_t key;
};

/* Where a query's candidates go; if lists is NULL, scores are stored instead. */
struct candidate_sink {
    /* list_stride for each query; it cannot overflow: there is a place for each row */
    struct topk_entry *lists;
    uint32_t *counts;
    const struct topk_bound *bounds;
    uint64_t list_stride;
    const uint64_t *ids;
    uint64_t first_id;
    struct cuda_filter filter;
    bool in_place; /* the first span, without a bound: every row enters, row r at place r */
};

template <bool EUCLIDEAN, bool COMPENSATED>
__device__ __forceinline__ void sum_take(float *p, float *c, float x, float y)
{
    float d = EUCLIDEAN ? canonical_subtract(x, y) : 0.0f;
    if (COMPENSATED)
        canonical_take_compensated(p, c, EUCLIDEAN ? d : x, EUCLIDEAN ? d : y);
    else
        canonical_take(p, EUCLIDEAN ? d : x, EUCLIDEAN ? d : y);
}

template <bool EUCLIDEAN, bool COMPENSATED>
__device__ __forceinline__ void sum_take_4(float4 *p, float4 *c, float4 x, float4 y)
{
    sum_take<EUCLIDEAN, COMPENSATED>(&p->x, &c->x, x.x, y.x);
    sum_take<EUCLIDEAN, COMPENSATED>(&p->y, &c->y, x.y, y.y);
    sum_take<EUCLIDEAN, COMPENSATED>(&p->z, &c->z, x.z, y.z);
    sum_take<EUCLIDEAN, COMPENSATED>(&p->w, &c->w, x.w, y.w);
}

/* Adds the partner's partial: IEEE addition commutes, so both get the bits of the tree. */
__device__ __forceinline__ float sum_fold(float p, int partner)
{
    return canonical_add(p, __shfl_xor_sync(WARP, p, partner));
}

__device__ __forceinline__ float sum_tree_of_8(float4 p)
{
    for (int partner = 4; partner > 0; partner /= 2) { /* s = 16, 8, 4 */
        p.x = sum_fold(p.x, partner);
        p.y = sum_fold(p.y, partner);
        p.z = sum_fold(p.z, partner);
        p.w = sum_fold(p.w, partner);
    }
    return canonical_add(canonical_add(p.x, p.z), canonical_add(p.y, p.w));
}

__device__ __forceinline__ float sum_tree_of_32(float p)
{
    for (int partner = 16; partner > 0; partner /= 2)
        p = sum_fold(p, partner);
    return p;
}

/* Reads an element of x, which is in shared memory, or in memory that no kernel writes. */
template <bool SHARED, typename T> __device__ __forceinline__ T sum_read(const T *at)
{
    return SHARED ? *at : __ldg(at);
}

template <bool EUCLIDEAN, bool COMPENSATED, bool SHARED>
__device__ __forceinline__ float sum_by_8(const float *x, const float *y, uint32_t stride,
                                          unsigned lane)
{
    const int FLIGHT = 8; /* loads before the first use */
    const float4 *xs = (const float4 *)x + lane, *ys = (const float4 *)y + lane;
    float4 p = {0.0f, 0.0f, 0.0f, 0.0f}, c = {0.0f, 0.0f, 0.0f, 0.0f};
    const uint32_t count = stride / 32, whole = count / FLIGHT * FLIGHT;
    for (uint32_t i = 0; i < whole; i += FLIGHT) {
        float4 b[FLIGHT];
#pragma unroll
        for (int n = 0; n < FLIGHT; n++)
            b[n] = __ldg(&ys[(i + n) * 8]);
#pragma unroll
        for (int n = 0; n < FLIGHT; n++)
            sum_take_4<EUCLIDEAN, COMPENSATED>(&p, &c, sum_read<SHARED>(&xs[(i + n) * 8]), b[n]);
    }
    for (uint32_t i = whole; i < count; i++)
        sum_take_4<EUCLIDEAN, COMPENSATED>(&p, &c, sum_read<SHARED>(&xs[i * 8]), __ldg(&ys[i * 8]));
    float sum = sum_tree_of_8(p);
    return COMPENSATED ? canonical_corrected(sum, sum_tree_of_8(c)) : sum;
}

/* Does as many steps as there are of FLIGHT at a time, with that many loads before the first
 * use. */
template <int FLIGHT, bool EUCLIDEAN, bool COMPENSATED, bool SHARED>
__device__ __forceinline__ void sum_run_of_32(float *p, float *c, const float *x, const float *y,
                                              uint32_t *step, uint32_t count)
{
    for (; *step + FLIGHT <= count; *step += FLIGHT) {
        float b[FLIGHT];
#pragma unroll
        for (int n = 0; n < FLIGHT; n++)
            b[n] = __ldg(&y[(*step + n) * 32]);
#pragma unroll
        for (int n = 0; n < FLIGHT; n++)
            sum_take<EUCLIDEAN, COMPENSATED>(p, c, sum_read<SHARED>(&x[(*step + n) * 32]), b[n]);
    }
}

template <bool EUCLIDEAN, bool COMPENSATED, bool SHARED>
__device__ __forceinline__ float sum_by_32(const float *x, const float *y, uint32_t stride,
                                           unsigned lane)
{
    float p = 0.0f, c = 0.0f;
    uint32_t step = 0, count = stride / 32;
    sum_run_of_32<24, EUCLIDEAN, COMPENSATED, SHARED>(&p, &c, x + lane, y + lane, &step, count);
    sum_run_of_32<12, EUCLIDEAN, COMPENSATED, SHARED>(&p, &c, x + lane, y + lane, &step, count);
    sum_run_of_32<4, EUCLIDEAN, COMPENSATED, SHARED>(&p, &c, x + lane, y + lane, &step, count);
    sum_run_of_32<1, EUCLIDEAN, COMPENSATED, SHARED>(&p, &c, x + lane, y + lane, &step, count);
    float sum = sum_tree_of_32(p);
    return COMPENSATED ? canonical_corrected(sum, sum_tree_of_32(c)) : sum;
}

/* All threads of the warp call it; every thread of the group gets the sum. */
template <int GROUP, bool EUCLIDEAN, bool COMPENSATED, bool SHARED = false>
__device__ __forceinline__ float sum_rows(const float *x, const float *y, uint32_t stride)
{
    unsigned lane = threadIdx.x % GROUP;
    return GROUP == 8 ? sum_by_8<EUCLIDEAN, COMPENSATED, SHARED>(x, y, stride, lane)
                      : sum_by_32<EUCLIDEAN, COMPENSATED, SHARED>(x, y, stride, lane);
}

__device__ __forceinline__ uint32_t sink_key(float score, bool lower_is_better)
{
    uint32_t bits = __float_as_uint(__fadd_rn(score, 0.0f)); /* -0 + +0 = +0 */
    uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return lower_is_better ? rising : ~rising;
}

/* Returns the score with this key; NaN for a bound that lets everything pass. */
__device__ __forceinline__ float sink_score(uint32_t key, bool lower_is_better)
{
    uint32_t rising = lower_is_better ? key : ~key;
    return __uint_as_float(rising & 0x80000000u ? rising ^ 0x80000000u : ~rising);
}

__device__ __forceinline__ bool entry_before(const struct topk_entry &a, const struct topk_entry &b)
{
    bool tie = a.key == b.key; /* without a branch, so that both are read at once */
    return (a.key < b.key) | (tie & (a.id < b.id));
}

/* Worse than any entry: no score has this key. */
__device__ __forceinline__ struct topk_entry entry_worst(void)
{
    struct topk_entry worst = {~0ull, ~0u, 0.0f};
    return worst;
}

/* filter.allowed is not NULL. */
__device__ __forceinline__ bool filter_passes(const struct cuda_filter &filter, uint64_t query,
                                              uint64_t row)
{
    const uint64_t *allowed = filter.allowed;
    if (filter.of) {
        uint32_t number = filter.of[query];
        if (number == CUDA_FILTER_NONE) return true;
        allowed += number * filter.words;
    }
    return allowed[row / 64] >> row % 64 & 1;
}

/* bound_key is that of bounds[query], which the caller reads early so that it has arrived. */
__device__ __forceinline__ void sink_offer(const struct candidate_sink *sink, uint64_t query,
                                           uint64_t row, float score, bool lower_is_better,
                                           uint32_t bound_key)
{
    uint32_t key = sink_key(score, lower_is_better);
    if (key > bound_key) return;
    if (sink->filter.allowed && !filter_passes(sink->filter, query, row)) return;
    uint64_t id = sink->ids ? sink->ids[row] : sink->first_id + row;
    if (key == bound_key && id > sink->bounds[query].id) return;
    uint64_t at = sink->in_place ? row : atomicAdd(&sink->counts[query], 1u);
    struct topk_entry *entry = &sink->lists[query * sink->list_stride + at];
    entry->id = id;
    entry->key = key;
    entry->score = score;
}

#endif
