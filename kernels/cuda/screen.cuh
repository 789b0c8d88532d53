/* screen: the shape of the tensor cores' approximate product of queries and rows, and the movement
 * of its data. kernels/screen.h says what the product is good for, and how exact it is.
 *
 * A block has RW x QW warps, each with the pairs of WR rows and WQ queries in registers: fragments
 * of 16 x 8 pairs that mma.sync m16n8k8 adds 8 products to. Rows and queries come in chunks of 32
 * elements, SLOTS - 1 chunks ahead, also across tiles: a block goes over tiles by itself. The
 * fragments of a step are read while the one before it is multiplied, also across chunks; lines
 * and floors lie in two places in turn, so that a warp may enter a tile while others still look at
 * the last one's sums. Tiles are large since all they take comes through L2.
 *
 * A chunk of a row is 128 bytes, 8 pieces; piece p of row r lies at p ^ (r & 7), so that ldmatrix,
 * which takes one piece of each of 8 rows, meets no bank twice, and copies neither. */
#ifndef ENGRAM_KERNELS_CUDA_SCREEN_CUH
#define ENGRAM_KERNELS_CUDA_SCREEN_CUH

#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/screen.h"

/* A kernel's parameter whose address may be taken without a copy of it. */
#if CUDART_VERSION >= 11070 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
#define SCREEN_IN_PLACE __grid_constant__
#else
#define SCREEN_IN_PLACE
#endif

struct screen_job {
    const float *queries, *query_norms;
    const float *rows, *norms; /* of the span */
    uint64_t query_count;
    uint64_t row_count;
    uint64_t first; /* the span's first row */
    uint64_t tiles;
    uint64_t query_tiles;
    uint32_t stride;
    bool lower_is_better;
    struct screen screen;
    const struct topk_bound *bounds;
    struct cuda_filter filter;
    struct screen_room room;
    float *dots; /* not NULL: only the products are stored */
    uint64_t dots_stride;
};

template <int WR_, int WQ_, int RW_, int QW_, int SLOTS_, int BLOCKS_> struct screen_shape {
    enum {
        WR = WR_,
        WQ = WQ_,
        RW = RW_,
        QW = QW_,
        SLOTS = SLOTS_,
        BLOCKS = BLOCKS_, /* a multiprocessor */
        THREADS = RW_ * QW_ * 32,
        ROWS = RW_ * WR_,
        QUERIES = QW_ * WQ_,
        SLOT = (ROWS + QUERIES) * 32, /* floats */
        SIDE = ROWS + 2 * QUERIES,    /* floats: lines, floors */
        SHARED = (SLOTS * SLOT + 2 * SIDE) * 4
    };
};

/* A chunk of a tile, and how many came before it. Query tiles of the same rows go to blocks that
 * run at the same time: rows are read from memory once. */
struct screen_place {
    uint64_t tile;
    uint32_t chunk, stage;
};

__device__ __forceinline__ uint32_t screen_chunks(const struct screen_job &job)
{
    return job.stride / 32;
}

__device__ __forceinline__ void screen_advance(const struct screen_job &job,
                                               struct screen_place *place)
{
    place->stage++;
    if (++place->chunk < screen_chunks(job)) return;
    place->chunk = 0;
    place->tile += gridDim.x;
}

/* Copies COUNT rows of 32 elements, eight threads a row; the last row stands in for rows past the
 * end. */
template <int COUNT, int THREADS>
__device__ __forceinline__ void screen_copy_rows(float *to, const float *rows, uint64_t first,
                                                 uint64_t count, uint32_t stride)
{
    const uint32_t row = threadIdx.x / 8, piece = threadIdx.x % 8;
    const uint32_t last = count - first < COUNT ? (uint32_t)(count - first) - 1 : COUNT - 1u;
    const float *from = rows + first * stride + piece * 4;
    to += row * 32 + (piece ^ (row & 7)) * 4;
#pragma unroll
    for (uint32_t n = 0; n < COUNT; n += THREADS / 8) {
        uint32_t at = n + row < last ? n + row : last;
        copy_16(to + n * 32, from + (uint64_t)at * stride);
    }
}

