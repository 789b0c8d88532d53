/* tile: the shape of the many-query kernel and its movement of data into shared memory.
 *
 * A canonical sum has 32 partials, so a pair of query and row costs 32 registers of a warp, a
 * partial a thread: thread j owns partial j of MQ x MR pairs, and the sum over i is a matrix
 * product for each j. Every load from shared memory is one row's 128 bytes: no bank conflicts, one
 * load for MQ or MR multiplications. A block has 8 warps, QW of them side by side over the queries.
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

#include "kernels/cuda/launch.cuh"

enum {
    TILE_THREADS = 256,
    TILE_WARPS = TILE_THREADS / 32,
    TILE_AHEAD = 3,
    TILE_SLOTS = TILE_AHEAD + 1
};

struct tile_job {
    const float *queries;
    const float *query_norms; /* NULL unless the metric is cosine */
    const float *rows;
    const float *norms;
    uint64_t query_count;
    uint64_t tiles;
    uint64_t passes;
    uint32_t stride;
    uint32_t steps;  /* of 32 elements, in a chunk: 1 or 2 */
    uint32_t chunks; /* in a row; the last may have fewer steps */
    bool resident;
    bool lower_is_better;
    struct score_span span;
};

/* Which chunk of which tile and pass. */
struct tile_place {
    uint64_t tile, pass;
    uint32_t chunk;
    uint32_t stage;    /* chunks so far: its slot */
    uint32_t pass_seq; /* passes so far: the slot of their norms and bounds */
};

/* MQ x MR pairs a warp, QW of the warps over the queries: known to the compiler, because every
 * instruction between two chunks is one in which no warp multiplies. */
template <int MQ_, int MR_, int QW_, int BLOCKS_> struct tile_shape {
    enum {
        MQ = MQ_,
        MR = MR_,
        QW = QW_,
        BLOCKS = BLOCKS_, /* a multiprocessor */
        QUERIES = QW_ * MQ_,
        ROWS = TILE_WARPS / QW_ * MR_,
        SIDE = 2 * QUERIES + ROWS, /* floats of a pass: query norms, bounds, row norms */
        ROWS_A_COPY = TILE_THREADS / 16
    };
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

/* Copies that do not wait, where the device has them (compute capability 8.0). */
__device__ __forceinline__ void tile_copy_16(float *to, const float *from)
{
#if __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
#else
    *(float4 *)to = *(const float4 *)from;
#endif
}

__device__ __forceinline__ void tile_copy_4(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
#else
    *(uint32_t *)to = *(const uint32_t *)from;
#endif
}

__device__ __forceinline__ void tile_copies_commit(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* All copies but those of the newest TILE_AHEAD - 1 chunks have arrived. */
__device__ __forceinline__ void tile_copies_wait(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(TILE_AHEAD - 1) : "memory");
#endif
}

__device__ __forceinline__ void tile_advance(const struct tile_job &job, struct tile_place *place)
{
    place->stage++;
    if (++place->chunk < job.chunks) return;
    place->chunk = 0;
    place->pass_seq++;
    if (++place->pass < job.passes) return;
    place->pass = 0;
    place->tile += gridDim.x;
}

__device__ __forceinline__ uint32_t tile_steps(const struct tile_job &job, uint32_t chunk)
{
    uint32_t left = job.stride / 32 - chunk * job.steps;
    return left < job.steps ? left : job.steps;
}

/* What a thread copies: the 16 bytes `piece` of every ROWS_A_COPY-th row, from `first` on. */
struct tile_copier {
    uint32_t first, piece;
    uint32_t query_to, row_to; /* floats, in a chunk's slot */
};

template <class S> __device__ __forceinline__ struct tile_copier tile_copier_of(void)
{
    struct tile_copier my;
    my.piece = threadIdx.x % 16;
    my.first = threadIdx.x / 16;
    uint32_t swap = my.piece % 8 * (S::MQ / 8), step = my.piece / 8, column = my.piece % 8 * 4;
    my.query_to = (step * S::QUERIES + (my.first ^ swap)) * 32 + column;
    my.row_to = (step * S::ROWS + my.first) * 32 + column;
    return my;
}

/* Starts the copies of one chunk of queries and, if it is not there yet, of rows. What lies past
 * the end stays whatever it was: its scores are dropped. */
template <class S>
__device__ __forceinline__ void tile_copy_chunk(const struct tile_job &job,
                                                const struct tile_copier &my,
                                                const struct tile_place &place, float *shared)
{
    if (my.piece >= tile_steps(job, place.chunk) * 8) return;
    const uint32_t column = place.chunk * job.steps * 32 + my.piece * 4;
    const uint32_t next = S::ROWS_A_COPY * job.stride;
    uint64_t first = place.pass * S::QUERIES + my.first;
    const float *from = job.queries + first * job.stride + column;
    float *to = shared + place.stage % TILE_SLOTS * (S::QUERIES * 32 * job.steps) + my.query_to;
#pragma unroll
    for (uint32_t n = 0; n < S::QUERIES; n += S::ROWS_A_COPY) {
        if (my.first + n < S::QUERIES && first + n < job.query_count)
            tile_copy_16(to + n * 32, from);
        from += next;
    }
    if (job.resident && place.pass != 0) return;
    first = place.tile * S::ROWS + my.first;
    from = job.rows + first * job.stride + column;
    uint32_t slot = job.resident ? place.chunk : place.stage % TILE_SLOTS;
    to = shared + tile_rows_at<S>(job.steps) + slot * (S::ROWS * 32 * job.steps) + my.row_to;
#pragma unroll
    for (uint32_t n = 0; n < S::ROWS; n += S::ROWS_A_COPY) {
        if (my.first + n < S::ROWS && first + n < job.span.count) tile_copy_16(to + n * 32, from);
        from += next;
    }
}

/* With a pass's first chunk come the norms and bounds that its end needs. */
template <class S>
__device__ __forceinline__ void tile_copy_side(const struct tile_job &job,
                                               const struct tile_place &place, float *side)
{
    uint32_t n = threadIdx.x;
    side += place.pass_seq % TILE_SLOTS * S::SIDE;
    uint64_t query = place.pass * S::QUERIES + n, row = place.tile * S::ROWS + n;
    if (n < S::QUERIES && query < job.query_count) {
        if (job.query_norms) tile_copy_4(side + n, job.query_norms + query);
        if (job.span.sink.lists)
            tile_copy_4(side + S::QUERIES + n, &job.span.sink.bounds[query].key);
    }
    if (n < S::ROWS && row < job.span.count && job.query_norms)
        tile_copy_4(side + 2 * S::QUERIES + n, job.norms + row);
}

#endif
