/* shadow_pair: a row and a query of a tile, whose product the tensor cores have summed: its bound,
 * its rank in a sample, and its way to a list. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SHADOW_PAIR_CUH
#define ENGRAM_KERNELS_CUDA_SHADOW_PAIR_CUH

#include "kernels/cuda/scan_topk.cuh"
#include "kernels/cuda/shadow.cuh"

/* What a tile knows of its rows and queries. */
struct __align__(16) tile_row
{
    float scale, lost, length;
    float floor; /* of a sample: what makes a rank of an estimate */
};
struct __align__(16) tile_query
{
    struct shadow_query coded;
    struct screen_line line;
};

/* A pair that passed, on its way to a list. */
struct __align__(16) tile_found
{
    uint32_t query, row;
    float estimate, above;
};

/* What makes a rank of an estimate (tile_rank). */
__device__ __forceinline__ float tile_rank_term(enum metric metric, float norm)
{
    if (metric == METRIC_COSINE) return norm > 0.0f ? canonical_divide(1.0f, norm) : 0.0f;
    return metric == METRIC_DOT ? 0.0f : canonical_multiply(canonical_multiply(-0.5f, norm), norm);
}

__device__ __forceinline__ float tile_rank(enum metric metric, float estimate, float term)
{
    return metric == METRIC_COSINE ? canonical_multiply(estimate, term)
                                   : canonical_add(estimate, term);
}

__device__ __forceinline__ uint32_t tile_rank_key(enum metric metric, float estimate, float term)
{
    return sink_key(tile_rank(metric, estimate, term), false);
}

template <bool SAMPLE>
__device__ __forceinline__ struct tile_row tile_row_of(const struct shadow_tile &job, uint64_t row)
{
    struct tile_row side = {0.0f, -INFINITY, 0.0f, 0.0f}; /* no row: is below any bound */
    if (row >= job.rows.count) return side;
    const float norm = job.norms[row];
    side.scale = job.rows.scales[row];
    side.lost = job.rows.losts[row];
    side.length = job.rows.lengths[row];
    side.floor = SAMPLE ? tile_rank_term(job.metric, norm) : screen_floor(&job.terms, norm);
    return side;
}

template <bool SAMPLE>
__device__ __forceinline__ struct tile_query tile_query_of(const struct shadow_tile &job,
                                                           uint64_t query)
{
    struct tile_query side = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, INFINITY}}; /* nothing passes */
    if (query >= job.query_count) return side;
    side.coded = job.coded[query];
    float bound = SAMPLE ? 0.0f : sink_score(job.bounds[query].key, job.lower_is_better);
    side.line.offset = -INFINITY;
    if (!SAMPLE && !isnan(bound))
        side.line = screen_line(&job.screen, job.query_norms[query], bound);
    return side;
}

/* True if the list of a query is lost: what else passes need not be counted. */
__device__ __forceinline__ bool tile_is_lost(const struct shadow_tile &job, uint64_t query)
{
    return query < job.query_count && __ldcg(&job.counts[query]) > job.most;
}

/* shadow_estimate with one plane. */
__device__ __forceinline__ float tile_estimate(const struct shadow_query &coded, float row_scale,
                                               int sum)
{
    return fmaf(canonical_multiply((float)sum, row_scale), coded.scale, coded.centred);
}

/* Lists a pair that its bound does not rule out. */
__device__ __forceinline__ void tile_list(const struct shadow_tile &job,
                                          const struct tile_found &pair)
{
    if (job.filter.allowed && !filter_passes(job.filter, pair.query, pair.row)) return;
    const float norm = job.norms[pair.row];
    uint32_t place = atomicAdd(&job.counts[pair.query], 1u);
    if (place >= job.most) return;
    struct topk_entry entry;
    entry.id = pair.row;
    entry.key = tile_rank_key(job.metric, pair.estimate, tile_rank_term(job.metric, norm));
    entry.score = pair.above;
    entry_write(&job.lists[(uint64_t)pair.query * job.most + place], entry);
}

#endif
