/* shadow_team: four warps of shadow_wgmma.cu that multiply 64 queries with tiles of rows, and what
 * they do with the sums. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SHADOW_TEAM_CUH
#define ENGRAM_KERNELS_CUDA_SHADOW_TEAM_CUH

#include "kernels/cuda/shadow_block.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* ---- products ---- */

template <bool RESIDENT>
__device__ __forceinline__ void team_multiply(const struct shadow_tile &job,
                                              const struct block_barriers<RESIDENT> &barriers,
                                              uint32_t team, struct slot_place *at, int *sums)
{
    typedef block_room<RESIDENT> room;
    uint32_t before = 0;
    for (uint32_t chunk = 0; chunk < job.chunks; chunk++) {
        const uint32_t slot = barriers.base + room::KEPT + at->slot * room::SLOT;
        const uint32_t codes = RESIDENT ? barriers.base + chunk * QUERIES_BYTES : slot + ROWS_BYTES;
        const uint64_t queries = wgmma_matrix(codes + team * WGMMA_QUERIES * WGMMA_CODES);
        const uint64_t rows = wgmma_matrix(slot);
        barrier_wait(barriers.full(at->slot), at->phase);
        wgmma_begin();
        wgmma_multiply(sums, queries, rows, chunk > 0);
        wgmma_multiply(sums, queries + 2, rows + 2, 1); /* 32 codes on, in 16 bytes */
        wgmma_commit();
        if (chunk > 0) {
            wgmma_wait<1>();
            if (threadIdx.x % 32 == 0) barrier_arrive(barriers.empty(before));
        }
        before = at->slot;
        slot_advance<room::SLOTS>(at);
    }
    wgmma_wait<0>();
    wgmma_settle(sums);
    if (threadIdx.x % 32 == 0) barrier_arrive(barriers.empty(before));
}

/* ---- what the sums tell ---- */

/* Of each two of 2 N numbers one. */
template <int N> __device__ __forceinline__ void halve(const int *from, bool second, int *to)
{
#pragma unroll
    for (int n = 0; n < N; n++)
        to[n] = second ? from[2 * n + 1] : from[2 * n];
}

/* Sum `at` of 32. */
__device__ __forceinline__ int sum_at(const int *sums, uint32_t at)
{
    int of_16[16], of_8[8], of_4[4], of_2[2], sum[1];
    halve<16>(sums, at & 1, of_16);
    halve<8>(of_16, at & 2, of_8);
    halve<4>(of_8, at & 4, of_4);
    halve<2>(of_4, at & 8, of_2);
    halve<1>(of_2, at & 16, sum);
    return sum[0];
}

__device__ __forceinline__ struct tile_query tile_query_or(const struct tile_query &a,
                                                           const struct tile_query &b, bool other)
{
    struct tile_query query;
    query.coded.scale = other ? b.coded.scale : a.coded.scale;
    query.coded.lost = other ? b.coded.lost : a.coded.lost;
    query.coded.norm_above = other ? b.coded.norm_above : a.coded.norm_above;
    query.coded.centred = other ? b.coded.centred : a.coded.centred;
    query.line.scale = other ? b.line.scale : a.line.scale;
    query.line.offset = other ? b.line.offset : a.line.offset;
    return query;
}

/* Where a thread's sums belong: its first row of a tile, and its two queries. */
struct team_place {
    uint64_t first_query; /* the other is 8 behind it */
    uint32_t row_in;
};

__device__ __forceinline__ uint32_t team_row(const struct team_place &place, uint32_t group,
                                             uint32_t at)
{
    return group * GROUP_ROWS + at / 4 * 8 + place.row_in + at % 2;
}

__device__ __forceinline__ bool team_passes(struct tile_query query, struct tile_row row, int sum,
                                            float *estimate, float *above)
{
    *estimate = tile_estimate(query.coded, row.scale, sum);
    *above = shadow_above(&query.coded, *estimate, row.lost, row.length);
    return !(*above < fmaf(query.line.scale, row.floor, query.line.offset));
}

/* The bits of the sums of a group that pass. */
__device__ __forceinline__ uint32_t team_test(const struct team_place &place,
                                              const struct tile_query *queries,
                                              const struct tile_desk *desk, uint32_t group,
                                              const int *sums)
{
    uint32_t passes = 0;
#pragma unroll
    for (uint32_t n = 0; n < GROUP_SUMS; n += 4)
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const struct tile_row row = desk->rows[team_row(place, group, n + i)];
            float estimate, above;
#pragma unroll
            for (uint32_t h = 0; h < 2; h++)
                if (team_passes(queries[h], row, sums[n + 2 * h + i], &estimate, &above))
                    passes |= 1u << (n + 2 * h + i);
        }
    return passes;
}

__device__ __forceinline__ void team_found(const struct shadow_tile &job, struct block_queue *queue,
                                           const struct tile_found &pair)
{
    const uint32_t place = atomicAdd(&queue->count, 1u);
    if (place < QUEUE)
        queue->found[place] = pair;
    else
        tile_list(job, pair);
}

/* The next group's sums become the first. What follows is short then: a tile of a sample is one of
 * two, and its code comes from memory. */
__device__ __forceinline__ void sums_turn(int *sums)
{
#pragma unroll
    for (int n = 0; n < WGMMA_SUMS - GROUP_SUMS; n++)
        sums[n] = sums[n + GROUP_SUMS];
}

