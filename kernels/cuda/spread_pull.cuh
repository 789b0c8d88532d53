/* spread_pull: a hop of mode linear along the in-edges of all nodes, by the grid. Device code only.
 * Bound by memory: edges are read once, in a row where the lists lie in a row; what the sources send
 * is gathered from the level-2 cache. A lane sums a short list, eight edges under way at a time; lists
 * of more than SPREAD_PULL_WIDE edges the whole warp sums; of more than SPREAD_PULL_PIECE, in pieces,
 * all warps, and the last one to finish adds the pieces up. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_PULL_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_PULL_CUH

#include "kernels/cuda/spread_linear.cuh"

enum { SPREAD_PULL_WIDE = 32, SPREAD_PULL_PIECE = 512 };

typedef struct linear_run<spread_grid_group, spread_dense_places> pull_run;

struct pull_counts {
    uint32_t active, fresh;
};

/* Two edges, or, if they are not wanted, node 0 and weight 0 twice. In C the compiler has such loads
 * wait for each other. Edges are read once: they leave the caches first. */
__device__ __forceinline__ uint4 pull_load_edges(const struct spread_edge *at, bool wanted)
{
    uint4 e = {0, 0, 0, 0};
#if defined(__CUDA_ARCH__)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0;\n\t"
                 "@p ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(e.x), "+r"(e.y), "+r"(e.z), "+r"(e.w)
                 : "l"(at), "r"((unsigned)wanted));
#else
    if (wanted) e = *(const uint4 *)at;
#endif
    return e;
}

/* The hop before wrote it: it is not for the read-only cache. */
__device__ __forceinline__ float pull_load_sent(const float *at)
{
#if defined(__CUDA_ARCH__)
    float x;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(at));
    return x;
#else
    return *at;
#endif
}

__device__ __forceinline__ double pull_exchange(double keep, double give, int partner)
{
    return __dadd_rn(keep, __shfl_xor_sync(SPREAD_ALL, give, partner));
}

/* Four pairs of edges, `at` and every step-th, of the lane's list or of the warp's. All loads are on
 * their way before the first is used: the compiler moves none over a warp's sync, and would have them
 * wait for each other's registers. */
__device__ __forceinline__ void pull_eight(struct spread_sum *sum, const struct spread_edge *edges,
                                           struct spread_grid grid, const float *sent,
                                           uint64_t first, uint32_t at, uint32_t step,
                                           uint32_t count)
{
    uint4 e[4];
    float x[8];
#pragma unroll
    for (int k = 0; k < 4; k++)
        e[k] = pull_load_edges(edges + first + at + k * step, at + k * step < count);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (at + k * step + 1 >= count)
            e[k].z = e[k].w = 0; /* what lies behind a list is anything */
        x[2 * k] = pull_load_sent(sent + e[k].x);
        x[2 * k + 1] = pull_load_sent(sent + e[k].z);
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 4; k++) {
        spread_add(sum, grid, x[2 * k], __uint_as_float(e[k].y));
        spread_add(sum, grid, x[2 * k + 1], __uint_as_float(e[k].w));
    }
}

/* A lane sums its own list, of at most SPREAD_PULL_WIDE edges. */
__device__ __forceinline__ struct spread_sum pull_narrow(const struct spread_edge *edges,
                                                         struct spread_grid grid, const float *sent,
                                                         uint64_t first, uint32_t count)
{
    struct spread_sum sum = {0.0, 0.0};
    for (uint32_t at = 0; __any_sync(SPREAD_ALL, at < count); at += 8)
        pull_eight(&sum, edges, grid, sent, first, at, 2, count);
    return sum;
}

__device__ __forceinline__ struct spread_sum pull_warp_sum(struct spread_sum sum)
{
    for (int o = 16; o > 0; o /= 2) {
        sum.high = pull_exchange(sum.high, sum.high, o);
        sum.low = pull_exchange(sum.low, sum.low, o);
    }
    return sum;
}

/* The sum of one list by the whole warp; all lanes get it. */
__device__ __forceinline__ struct spread_sum pull_wide(const struct spread_edge *edges,
                                                       struct spread_grid grid, const float *sent,
                                                       uint64_t first, uint32_t count)
{
    struct spread_sum sum = {0.0, 0.0};
    for (uint32_t i0 = 0; i0 < count; i0 += 256)
        pull_eight(&sum, edges, grid, sent, first, i0 + 2 * spread_lane(), 64, count);
    return pull_warp_sum(sum);
}

