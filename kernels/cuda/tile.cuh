/* tile: the shape of the many-query kernel and its movement of data into shared memory.
 *
 * A canonical sum has 32 partials, so a pair of query and row costs 32 registers of a warp, a
 * partial a thread: thread j owns partial j of MQ x MR pairs, and the sum over i is a matrix
 * product for each j. Every load from shared memory is one row's 128 bytes: no bank conflicts, one
 * load for MQ or MR multiplications. A block has 8 warps, QW of them side by
 * side over the queries. Half of them, one a scheduler, also copy: while they do, the other half
 * multiplies. (A warp for the copies alone would leave the others too few registers.)
 *
 * Rows and queries come in chunks of `steps` * 32 elements, TILE_AHEAD chunks ahead. Where a whole
 * tile of rows fits, it stays in shared memory for every pass of queries (`resident`): all 32
 * partials of a pair must be live at once, which keeps the tile small, and reading rows anew for
 * each pass would ask more of L2 than it gives.
 *
 * Slot i of a query chunk holds, in columns of partial j, query i ^ (j / 4) * MQ / 8: the first
 * three levels of the tree then exchange register i with register i + MQ / 2 whatever the thread,
 * and need no selects. */
#ifndef ENGRAM_KERNELS_CUDA_TILE_CUH
#define ENGRAM_KERNELS_CUDA_TILE_CUH

#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/launch.cuh"

enum {
    TILE_WARPS = 8,
    TILE_THREADS = TILE_WARPS * 32,
    TILE_COPY_WARPS = 4,
    TILE_COPY_ROWS = TILE_COPY_WARPS * 32 / 8, /* at a time */
    TILE_AHEAD = 3,
    TILE_SLOTS = TILE_AHEAD + 1
};

struct cuda_tile_job {
    const float *queries;
    const float *query_norms; /* NULL unless the metric is cosine */
    const float *rows;
    const float *norms;
    uint64_t query_count;
    uint64_t tiles;
    uint64_t passes;
    uint32_t stride;
    uint32_t steps;  /* of 32 elements, in a chunk */
    uint32_t chunks; /* in a row; the last may have fewer steps */
    bool resident;
    bool lower_is_better;
    struct score_span span;
    /* For a listed shape: which queries, and how many; query_count is the most there can be. */
    const uint32_t *listed;
    const uint32_t *listed_count;
};

/* Which chunk of which tile and pass. */
struct tile_place {
    uint64_t tile, pass;
    uint32_t chunk;
    uint32_t stage;    /* chunks so far: its slot */
    uint32_t pass_seq; /* passes so far: the slot of their norms and bounds */
};

/* MQ x MR pairs a warp, QW of the warps over the queries. */
template <int MQ_, int MR_, int QW_, int BLOCKS_> struct tile_shape {
    enum {
        MQ = MQ_,
        MR = MR_,
        QW = QW_,
        BLOCKS = BLOCKS_, /* a multiprocessor */
        LISTED = 0,       /* the queries that a list on the device names */
        QUERIES = QW_ * MQ_,
        ROWS = TILE_WARPS / QW_ * MR_,
        SIDE = 2 * QUERIES + ROWS /* floats of a pass: query norms, bounds, row norms */
    };
};

template <class S> struct tile_listed : S {
    enum { LISTED = 1 };
};

/* Floats of shared memory before the row chunks, and before the norms and bounds. */
template <class S> __host__ __device__ __forceinline__ uint32_t tile_rows_at(uint32_t steps)
{
    return TILE_SLOTS * (uint32_t)S::QUERIES * 32 * steps;
}

template <class S>
__host__ __device__ __forceinline__ uint32_t tile_side_at(uint32_t steps, uint32_t chunks,
                                                          bool resident)
{
    uint32_t slots = resident ? chunks : (uint32_t)TILE_SLOTS;
    return tile_rows_at<S>(steps) + slots * (uint32_t)S::ROWS * 32 * steps;
}