/* Starts the copies of the chunk at `ahead`, if there is one, and advances `ahead`. */
template <class S>
__device__ __forceinline__ void screen_copy_next(const struct screen_job &job,
                                                 struct screen_place *ahead, float *shared)
{
    if (ahead->tile < job.tiles) {
        float *to = shared + ahead->stage % S::SLOTS * S::SLOT;
        uint32_t column = ahead->chunk * 32;
        screen_copy_rows<S::ROWS, S::THREADS>(to, job.rows + column,
                                              ahead->tile / job.query_tiles * S::ROWS,
                                              job.row_count, job.stride);
        screen_copy_rows<S::QUERIES, S::THREADS>(to + S::ROWS * 32, job.queries + column,
                                                 ahead->tile % job.query_tiles * S::QUERIES,
                                                 job.query_count, job.stride);
    }
    copies_commit();
    screen_advance(job, ahead);
}

/* Rounds to the nearest number with 10 fraction bits, half away from 0. */
__device__ __forceinline__ uint32_t screen_tf32(uint32_t bits)
{
    return (bits + 0x1000u) & 0xffffe000u;
}

/* Loads four 8 x 4 matrices of floats; lane l names the 16 bytes of row l % 8 of matrix l / 8 and
 * gets element l % 4 of row l / 4 of each. */
__device__ __forceinline__ void screen_load(uint32_t at, uint32_t *fragments)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
                 : "r"(at));
#endif
}

/* 16 rows x 8 queries: sums += rows . queries over 8 elements. */
__device__ __forceinline__ void screen_multiply(float *sums, const uint32_t *rows,
                                                const uint32_t *queries)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(queries[0]),
                   "r"(queries[1]));
#endif
}

/* Where a warp's fragments begin, in bytes of a slot, and the swizzled piece of its lane. */
struct screen_fragments {
    uint32_t rows, queries;          /* the lane's row of each */
    uint32_t row_piece, query_piece; /* of the first 8 elements */
};

template <class S> __device__ __forceinline__ struct screen_fragments screen_fragments_of(void)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t matrix = lane / 8, row = lane % 8;
    struct screen_fragments at;
    /* Rows: matrices 0, 1 are rows 0..7, 8..15 of elements 0..3, matrices 2, 3 of elements 4..7.
     * Queries: matrices 0, 1 are elements 0..3, 4..7 of queries 0..7, matrices 2, 3 of 8..15. */
    at.rows = (warp / S::QW * S::WR + (matrix & 1) * 8 + row) * 128;
    at.row_piece = (matrix >> 1 ^ row) * 16;
    at.queries = (S::ROWS + warp % S::QW * S::WQ + (matrix >> 1) * 8 + row) * 128;
    at.query_piece = ((matrix & 1) ^ row) * 16;
    return at;
}

/* A warp's fragments of 8 elements. */
template <class S> struct screen_step {
    uint32_t rows[S::WR / 16][4], queries[S::WQ / 16][4];
};

/* slot: its address in shared memory. */
template <class S>
__device__ __forceinline__ void screen_load_step(const struct screen_fragments &at, uint32_t slot,
                                                 uint32_t step, struct screen_step<S> *to)
{
#pragma unroll
    for (int q = 0; q < S::WQ / 16; q++)
        screen_load(slot + at.queries + (at.query_piece ^ step * 32) + q * 16 * 128,
                    to->queries[q]);
#pragma unroll
    for (int r = 0; r < S::WR / 16; r++)
        screen_load(slot + at.rows + (at.row_piece ^ step * 32) + r * 16 * 128, to->rows[r]);
}

template <class S>
__device__ __forceinline__ void screen_take_step(struct screen_step<S> *step,
                                                 float (*sums)[S::WQ / 8][4])
{
#pragma unroll
    for (int n = 0; n < S::WQ / 4; n++)
        step->queries[n / 4][n % 4] = screen_tf32(step->queries[n / 4][n % 4]);
#pragma unroll
    for (int n = 0; n < S::WR / 4; n++)
        step->rows[n / 4][n % 4] = screen_tf32(step->rows[n / 4][n % 4]);
#pragma unroll
    for (int r = 0; r < S::WR / 16; r++)
#pragma unroll
        for (int q = 0; q < S::WQ / 8; q++)
            screen_multiply(sums[r][q], step->rows[r], &step->queries[q / 2][q % 2 * 2]);
}

#endif