/* A node's sum is known. */
__device__ __forceinline__ void pull_settle(const struct pull_task *t, uint32_t node,
                                            struct spread_sum sum, struct pull_counts *counts)
{
    const uint32_t seen = t->seen[node]; /* both at once, though not all may be needed */
    const float before = t->activation[node];
    const float a = spread_received(sum, t->decay);
    const bool kept = spread_kept(a, t->threshold) && spread_allows(t->allowed, node);
    const float factor = t->factors ? __ldg(&t->factors[node]) : 1.0f;
    t->sends[node] = kept ? spread_sent(a, factor) : 0.0f;
    if (kept) {
        const bool fresh = seen == 0;
        t->seen[node] = (uint16_t)(fresh ? t->hop << 8 | 1 : seen + 1);
        t->activation[node] = fresh || t->last_hop ? a : spread_accumulated(before, a);
        if (fresh && t->parents) t->parents[node] = SPREAD_NO_NODE;
        counts->active++;
        counts->fresh += fresh;
    } else if (t->last_hop) {
        t->activation[node] = 0.0f;
    }
}

/* A list that is too long for a warp: its pieces get numbers in a row. */
__device__ __noinline__ void pull_queue(const struct pull_task *t, uint32_t node, uint32_t count)
{
    const uint32_t pieces = (count + SPREAD_PULL_PIECE - 1) / SPREAD_PULL_PIECE;
    const uint32_t at = atomicAdd(&t->tally->hubs, 1u);
    const uint32_t first = atomicAdd(&t->tally->pieces, pieces);
    struct spread_hub hub = {node, first, pieces, 0};
    t->hubs[at] = hub;
    for (uint32_t n = 0; n < pieces; n++)
        t->pieces[first + n] = at;
}

__device__ __forceinline__ struct pull_counts pull_rows(const struct pull_task *t)
{
    const unsigned lane = spread_lane();
    const uint32_t nodes = t->nodes, step = spread_threads<spread_grid_group>();
    const struct spread_edge *edges = t->edges;
    const struct spread_grid grid = t->grid;
    const float *sent = t->sent;
    struct pull_counts counts = {0, 0};
    uint32_t i0 = spread_warp<spread_grid_group>() * 32;
    struct spread_list none = {0, 0, 0}, next = none;
    if (i0 + lane < nodes) next = spread_list_of(t->in, i0 + lane);
    for (; i0 < nodes; i0 += step) {
        const struct spread_list list = next;
        const uint32_t node = i0 + lane;
        next = none;
        if (node + (uint64_t)step < nodes) next = spread_list_of(t->in, node + step);
        const bool hub = list.count > SPREAD_PULL_PIECE, wide = list.count > SPREAD_PULL_WIDE;
        struct spread_sum sum = pull_narrow(edges, grid, sent, list.first, wide ? 0 : list.count);
        for (unsigned who = __ballot_sync(SPREAD_ALL, wide && !hub); who; who &= who - 1) {
            const int from = __ffs((int)who) - 1;
            const uint64_t first = __shfl_sync(SPREAD_ALL, list.first, from);
            const uint32_t count = __shfl_sync(SPREAD_ALL, list.count, from);
            const struct spread_sum whole = pull_wide(edges, grid, sent, first, count);
            if (lane == (unsigned)from) sum = whole;
        }
        if (hub)
            pull_queue(t, node, list.count);
        else if (node < nodes)
            pull_settle(t, node, sum, &counts);
        __syncwarp();
    }
    return counts;
}

__device__ __forceinline__ struct pull_counts pull_pieces(const struct pull_task *t,
                                                          uint32_t pieces)
{
    const unsigned lane = spread_lane();
    struct pull_counts counts = {0, 0};
    for (uint32_t p = spread_warp<spread_grid_group>(); p < pieces;
         p += spread_warps<spread_grid_group>()) {
        struct spread_hub *hub = &t->hubs[t->pieces[p]];
        const struct spread_list list = spread_list_of(t->in, hub->node);
        const uint32_t begin = (p - hub->first) * SPREAD_PULL_PIECE, left = list.count - begin;
        struct spread_sum sum = pull_wide(t->edges, t->grid, t->sent, list.first + begin,
                                          left < SPREAD_PULL_PIECE ? left : SPREAD_PULL_PIECE);
        unsigned done = 0;
        if (lane == 0) {
            t->partials[p] = sum;
            __threadfence();
            done = atomicAdd(&hub->done, 1u) + 1;
        }
        done = __shfl_sync(SPREAD_ALL, done, 0);
        if (done < hub->pieces) continue;
        __threadfence();
        sum.high = sum.low = 0.0;
        for (uint32_t n = lane; n < hub->pieces; n += 32) {
            const double2 part = __ldcg((const double2 *)&t->partials[hub->first + n]);
            sum.high = __dadd_rn(sum.high, part.x);
            sum.low = __dadd_rn(sum.low, part.y);
        }
        sum = pull_warp_sum(sum);
        if (lane == 0) pull_settle(t, hub->node, sum, &counts);
    }
    return counts;
}

