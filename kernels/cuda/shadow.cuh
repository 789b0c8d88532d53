/* shadow: rows and queries in int8 (kernels/shadow.h), coded by a warp each. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SHADOW_CUH
#define ENGRAM_KERNELS_CUDA_SHADOW_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/shadow_cuda.h"
#include "kernels/shadow.h"

__device__ __forceinline__ float warp_most(float value)
{
    for (int partner = 16; partner > 0; partner /= 2)
        value = fmaxf(value, __shfl_xor_sync(WARP, value, partner));
    return value;
}

__device__ __forceinline__ int64_t warp_sum(int64_t value)
{
    for (int partner = 16; partner > 0; partner /= 2)
        value += __shfl_xor_sync(WARP, value, partner);
    return value;
}

/* sum + the products of four codes each. */
__device__ __forceinline__ int dot_4(int a, int b, int sum)
{
#if __CUDA_ARCH__ >= 610
    return __dp4a(a, b, sum);
#else
#pragma unroll
    for (int n = 0; n < 32; n += 8)
        sum += (int)(int8_t)(a >> n) * (int)(int8_t)(b >> n);
    return sum;
#endif
}

/* shadow_measure by a warp, whose lane j has the canonical partial j. Gives code i to
 * write(i, code), by lane i % 32. */
template <typename Write>
__device__ __forceinline__ struct shadow_row shadow_measure_warp(uint32_t stride, const float *row,
                                                                 const float *centre,
                                                                 float centre_norm, int levels,
                                                                 Write write)
{
    const uint32_t lane = threadIdx.x % 32;
    float most = 0.0f, p = 0.0f;
    bool finite = centre_norm <= SCREEN_NORM_MAX;
    for (uint32_t i = lane; i < stride; i += 32) {
        float d = canonical_subtract(row[i], centre ? centre[i] : 0.0f);
        finite = finite && canonical_is_finite(d);
        most = fmaxf(most, fabsf(d));
    }
    finite = __all_sync(WARP, finite);
    const struct shadow_step step = shadow_step(finite ? warp_most(most) : INFINITY, levels);
    int64_t squares = 0;
    for (uint32_t i = lane; i < stride; i += 32) {
        float d = canonical_subtract(row[i], centre ? centre[i] : 0.0f);
        int code = step.scale > 0.0f ? shadow_code(step, d) : 0;
        write(i, code);
        squares += (int64_t)code * code;
        float lost = fmaf(-step.scale, (float)code, d);
        canonical_take(&p, lost, lost);
    }
    struct shadow_row shadow = {0.0f, INFINITY, 0.0f};
    squares = warp_sum(squares);
    float sum = sum_tree_of_32(p);
    if (!finite) return shadow;
    shadow.scale = step.scale;
    shadow.length = shadow_length(step.scale, squares);
    shadow.lost = shadow_lost(sum, shadow.length, centre_norm);
    return shadow;
}

/* x c by a warp, summed by lanes: its last bit may differ from that of shadow_query, which is as
 * right. */
__device__ __forceinline__ float shadow_centred_warp(uint32_t stride, const float *query,
                                                     const float *centre)
{
    double sum = 0.0;
    for (uint32_t i = threadIdx.x % 32; centre && i < stride; i += 32)
        sum = fma((double)query[i], (double)centre[i], sum);
    for (int partner = 16; partner > 0; partner /= 2)
        sum += __shfl_xor_sync(WARP, sum, partner);
    return (float)sum;
}

/* A query in int8, by a warp: `planes` of shadow_stride bytes each, the high one first of two.
 * centre NULL: for another warp's shadow_centred_warp. */
