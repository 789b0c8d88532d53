/* shadow_scan: one query's two planes against int8 codes: 16 lanes share a row, 16 bytes at a time.
 * Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SHADOW_SCAN_CUH
#define ENGRAM_KERNELS_CUDA_SHADOW_SCAN_CUH

#include "kernels/cuda/shadow.cuh"

enum { SCAN_ROWS = 4 /* of a group at a time */ };

__device__ __forceinline__ int dot_16(int4 a, int4 b, int sum)
{
    return dot_4(a.w, b.w, dot_4(a.z, b.z, dot_4(a.y, b.y, dot_4(a.x, b.x, sum))));
}

__device__ __forceinline__ int sum_of_16(int sum)
{
    for (int partner = 8; partner > 0; partner /= 2)
        sum += __shfl_xor_sync(WARP, sum, partner);
    return sum;
}

/* Codes of SCAN_ROWS rows of a group of 16 lanes on their way, FLIGHT pieces of 256 bytes each. */
template <int FLIGHT> struct scan_held {
    int4 codes[SCAN_ROWS][FLIGHT];
};

/* The products of so many rows so far, of this lane's pieces. */
struct scan_sums {
    int highs[SCAN_ROWS], lows[SCAN_ROWS];
};

/* Loads piece `at` of row `from` and those behind it, and each 16th piece after that. */
template <int FLIGHT>
__device__ __forceinline__ void scan_load(const struct shadow_rows &rows, uint32_t code_stride,
                                          uint64_t from, uint32_t at,
                                          struct scan_held<FLIGHT> *held)
{
    const uint32_t pieces = code_stride / 16;
#pragma unroll
    for (int r = 0; r < SCAN_ROWS; r++) {
        uint64_t row = from + r;
        if (row >= rows.count) row = rows.count - 1; /* a warp's shuffles need all */
        const int4 *codes = (const int4 *)(rows.codes + row * code_stride);
#pragma unroll
        for (int f = 0; f < FLIGHT; f++)
            held->codes[r][f] =
                at + f * 16 < pieces ? __ldcs(&codes[at + f * 16]) : make_int4(0, 0, 0, 0);
    }
}

template <int FLIGHT>
__device__ __forceinline__ void scan_multiply(const struct scan_held<FLIGHT> &held,
                                              uint32_t code_stride, const int4 *planes, uint32_t at,
                                              struct scan_sums *sums)
{
    const uint32_t pieces = code_stride / 16;
#pragma unroll
    for (int f = 0; f < FLIGHT; f++) {
        uint32_t piece = at + f * 16 < pieces ? at + f * 16 : 0;
        int4 one = planes[piece], two = planes[pieces + piece];
#pragma unroll
        for (int r = 0; r < SCAN_ROWS; r++) {
            sums->highs[r] = dot_16(held.codes[r][f], one, sums->highs[r]);
            sums->lows[r] = dot_16(held.codes[r][f], two, sums->lows[r]);
        }
    }
}

/* Lane `own` of the group gets the first row's sums, the next lane the next one's. */
__device__ __forceinline__ void scan_give(const struct scan_sums &sums, uint32_t own, int *high,
                                          int *low)
{
#pragma unroll
    for (int r = 0; r < SCAN_ROWS; r++) {
        int of_high = sum_of_16(sums.highs[r]), of_low = sum_of_16(sums.lows[r]);
        if (threadIdx.x % 16 != own + r) continue;
        *high = of_high;
        *low = of_low;
    }
}

/* All three, of rows of any length. */
template <int FLIGHT>
__device__ __forceinline__ void scan_rows(const struct shadow_rows &rows, uint32_t code_stride,
                                          const int4 *planes, uint64_t from, uint32_t own,
                                          int *high, int *low)
{
    const uint32_t pieces = code_stride / 16, lane = threadIdx.x % 16;
    struct scan_sums sums = {};
    for (uint32_t at = lane; at < pieces + lane; at += FLIGHT * 16) {
        struct scan_held<FLIGHT> held;
        scan_load<FLIGHT>(rows, code_stride, from, at, &held);
        scan_multiply<FLIGHT>(held, code_stride, planes, at, &sums);
    }
    scan_give(sums, own, high, low);
}

/* Higher is better, in the order of the metric's scores as far as the estimate tells. */
__device__ __forceinline__ float scan_rank(enum metric metric, float estimate, float norm)
{
    if (metric == METRIC_COSINE) return norm > 0.0f ? canonical_divide(estimate, norm) : 0.0f;
    if (metric == METRIC_DOT) return estimate;
    return fmaf(-0.5f * norm, norm, estimate);
}

/* The lanes of a segment get its best; ties go to the lesser row. */
__device__ __forceinline__ void scan_best(struct topk_entry *best, uint32_t segment)
{
    for (uint32_t partner = 1; partner < segment; partner *= 2) {
        struct topk_entry other;
        other.id = __shfl_xor_sync(WARP, best->id, partner);
        other.key = __shfl_xor_sync(WARP, best->key, partner);
        if (entry_before(other, *best)) *best = other;
    }
}

#endif
