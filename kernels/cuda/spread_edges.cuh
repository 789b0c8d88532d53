/* spread_edges: visits every edge that leaves some nodes, shared evenly by a group of threads,
 * however different the lists are in length. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_EDGES_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_EDGES_CUH

#include "kernels/cuda/spread_group.cuh"

enum {
    SPREAD_EDGES_LONG = 2048, /* longer lists are cut in pieces of this length */
    SPREAD_EDGES_FLIGHT = 4   /* loads that a thread has in flight */
};

/* A node that sends, and its list. */
struct spread_sender {
    uint64_t first;
    uint32_t count, node;
    float amount;
};

struct spread_chunk {
    uint32_t sender, number;
};

__device__ __forceinline__ struct spread_list spread_list_of(const struct spread_list *lists,
                                                             uint32_t node)
{
    uint4 v = __ldg((const uint4 *)lists + node);
    struct spread_list list = {(uint64_t)v.y << 32 | v.x, v.z, v.w};
    return list;
}

__device__ __forceinline__ struct spread_edge spread_edge_at(const struct spread_edge *edges,
                                                             uint64_t at)
{
    uint2 v = __ldg((const uint2 *)edges + at);
    struct spread_edge e = {v.x, __uint_as_float(v.y)};
    return e;
}

__device__ __forceinline__ void spread_queue_chunks(struct spread_chunk *chunks, unsigned *count,
                                                    uint32_t sender, uint32_t edges)
{
    uint32_t many = (edges + SPREAD_EDGES_LONG - 1) / SPREAD_EDGES_LONG;
    unsigned at = atomicAdd(count, many);
    for (uint32_t n = 0; n < many; n++) {
        struct spread_chunk chunk = {sender, n};
        chunks[at + n] = chunk;
    }
}

/* Calls visit(sender, edge, valid), by whole warps, for the edges of senders 0 .. count - 1, which
 * `sender` returns by number. Long lists are queued, or skipped (chunk_count NULL). */
template <class Group, class Sender, class Visit>
__device__ __forceinline__ void spread_each_edge(const struct spread_edge *edges, uint32_t count,
                                                 struct spread_chunk *chunks, unsigned *chunk_count,
                                                 Sender sender, Visit visit)
{
    const unsigned lane = spread_lane(), warps = spread_warps<Group>();
    uint32_t each = (count + warps - 1) / warps;
    if (each > 32) each = 32;
    for (uint64_t base = (uint64_t)spread_warp<Group>() * each; base < count;
         base += (uint64_t)warps * each) {
        struct spread_sender own = {0, 0, 0, 0.0f};
        if (lane < each && base + lane < count) own = sender((uint32_t)base + lane);
        if (own.count > SPREAD_EDGES_LONG) {
            if (chunk_count)
                spread_queue_chunks(chunks, chunk_count, (uint32_t)base + lane, own.count);
            own.count = 0;
        }
        __syncwarp();
        uint32_t end = own.count; /* where the lane's edges end among the warp's */
        for (int o = 1; o < 32; o *= 2) {
            uint32_t before = __shfl_up_sync(SPREAD_ALL, end, o);
            if (lane >= (unsigned)o) end += before;
        }
        const uint32_t total = __shfl_sync(SPREAD_ALL, end, 31);
        for (uint32_t k0 = 0; k0 < total; k0 += 32 * SPREAD_EDGES_FLIGHT) {
            struct spread_edge e[SPREAD_EDGES_FLIGHT];
            uint32_t owner[SPREAD_EDGES_FLIGHT];
#pragma unroll
            for (int f = 0; f < SPREAD_EDGES_FLIGHT; f++) {
                uint32_t k = k0 + f * 32 + lane;
                uint32_t low = 0; /* how many lanes' edges end at or before k */
#pragma unroll
                for (int o = 16; o > 0; o /= 2)
                    if (__shfl_sync(SPREAD_ALL, end, low + o - 1) <= k) low += o;
                owner[f] = low;
                uint64_t first = __shfl_sync(SPREAD_ALL, own.first, low);
                uint32_t begin = __shfl_sync(SPREAD_ALL, end - own.count, low);
                struct spread_edge none = {0, 0.0f};
                e[f] = k < total ? spread_edge_at(edges, first + (k - begin)) : none;
            }
#pragma unroll
            for (int f = 0; f < SPREAD_EDGES_FLIGHT; f++) {
                if (k0 + f * 32 >= total) break;
                struct spread_sender s;
                s.first = 0;
                s.count = __shfl_sync(SPREAD_ALL, own.count, owner[f]);
                s.node = __shfl_sync(SPREAD_ALL, own.node, owner[f]);
                s.amount = __shfl_sync(SPREAD_ALL, own.amount, owner[f]);
                visit(s, e[f], k0 + f * 32 + lane < total);
            }
        }
    }
}

/* The same for the queued lists, after a sync. */
template <class Group, class Sender, class Visit>
__device__ __forceinline__ void spread_each_chunk(const struct spread_edge *edges,
                                                  const struct spread_chunk *chunks, uint32_t count,
                                                  Sender sender, Visit visit)
{
    for (uint32_t c = spread_warp<Group>(); c < count; c += spread_warps<Group>()) {
        const struct spread_sender s = sender(chunks[c].sender);
        const uint32_t first = chunks[c].number * SPREAD_EDGES_LONG;
        const uint32_t left = s.count - first;
        const uint32_t many = left < SPREAD_EDGES_LONG ? left : SPREAD_EDGES_LONG;
        for (uint32_t k0 = 0; k0 < many; k0 += 32 * SPREAD_EDGES_FLIGHT) {
            struct spread_edge e[SPREAD_EDGES_FLIGHT];
#pragma unroll
            for (int f = 0; f < SPREAD_EDGES_FLIGHT; f++) {
                uint32_t k = k0 + f * 32 + spread_lane();
                struct spread_edge none = {0, 0.0f};
                e[f] = k < many ? spread_edge_at(edges, s.first + first + k) : none;
            }
#pragma unroll
            for (int f = 0; f < SPREAD_EDGES_FLIGHT; f++)
                if (k0 + f * 32 < many) visit(s, e[f], k0 + f * 32 + spread_lane() < many);
        }
    }
}

#endif