__device__ __forceinline__ void tile_advance(const struct cuda_tile_job &job,
                                             struct tile_place *place)
{
    place->stage++;
    if (++place->chunk < job.chunks) return;
    place->chunk = 0;
    place->pass_seq++;
    if (++place->pass < job.passes) return;
    place->pass = 0;
    place->tile += gridDim.x;
}

__device__ __forceinline__ uint32_t tile_steps(const struct cuda_tile_job &job, uint32_t chunk)
{
    uint32_t left = job.stride / 32 - chunk * job.steps;
    return left < job.steps ? left : job.steps;
}

/* Copies 32 columns of COUNT rows from `first` on, eight threads a row. Row r's piece goes to slot
 * r ^ (piece * SWAP). What lies past the end stays whatever it was: its scores are dropped. LISTED:
 * row r is the one that listed[r] names. */
template <int COUNT, int SWAP, bool LISTED>
__device__ __forceinline__ void tile_copy_step(float *to, const float *rows, uint64_t first,
                                               uint64_t count, uint32_t stride,
                                               const uint32_t *listed)
{
    const uint32_t row = threadIdx.x / 8, piece = threadIdx.x % 8;
    const float *from = rows + (LISTED ? 0 : first + row) * stride + piece * 4;
    const uint32_t left = count - first < COUNT ? (uint32_t)(count - first) : (uint32_t)COUNT;
#pragma unroll
    for (uint32_t n = 0; n < COUNT; n += TILE_COPY_ROWS) {
        uint32_t slot = SWAP ? (n + row) ^ (piece * SWAP) : n + row;
        if (n + row >= left) continue;
        uint64_t at = LISTED ? listed[first + n + row] : n;
        copy_16(to + slot * 32 + piece * 4, from + at * stride);
    }
}

/* Starts the copies of one chunk of queries and, if it is not there yet, of rows. */
template <class S>
__device__ __forceinline__ void tile_copy_chunk(const struct cuda_tile_job &job,
                                                const struct tile_place &place, float *shared)
{
    const uint32_t steps = tile_steps(job, place.chunk), column = place.chunk * job.steps * 32;
    float *to = shared + place.stage % TILE_SLOTS * (S::QUERIES * 32 * job.steps);
#pragma unroll 1
    for (uint32_t step = 0; step < steps; step++)
        tile_copy_step<S::QUERIES, S::MQ / 8, S::LISTED>(
            to + step * S::QUERIES * 32, job.queries + column + step * 32, place.pass * S::QUERIES,
            job.query_count, job.stride, job.listed);
    if (job.resident && place.pass != 0) return;
    uint32_t slot = job.resident ? place.chunk : place.stage % TILE_SLOTS;
    to = shared + tile_rows_at<S>(job.steps) + slot * (S::ROWS * 32 * job.steps);
#pragma unroll 1
    for (uint32_t step = 0; step < steps; step++)
        tile_copy_step<S::ROWS, 0, false>(to + step * S::ROWS * 32, job.rows + column + step * 32,
                                          place.tile * S::ROWS, job.span.count, job.stride, NULL);
}

/* With a pass's first chunk come the norms and bounds that its end needs. */
template <class S>
__device__ __forceinline__ void tile_copy_side(const struct cuda_tile_job &job,
                                               const struct tile_place &place, float *side)
{
    side += place.pass_seq % TILE_SLOTS * S::SIDE;
    for (uint32_t n = threadIdx.x; n < S::QUERIES; n += TILE_COPY_WARPS * 32) {
        uint64_t query = place.pass * S::QUERIES + n;
        if (query >= job.query_count) break;
        if (S::LISTED) query = job.listed[query];
        if (job.query_norms) copy_4(side + n, job.query_norms + query);
        if (job.span.sink.lists) copy_4(side + S::QUERIES + n, &job.span.sink.bounds[query].key);
    }
    for (uint32_t n = threadIdx.x; n < S::ROWS && job.query_norms; n += TILE_COPY_WARPS * 32) {
        uint64_t row = place.tile * S::ROWS + n;
        if (row < job.span.count) copy_4(side + 2 * S::QUERIES + n, job.norms + row);
    }
}

#endif
