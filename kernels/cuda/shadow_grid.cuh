/* shadow_grid: what the one-launch searches through a shadow share: blocks that run at the same
 * time (a cooperative launch), each with a share of the rows, meet once and then leave what they
 * found to the last of them. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SHADOW_GRID_CUH
#define ENGRAM_KERNELS_CUDA_SHADOW_GRID_CUH

#include "kernels/cuda/scan_topk.cuh"
#include "kernels/cuda/shadow_scan.cuh"

enum {
    GRID_THREADS = 512,
    GRID_WARPS = GRID_THREADS / 32,
    GRID_UNIT = 2 * SCAN_ROWS,          /* rows of a warp at a time */
    GRID_TURN = GRID_WARPS * GRID_UNIT, /* rows of a block, which follow each other */
    GRID_SPREAD = 2,                    /* so many times k rows are scored for the bound */
    GRID_ROWS_MIN = 4096
};

/* The rows of a block are its share of each of so many turns. */
__device__ __forceinline__ uint64_t grid_turn(uint32_t turn)
{
    return ((uint64_t)turn * gridDim.x + blockIdx.x) * GRID_TURN;
}

/* Codes that this warp scans in a turn are on their way to the cache. */
__device__ __forceinline__ void grid_ahead(const struct shadow_rows &shadow, uint32_t code_stride,
                                           uint32_t turn)
{
    const uint64_t row = grid_turn(turn) + threadIdx.x / 32 * GRID_UNIT;
    if (row >= shadow.count) return;
    uint64_t rows = shadow.count - row;
    if (rows > GRID_UNIT) rows = GRID_UNIT;
    const int8_t *codes = shadow.codes + row * code_stride;
    for (uint32_t at = threadIdx.x % 32 * 128; at < rows * code_stride; at += 32 * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(codes + at));
}

/* Waits for all blocks; what each of their threads wrote before is seen by all behind it. */
__device__ __forceinline__ void grid_meet(unsigned long long *ticket, unsigned long long mark)
{
    __syncthreads();
    if (is_clerk()) {
        fence_device();
        atomicAdd(ticket, 1ull);
        while (*(volatile unsigned long long *)ticket - mark < gridDim.x)
            continue;
        fence_device();
    }
    __syncthreads();
}

/* Counts the block, and tells all its threads whether it comes last: then it sees what all wrote.
 * is_last: in shared memory. */
__device__ __forceinline__ bool grid_last(uint32_t *done, bool *is_last)
{
    __syncthreads();
    if (is_clerk()) {
        fence_device();
        *is_last = atomicAdd(done, 1u) == gridDim.x - 1;
        fence_device();
    }
    __syncthreads();
    return *is_last;
}

/* Another block may have written it in this launch. */
__device__ __forceinline__ struct topk_entry grid_read(const struct topk_entry *at)
{
    const uint4 words = __ldcg((const uint4 *)at);
    struct topk_entry entry;
    entry.id = words.x | (uint64_t)words.y << 32;
    entry.key = words.z;
    entry.score = __uint_as_float(words.w);
    return entry;
}

/* Ranks up to SCAN_TOPK_SURVIVORS entries: the k best come to shared->best. */
__device__ __forceinline__ void grid_rank(const struct topk_entry *entries, uint32_t count,
                                          uint32_t k, struct best_shared *shared)
{
    if (threadIdx.x < k) entry_write(&shared->best[threadIdx.x], entry_worst());
    for (uint32_t i = threadIdx.x; i < count; i += GRID_THREADS) {
        struct topk_entry entry = grid_read(&entries[i]);
        if (entry.key == ~0u) entry.id -= i; /* a place for each that is none */
        entry_write(&shared->survivors[i], entry);
    }
    __syncthreads();
    best_rank(count, k, shared);
    __syncthreads();
}

/* The k best of any number of entries. */
__device__ __forceinline__ void grid_best(const struct topk_entry *entries, uint32_t count,
                                          uint32_t k, struct best_shared *shared)
{
    if (count <= SCAN_TOPK_SURVIVORS)
        grid_rank(entries, count, k, shared);
    else
        best_of({entries, count, 1}, k, shared);
}

/* ---- launching ---- */

static inline uint64_t grid_align(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* True if the current device starts blocks together. */
static inline bool grid_runs(void)
{
    int cooperative = 0;
    return !device_attribute(cudaDevAttrCooperativeLaunch, &cooperative) && cooperative;
}

/* Blocks of a launch over so many rows, and how many rows each of them scores for the bound. */
static inline int grid_shape(uint64_t row_count, uint32_t k, unsigned *blocks, uint32_t *picked)
{
    int processors = 1;
    int error = device_attribute(cudaDevAttrMultiProcessorCount, &processors);
    *blocks = blocks_for(row_count, GRID_TURN);
    if (*blocks > (unsigned)processors) *blocks = (unsigned)processors;
    if (*blocks > SCAN_TOPK_BLOCKS) *blocks = SCAN_TOPK_BLOCKS;
    *picked = blocks_for(GRID_SPREAD * k, *blocks);
    if (*picked > GRID_WARPS) *picked = GRID_WARPS;
    return error;
}

#endif