__device__ __forceinline__ void team_give(const struct shadow_tile &job, uint64_t tile,
                                          const struct team_place &place,
                                          const struct tile_query *queries,
                                          const struct tile_desk *desk, struct block_queue *queue,
                                          int *sums)
{
#pragma unroll 1
    for (uint32_t group = 0; group < GROUPS; group++, sums_turn(sums)) {
        uint32_t passes = team_test(place, queries, desk, group, sums);
        for (; passes; passes &= passes - 1) {
            const uint32_t at = (uint32_t)__ffs((int)passes) - 1;
            const uint32_t row_in = team_row(place, group, at);
            const struct tile_query its = tile_query_or(queries[0], queries[1], at & 2);
            const uint64_t query = place.first_query + (at & 2 ? 8 : 0);
            const uint64_t row = tile * job.step * WGMMA_ROWS + row_in;
            struct tile_found pair;
            if (query >= job.query_count || row >= job.rows.count) continue;
            (void)team_passes(its, desk->rows[row_in], sum_at(sums, at), &pair.estimate,
                              &pair.above);
            pair.query = (uint32_t)query;
            pair.row = (uint32_t)row;
            team_found(job, queue, pair);
        }
    }
}

/* The bits of a group's sums whose rows may enter. */
__device__ __forceinline__ uint32_t team_open(const struct shadow_tile &job, uint64_t first,
                                              const struct team_place &place, uint32_t group)
{
    uint32_t open = 0;
    if (!job.filter.allowed) return UINT32_MAX;
#pragma unroll 1
    for (uint32_t at = 0; at < GROUP_SUMS; at++) {
        const uint64_t query = place.first_query + (at & 2 ? 8 : 0);
        const uint64_t row = first + team_row(place, group, at);
        if (query < job.query_count && row < job.rows.count &&
            filter_passes(job.filter, query, row))
            open |= 1u << at;
    }
    return open;
}

/* The best row by estimate of each group, for each query. */
__device__ __forceinline__ void team_sample(const struct shadow_tile &job, uint64_t tile,
                                            const struct team_place &place,
                                            const struct tile_query *queries,
                                            const struct tile_desk *desk, int *sums)
{
    const uint64_t first = tile * job.step * WGMMA_ROWS;
#pragma unroll 1
    for (uint32_t group = 0; group < GROUPS; group++, sums_turn(sums)) {
        const uint32_t open = team_open(job, first, place, group);
        float ranks[2] = {-INFINITY, -INFINITY};
        uint32_t best[2] = {0, 0};
#pragma unroll
        for (uint32_t n = 0; n < GROUP_SUMS; n++) {
            const uint32_t h = n / 2 % 2, row_in = team_row(place, group, n);
            const struct tile_row row = desk->rows[row_in];
            const float rank =
                fmaf(tile_estimate(queries[h].coded, row.scale, sums[n]), row.lost, row.floor);
            if (!(rank > ranks[h]) || !(open >> n & 1)) continue;
            ranks[h] = rank;
            best[h] = row_in;
        }
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            const uint64_t query = place.first_query + 8 * h;
            struct topk_entry entry = entry_worst();
            if (ranks[h] > -INFINITY) {
                entry.id = first + best[h];
                entry.key = sink_key(ranks[h], false);
            }
            for (int partner = 1; partner < 4; partner *= 2) {
                struct topk_entry other = entry_worst();
                other.id = __shfl_xor_sync(WARP, entry.id, partner);
                other.key = __shfl_xor_sync(WARP, entry.key, partner);
                if (entry_before(other, entry)) entry = other;
            }
            if (threadIdx.x % 4 == 0 && query < job.query_count)
                job.maxima[query * job.maxima_count + tile * GROUPS + group] = entry;
        }
    }
}

/* How many pairs of a query are listed. */
__device__ __forceinline__ uint32_t team_listed(const struct shadow_tile &job, uint64_t query)
{
    return query < job.query_count ? __ldcg(&job.counts[query]) : 0;
}

template <bool SAMPLE, bool RESIDENT>
__device__ __forceinline__ void team_run(const struct shadow_tile &job,
                                         const struct block_place &at,
                                         const struct block_barriers<RESIDENT> &barriers,
                                         struct tile_desk *desks, struct block_queue *queues)
{
    const uint32_t team = threadIdx.x / TEAM_THREADS, warp = threadIdx.x / 32 % 4;
    const uint32_t lane = threadIdx.x % 32;
    struct team_place place;
    place.first_query = at.first_query + team * WGMMA_QUERIES + warp * 16 + lane / 4;
    place.row_in = lane % 4 * 2;
    struct tile_query queries[2] = {tile_query_of<SAMPLE>(job, place.first_query),
                                    tile_query_of<SAMPLE>(job, place.first_query + 8)};
    struct slot_place slot = {0, 0};
    uint32_t turn = 0;
    int sums[WGMMA_SUMS] = {};
    for (uint64_t tile = at.first_tile; tile < job.tiles; tile += at.step, turn++) {
        const uint32_t listed[2] = {SAMPLE ? 0 : team_listed(job, place.first_query),
                                    SAMPLE ? 0 : team_listed(job, place.first_query + 8)};
        team_multiply<RESIDENT>(job, barriers, team, &slot, sums);
        barrier_wait(barriers.ready(turn % 2), turn / 2 & 1);
        /* A list that is lost: what else passes need not be counted. */
        for (int n = 0; n < 2; n++)
            if (!SAMPLE && listed[n] > job.most) queries[n].line.offset = INFINITY;
        if (SAMPLE)
            team_sample(job, tile, place, queries, &desks[turn % 2], sums);
        else
            team_give(job, tile, place, queries, &desks[turn % 2], &queues[turn % QUEUES], sums);
        __syncwarp();
        if (lane == 0) barrier_arrive(barriers.done(turn % 2));
    }
}

#endif

#endif
