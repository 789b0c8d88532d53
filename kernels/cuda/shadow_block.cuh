/* shadow_block: a block of shadow_wgmma.cu: what lies in its shared memory, how its warps wait for
 * each other, the thread that copies codes, and the helpers. Device code and shapes only. */
#ifndef ENGRAM_KERNELS_CUDA_SHADOW_BLOCK_CUH
#define ENGRAM_KERNELS_CUDA_SHADOW_BLOCK_CUH

#include "kernels/cuda/shadow_pair.cuh"
#include "kernels/cuda/wgmma.cuh"

#include <cuda.h>

enum {
    TEAMS = 2,
    TEAM_THREADS = 128,
    COPIERS = 64, /* threads of which one copies */
    HELPERS = 64, /* threads that read and list */
    WGMMA_THREADS = TEAMS * TEAM_THREADS + COPIERS + HELPERS,
    HELPERS_BARRIER = 1,
    TEAM_REGISTERS = 216,
    OTHER_REGISTERS = 72,
    BLOCK_QUERIES = TEAMS * WGMMA_QUERIES,
    GROUPS = 4, /* of a tile's rows: each has its best in a sample */
    GROUP_ROWS = WGMMA_ROWS / GROUPS,
    GROUP_SUMS = WGMMA_SUMS / GROUPS, /* of a thread: a bit each */
    HELPER_ROWS = WGMMA_ROWS / HELPERS,
    QUEUE = 192,          /* pairs of a tile, */
    QUEUES = 3,           /* filled in one tile, emptied in the next but one */
    SPAN_TILES = 16,      /* of queries in one launch */
    RESIDENT_CODES = 768, /* of a query, at most, that stay */
    ROWS_BYTES = WGMMA_ROWS * WGMMA_CODES,
    QUERIES_BYTES = BLOCK_QUERIES * WGMMA_CODES,
};

/* What the helpers leave for a tile; two, in turn. */
struct tile_desk {
    struct tile_row rows[WGMMA_ROWS];
};

/* What they get back. */
struct block_queue {
    struct tile_found found[QUEUE];
    uint32_t count;
};

/* Codes as copies find them: matrices of rows and of queries. */
struct wgmma_job {
    CUtensorMap rows, queries;
    struct shadow_tile tile;
};

