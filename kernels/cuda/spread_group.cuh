/* spread_group: the threads that work on a spread together: the whole grid of a cooperative
 * launch, or a single block. The same code runs as either. Device code only. Whatever all threads
 * of a group decide, they decide by a tally that they read after a sync, so that all decide
 * alike. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_GROUP_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_GROUP_CUH

#include "kernels/spread.h"

/* Its headers ask for C++17 since CUDA 13, but work without. */
#define CCCL_IGNORE_DEPRECATED_CPP_DIALECT
#include <cooperative_groups.h>
#include <cuda_runtime.h>

enum {
    SPREAD_THREADS = 512, /* threads of a block */
    SPREAD_WARPS = SPREAD_THREADS / 32,
    SPREAD_BLOCKS = 2 /* blocks of a multiprocessor: 64 registers a thread */
};

static const unsigned SPREAD_ALL = 0xffffffffu;

struct spread_block_group {
    static const bool GRID = false;
    __device__ static unsigned blocks()
    {
        return 1;
    }
    __device__ static unsigned block()
    {
        return 0;
    }
    __device__ static void sync()
    {
        __syncthreads();
    }
};

struct spread_grid_group {
    static const bool GRID = true;
    __device__ static unsigned blocks()
    {
        return gridDim.x;
    }
    __device__ static unsigned block()
    {
        return blockIdx.x;
    }
    __device__ static void sync()
    {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600
        if (gridDim.x > 1)
            cooperative_groups::this_grid().sync();
        else
            __syncthreads();
#else
        __syncthreads(); /* launched with one block */
#endif
    }
};

__device__ __forceinline__ unsigned spread_lane(void)
{
    return threadIdx.x & 31;
}

template <class Group> __device__ __forceinline__ unsigned spread_warps(void)
{
    return SPREAD_WARPS * Group::blocks();
}

/* The number of a warp in its group. Neighbouring numbers are on different multiprocessors, so
 * that a little work is spread over all of them. */
template <class Group> __device__ __forceinline__ unsigned spread_warp(void)
{
    return threadIdx.x / 32 * Group::blocks() + Group::block();
}

template <class Group> __device__ __forceinline__ unsigned spread_threads(void)
{
    return SPREAD_THREADS * Group::blocks();
}

template <class Group> __device__ __forceinline__ unsigned spread_thread(void)
{
    return spread_warp<Group>() * 32 + spread_lane();
}

template <class Group> __device__ __forceinline__ bool spread_is_first(void)
{
    return Group::block() == 0 && threadIdx.x == 0;
}

/* Counters of a hop. Hops use three of them in turn: while one is in use, the next hop's is
 * zeroed, and the previous hop's may still be read. */
struct spread_tally {
    unsigned long long edges; /* that leave the active nodes */
    unsigned long long cycles;
    unsigned long long contributions; /* that have a place */
    unsigned long long listed_edges;
    unsigned candidates; /* nodes that something was pushed to, or that have contributions */
    unsigned active, fresh, visited;
    unsigned listed; /* active nodes of a dense hop that have been listed */
    unsigned chunks; /* pieces of long out-lists */
    unsigned hubs, pieces;
    unsigned bigs, longest;
    unsigned records;
    unsigned late;
};

struct spread_best {
    double product;
    uint64_t id;
    uint32_t node;
};

struct spread_hub {
    uint32_t node, first, pieces; /* its pieces have the numbers first, first + 1, ... */
    unsigned done;
};

/* A hop along in-edges (spread_pull.cuh). */
struct pull_task {
    const struct spread_list *in;
    const uint32_t *order;
    const struct spread_edge *edges;
    const float *sent, *factors;
    const uint64_t *allowed;
    float *sends, *activation;
    uint16_t *seen;
    uint32_t *parents; /* NULL: paths are not wanted */
    struct spread_grid grid;
    float decay, threshold;
    uint32_t nodes, hop;
    bool last_hop;
    struct spread_hub *hubs;
    uint32_t *pieces; /* the hub that each piece belongs to */
    struct spread_sum *partials;
    struct spread_tally *tally;
};