__device__ __forceinline__ struct shadow_query shadow_query_warp(uint32_t stride,
                                                                 uint32_t code_stride,
                                                                 const float *query, float norm,
                                                                 const float *centre,
                                                                 uint32_t planes, int8_t *to)
{
    const uint32_t lane = threadIdx.x % 32;
    const float centred = shadow_centred_warp(stride, query, centre);
    struct shadow_row row = shadow_measure_warp(
        stride, query, NULL, 0.0f, planes == 2 ? SHADOW_LEVELS_TWO : SHADOW_LEVELS,
        [&](uint32_t i, int code) {
            to[i] = (int8_t)(planes == 2 ? shadow_high(code) : code);
            if (planes == 2) to[code_stride + i] = (int8_t)shadow_low(code);
        });
    for (uint32_t i = stride + lane; i < code_stride; i += 32) {
        to[i] = 0;
        if (planes == 2) to[code_stride + i] = 0;
    }
    struct shadow_query out;
    out.scale = row.scale;
    out.lost = row.lost;
    out.norm_above = canonical_add(canonical_multiply(norm, 1 + 0x1p-12f), 0x1p-60f);
    out.centred = centred;
    return out;
}

static inline struct shadow_rows shadow_rows_of(const struct cuda_shadow *shadow, uint64_t count)
{
    struct shadow_rows rows = {shadow->codes, shadow->scales, shadow->losts, shadow->lengths,
                               count};
    return rows;
}

/* One query against the shadow of all rows. */
struct shadow_scan {
    const struct shadow_query *query;
    const int8_t *planes; /* two */
    struct shadow_rows rows;
    const float *norms;
    struct cuda_filter filter;
    enum metric metric;
    uint32_t code_stride;
    float *above;              /* out: shadow_above of each row; -inf for what may not enter */
    struct topk_entry *maxima; /* out: id: a row; key: less for a better estimate; ~0: no row */
    uint32_t segment;          /* rows of a maximum: 4, 8, 16 or 32; 0: all rows of a warp */
};
uint64_t shadow_scan_maxima(uint64_t row_count, uint32_t segment, unsigned processors);
int shadow_scan_launch(const struct shadow_scan *scan, unsigned processors, cudaStream_t stream);

/* Many queries against the shadow of rows, or of a sample of them. */
struct shadow_tile {
    const int8_t *planes; /* one a query, plane_stride bytes apart, a multiple of 128; 0 behind */
    const struct shadow_query *coded;
    const float *query_norms;
    struct shadow_rows rows;
    const float *norms;
    struct cuda_filter filter;
    enum metric metric;
    bool lower_is_better;
    struct screen screen;
    struct screen_terms terms;
    uint64_t query_count, query_tiles, tiles;
    uint64_t first_query; /* of a launch of several */
    uint32_t code_stride, plane_stride;
    uint32_t chunks; /* of 128 codes */
    uint32_t step;   /* each step-th tile of rows is taken */
    /* Not NULL: out: rows for each query, the best of as many segments by their estimates: id: a
     * row; key: less for a better estimate; ~0: no row. */
    struct topk_entry *maxima;
    uint32_t maxima_count;
    /* NULL: out: pairs that the bounds do not rule out: as above, and score: shadow_above. The
     * first `most` of each query are kept, all are counted. */
    const struct topk_bound *bounds;
    uint32_t *counts;
    struct topk_entry *lists;
    uint32_t most;
};
static inline uint64_t shadow_tile_count(uint64_t rows, uint32_t each)
{
    return (rows + each - 1) / each;
}
bool shadow_tile_runs(void);
uint32_t shadow_tile_maxima(uint64_t query_count, uint64_t row_count, uint32_t step);
/* Fills in tiles and query_tiles. */
int shadow_tile_launch(struct shadow_tile *tile, unsigned processors, cudaStream_t stream);

/* The same for devices of compute capability 9.0, where nvcc knows sm_90a. */
bool shadow_wgmma_runs(void);
uint32_t shadow_wgmma_maxima(uint64_t row_count, uint32_t step);
int shadow_wgmma_launch(const struct shadow_tile *tile, unsigned processors, cudaStream_t stream);

#endif