template <bool RESIDENT> struct block_room {
    enum {
        SLOTS = RESIDENT ? 7 : 8,
        SLOT = ROWS_BYTES + (RESIDENT ? 0 : QUERIES_BYTES),
        KEPT = RESIDENT ? RESIDENT_CODES / WGMMA_CODES * QUERIES_BYTES : 0,
        DESKS = KEPT + SLOTS * SLOT,
        QUEUES_AT = DESKS + 2 * (int)sizeof(struct tile_desk),
        BARRIERS = QUEUES_AT + QUEUES * (int)sizeof(struct block_queue),
        SHARED = BARRIERS + (2 * SLOTS + 4) * 8
    };
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Which tiles a block has, and of which queries. */
struct block_place {
    uint64_t first_query, first_tile, step;
    uint32_t teams;
};

__device__ __forceinline__ struct block_place block_place_of(const struct shadow_tile &job)
{
    struct block_place place;
    const uint32_t tile = blockIdx.x % (uint32_t)job.query_tiles;
    place.first_query = job.first_query + (uint64_t)tile * BLOCK_QUERIES;
    place.first_tile = blockIdx.x / (uint32_t)job.query_tiles;
    place.step = gridDim.x / (uint32_t)job.query_tiles;
    place.teams = job.query_count - place.first_query > WGMMA_QUERIES ? 2 : 1;
    return place;
}

/* A slot, and the phase of its barriers. */
struct slot_place {
    uint32_t slot, phase;
};

template <int SLOTS> __device__ __forceinline__ void slot_advance(struct slot_place *place)
{
    if (++place->slot < SLOTS) return;
    place->slot = 0;
    place->phase ^= 1;
}

/* Addresses of barriers in shared memory. */
template <bool RESIDENT> struct block_barriers {
    typedef block_room<RESIDENT> room;
    uint32_t base;
    __device__ __forceinline__ uint32_t full(uint32_t slot) const
    {
        return base + room::BARRIERS + slot * 8;
    }
    __device__ __forceinline__ uint32_t empty(uint32_t slot) const
    {
        return base + room::BARRIERS + (room::SLOTS + slot) * 8;
    }
    __device__ __forceinline__ uint32_t ready(uint32_t desk) const
    {
        return base + room::BARRIERS + (2 * room::SLOTS + desk) * 8;
    }
    __device__ __forceinline__ uint32_t done(uint32_t desk) const
    {
        return base + room::BARRIERS + (2 * room::SLOTS + 2 + desk) * 8;
    }
    __device__ __forceinline__ void create(uint32_t teams) const
    {
        for (uint32_t n = 0; n < room::SLOTS; n++) {
            barrier_create(full(n), 1);
            barrier_create(empty(n), teams * 4);
        }
        for (uint32_t n = 0; n < 2; n++) {
            barrier_create(ready(n), HELPERS);
            barrier_create(done(n), teams * 4);
        }
        barriers_show();
    }
};

/* ---- copies ---- */

/* Copies 64 codes of each of the block's queries. */
__device__ __forceinline__ void copy_queries(const struct wgmma_job &job,
                                             const struct block_place &place, uint32_t to,
                                             uint32_t column, uint32_t barrier)
{
    for (uint32_t team = 0; team < place.teams; team++)
        box_copy(to + team * WGMMA_QUERIES * WGMMA_CODES, &job.queries, column,
                 (uint32_t)place.first_query + team * WGMMA_QUERIES, barrier);
}

/* By one thread. Queries that stay come with the rows of the first tile. */
template <bool RESIDENT>
__device__ __forceinline__ void copier_run(const struct wgmma_job &job,
                                           const struct block_place &place,
                                           const struct block_barriers<RESIDENT> &barriers)
{
    typedef block_room<RESIDENT> room;
    const uint32_t end = job.tile.chunks * WGMMA_CODES;
    const uint32_t its_queries = place.teams * WGMMA_QUERIES * WGMMA_CODES;
    struct slot_place at = {0, 0};
    for (uint64_t tile = place.first_tile; tile < job.tile.tiles; tile += place.step) {
        for (uint32_t column = 0; column < end; column += WGMMA_CODES) {
            const uint32_t to = barriers.base + room::KEPT + at.slot * room::SLOT;
            const uint32_t full = barriers.full(at.slot);
            const bool first = RESIDENT && tile == place.first_tile;
            barrier_wait(barriers.empty(at.slot), at.phase ^ 1);
            barrier_expect(full, ROWS_BYTES + (first || !RESIDENT ? its_queries : 0));
            if (first || !RESIDENT)
                copy_queries(job, place,
                             RESIDENT ? barriers.base + column * BLOCK_QUERIES : to + ROWS_BYTES,
                             column, full);
            box_copy(to, &job.rows, column, (uint32_t)(tile * job.tile.step * WGMMA_ROWS), full);
            slot_advance<room::SLOTS>(&at);
        }
    }
}

/* ---- what stands beside rows, and lists ---- */

__device__ __forceinline__ void helpers_meet(void)
{
    asm volatile("bar.sync %0, %1;" ::"n"((int)HELPERS_BARRIER), "n"((int)HELPERS) : "memory");
}

/* Lists what the teams have found in a tile. */
__device__ __forceinline__ void helper_list(const struct shadow_tile &job,
                                            struct block_queue *queue)
{
    const uint32_t count = queue->count < QUEUE ? queue->count : (uint32_t)QUEUE;
    for (uint32_t n = threadIdx.x % HELPERS; n < count; n += HELPERS)
        tile_list(job, queue->found[n]);
    helpers_meet();
    if (threadIdx.x % HELPERS == 0) queue->count = 0;
}

/* What stands beside a helper's rows of a tile. */
struct helper_rows {
    float scales[HELPER_ROWS], losts[HELPER_ROWS], lengths[HELPER_ROWS], norms[HELPER_ROWS];
};

__device__ __forceinline__ uint32_t helper_row(uint32_t n)
{
    return n * HELPERS + threadIdx.x % HELPERS;
}

/* Begins to read a tile's, all at once, before they are needed. */
__device__ __forceinline__ void helper_read(const struct shadow_tile &job, uint64_t tile,
                                            struct helper_rows *rows)
{
    const uint64_t first = tile * job.step * WGMMA_ROWS;
    if (tile >= job.tiles) return;
#pragma unroll
    for (uint32_t n = 0; n < HELPER_ROWS; n++) {
        uint64_t row = first + helper_row(n);
        if (row >= job.rows.count) row = job.rows.count - 1;
        rows->scales[n] = job.rows.scales[row];
        rows->losts[n] = job.rows.losts[row];
        rows->lengths[n] = job.rows.lengths[row];
        rows->norms[n] = job.norms[row];
    }
}

/* For a sample: a rank is estimate * lost + floor, higher for a better row. */
__device__ __forceinline__ struct tile_row sample_row(enum metric metric, float scale, float norm)
{
    struct tile_row row = {scale, 1.0f, 0.0f, 0.0f};
    if (metric == METRIC_COSINE) row.lost = tile_rank_term(metric, norm);
    if (metric == METRIC_SQUARED_EUCLIDEAN) row.floor = tile_rank_term(metric, norm);
    return row;
}

template <bool SAMPLE>
__device__ __forceinline__ void helper_leave(const struct shadow_tile &job, uint64_t tile,
                                             const struct helper_rows &rows, struct tile_desk *desk)
{
#pragma unroll
    for (uint32_t n = 0; n < HELPER_ROWS; n++) {
        const uint32_t in = helper_row(n);
        struct tile_row row = {rows.scales[n], rows.losts[n], rows.lengths[n], 0.0f};
        if (SAMPLE)
            row = sample_row(job.metric, rows.scales[n], rows.norms[n]);
        else
            row.floor = screen_floor(&job.terms, rows.norms[n]);
        if (tile * job.step * WGMMA_ROWS + in >= job.rows.count) {
            /* no row: below any bound, and no rank is below its own */
            row = {0.0f, SAMPLE ? 0.0f : -INFINITY, 0.0f, SAMPLE ? -INFINITY : 0.0f};
        }
        desk->rows[in] = row;
    }
}

template <bool SAMPLE, bool RESIDENT>
__device__ __forceinline__ void helper_run(const struct shadow_tile &job,
                                           const struct block_place &place,
                                           const struct block_barriers<RESIDENT> &barriers,
                                           struct tile_desk *desks, struct block_queue *queues)
{
    struct helper_rows rows;
    uint32_t turn = 0;
    helper_read(job, place.first_tile, &rows);
    if (threadIdx.x % HELPERS < QUEUES) queues[threadIdx.x % HELPERS].count = 0;
    for (uint64_t tile = place.first_tile; tile < job.tiles; tile += place.step, turn++) {
        if (turn >= 2) barrier_wait(barriers.done(turn % 2), (turn / 2 - 1) & 1);
        helper_leave<SAMPLE>(job, tile, rows, &desks[turn % 2]);
        barrier_arrive(barriers.ready(turn % 2));
        helper_read(job, tile + place.step, &rows);
        if (!SAMPLE && turn >= 2) helper_list(job, &queues[(turn - 2) % QUEUES]);
    }
    for (uint32_t last = turn < 2 ? 0 : turn - 2; !SAMPLE && last < turn; last++) {
        barrier_wait(barriers.done(last % 2), last / 2 & 1);
        helper_list(job, &queues[last % QUEUES]);
    }
}

#endif

#endif