/* A window of such a hop. */
struct pull_window {
    float received[SPREAD_WINDOW]; /* by number within the window; NaN: it will be set later */
    uint16_t wide[SPREAD_WINDOW];  /* nodes of the window whose lists need a whole warp */
    unsigned wide_count;
};

enum { SPREAD_RUN = 2048 }; /* contributions that a block sorts at once */

struct spread_shared {
    unsigned long long sums[4];
    struct spread_tally tallies[3]; /* for the sets that a block runs by itself */
    unsigned places;
    unsigned bases[4 * SPREAD_WARPS];
    unsigned deferred[SPREAD_WARPS];
    bool begun; /* a set, in this call, which began at call_ns: the first thread's alone */
    uint64_t call_ns;
    union {
        unsigned long long words[SPREAD_WARPS][32 * sizeof(struct spread_record) / 8];
        unsigned long long keys[SPREAD_RUN];
        struct spread_best best[SPREAD_WARPS];
        struct {
            struct pull_task pull;
            struct pull_window window;
        };
    };
};

__device__ __forceinline__ unsigned long long spread_warp_sum(unsigned long long v)
{
    for (int o = 16; o > 0; o /= 2)
        v += __shfl_xor_sync(SPREAD_ALL, v, o);
    return v;
}

/* Adds a value of each thread of the block to *to; shared->sums[which] is 0 before and afterwards.
 * All threads call it, and sync before they read. */
__device__ __forceinline__ void spread_count(struct spread_shared *shared, int which,
                                             unsigned long long v)
{
    v = spread_warp_sum(v);
    if (spread_lane() == 0 && v) atomicAdd(&shared->sums[which], v);
}

__device__ __forceinline__ unsigned long long spread_counted(struct spread_shared *shared,
                                                             int which)
{
    unsigned long long v = shared->sums[which];
    shared->sums[which] = 0;
    return v;
}

/* Appends the values of the lanes that want it to a list, with one atomic for the (whole) warp. */
__device__ __forceinline__ void spread_append(uint32_t *list, unsigned *count, uint32_t value,
                                              bool wants)
{
    unsigned who = __ballot_sync(SPREAD_ALL, wants);
    if (who == 0) return;
    unsigned base = 0, leader = (unsigned)__ffs(who) - 1;
    if (spread_lane() == leader) base = atomicAdd(count, (unsigned)__popc(who));
    base = __shfl_sync(SPREAD_ALL, base, leader);
    if (wants) list[base + __popc(who & ((1u << spread_lane()) - 1))] = value;
}

__device__ __forceinline__ void spread_atomic_add(double *to, double v)
{
    if (v == 0.0) return;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600
    atomicAdd(to, v);
#else
    unsigned long long *bits = (unsigned long long *)to, seen = *bits, before;
    do {
        before = seen;
        seen = atomicCAS(bits, before,
                         (unsigned long long)__double_as_longlong(
                             __dadd_rn(__longlong_as_double((long long)before), v)));
    } while (seen != before);
#endif
}

__device__ __forceinline__ uint64_t spread_now_ns(void)
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Clears count words, each thread of the group its share. bytes: a multiple of 4; to: 16-byte
 * aligned. */
template <class Group> __device__ void spread_clear(void *to, uint64_t bytes)
{
    uint4 zero = {0, 0, 0, 0};
    uint64_t wide = bytes / 16, narrow = bytes % 16 / 4;
    for (uint64_t i = spread_thread<Group>(); i < wide; i += spread_threads<Group>())
        ((uint4 *)to)[i] = zero;
    if (spread_thread<Group>() < narrow) ((unsigned *)to)[wide * 4 + spread_thread<Group>()] = 0;
}

#endif