__device__ __forceinline__ void pull_set_task(const pull_run *r)
{
    struct pull_task *t = &r->shared->pull;
    const struct spread_graph *g = &r->base->graph;
    const struct spread_question *q = &r->base->question;
    const struct linear_slot *s = r->slot;
    if (threadIdx.x != 0) return;
    t->in = g->in;
    t->edges = g->in_edges;
    t->grid = g->grid;
    t->factors = g->factors;
    t->allowed = q->allowed;
    t->nodes = g->nodes;
    t->sent = s->sent[~r->hop & 1];
    t->sends = s->sent[r->hop & 1];
    t->activation = s->activation;
    t->seen = s->seen;
    t->parents = q->paths ? s->parents : NULL;
    t->decay = q->decay[r->hop];
    t->threshold = q->thresholds[0];
    t->hop = r->hop;
    t->last_hop = q->last_hop;
    t->hubs = s->hubs;
    t->pieces = s->pieces;
    t->partials = s->partials;
    t->tally = &r->tallies[r->hop % 3];
}

/* Ends with a sync. */
__device__ void linear_hop_by_pull(pull_run *r)
{
    pull_set_task(r);
    __syncthreads();
    struct pull_counts counts = {0, 0};
    if (r->base->graph.edges) counts = pull_rows(&r->shared->pull);
    linear_end_hop(r, 0, counts.active, counts.fresh);
    const uint32_t pieces = r->tally()->pieces;
    if (pieces) {
        counts = pull_pieces(&r->shared->pull, pieces);
        linear_end_hop(r, 0, counts.active, counts.fresh);
    }
    linear_take_tally(r);
    r->list = r->all_listed = false;
    r->listed = r->old_listed = 0;
}

/* After a hop by in-edges: its active nodes become a list, and what the hop before it sent is gone. */
__device__ void pull_make_list(pull_run *r)
{
    const uint32_t nodes = r->base->graph.nodes, step = spread_threads<spread_grid_group>();
    struct spread_tally *t = r->tally();
    uint64_t edges = 0;
    for (uint32_t i0 = spread_warp<spread_grid_group>() * 32; i0 < nodes; i0 += step) {
        const uint32_t node = i0 + spread_lane();
        const bool sends = node < nodes && r->sent_before()[node] != 0.0f;
        if (node < nodes) r->sent()[node] = 0.0f;
        if (sends) edges += spread_list_of(r->base->graph.out, node).count;
        spread_append(r->slot->lists[~r->hop & 1], &t->listed, node, sends);
    }
    spread_count(r->shared, 0, edges);
    __syncthreads();
    if (threadIdx.x == 0) {
        edges = spread_counted(r->shared, 0);
        if (edges) atomicAdd(&t->listed_edges, (unsigned long long)edges);
    }
    spread_grid_group::sync();
    r->listed = t->listed;
    r->edges = t->listed_edges;
    r->list = true;
}

/* Pushing an edge costs several times what pulling one does. */
__device__ __forceinline__ bool pull_is_cheaper(const pull_run *r)
{
    const struct spread_graph *g = &r->base->graph;
    return r->edges * SPREAD_PULL_SHARE > g->edges + 2 * (uint64_t)g->nodes;
}

__device__ inline bool linear_hop(pull_run *r)
{
    bool pull = !r->list && (uint64_t)r->active * SPREAD_PULL_SHARE > r->base->graph.nodes;
    if (!pull && !r->list) pull_make_list(r);
    if (pull || pull_is_cheaper(r)) {
        linear_hop_by_pull(r);
        return true;
    }
    return linear_hop_by_push(r);
}

#endif
