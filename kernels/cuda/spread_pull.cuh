/* spread_pull: a hop of mode linear along the in-edges of all nodes, run by the grid. Device code
 * only. Bound by memory: edges are read once, sequentially as far as lists are adjacent, and the
 * values that sources send are gathered from the level-2 cache. A block takes a window of the
 * graph's order. A lane sums a short list, with eight edges in flight, and its neighbours' lists
 * have similar lengths. A whole warp sums a list of more than SPREAD_PULL_WIDE edges. A list of
 * more than SPREAD_PULL_PIECE edges (a hub's) is cut into pieces that all warps sum, and the last
 * one to finish adds the pieces up. The received values go through shared memory, so that the
 * nodes' states are read and written sequentially. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_PULL_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_PULL_CUH

#include "kernels/cuda/spread_push.cuh"

enum { SPREAD_PULL_WIDE = 32, SPREAD_PULL_PIECE = 512 };

typedef struct linear_run<spread_grid_group, spread_dense_places> pull_run;

struct pull_counts {
    uint32_t active, fresh;
};

/* Loads two edges, or, if they are not wanted, node 0 and weight 0 twice. Written in C, the
 * compiler makes such loads wait for each other. Edges are read once, so they are evicted from the
 * caches first. */
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

/* The previous hop wrote it, so the read-only cache must not be used. */
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

/* Adds four pairs of edges, `at` and every step-th, of the lane's list or of the warp's. All loads
 * are issued before the first is used: the compiler moves no load over a warp's sync, and would
 * make them wait for each other's registers. */
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
            e[k].z = e[k].w = 0; /* what lies behind a list is undefined */
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

/* Sums the lane's own list, of at most SPREAD_PULL_WIDE edges. */
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

/* Sums one list by the whole warp; all lanes get the sum. */
__device__ __forceinline__ struct spread_sum pull_wide(const struct spread_edge *edges,
                                                       struct spread_grid grid, const float *sent,
                                                       uint64_t first, uint32_t count)
{
    struct spread_sum sum = {0.0, 0.0};
    for (uint32_t i0 = 0; i0 < count; i0 += 256)
        pull_eight(&sum, edges, grid, sent, first, i0 + 2 * spread_lane(), 64, count);
    return pull_warp_sum(sum);
}

__device__ __forceinline__ struct linear_known pull_known(const struct pull_task *t, uint32_t node)
{
    struct linear_known known = {__ldcg(t->seen + node), __ldcg(t->activation + node)};
    return known;
}

/* Updates the state of a node by what it received. */
__device__ __forceinline__ void pull_settle(const struct pull_task *t, uint32_t node,
                                            struct linear_known known, float a,
                                            struct pull_counts *counts)
{
    const bool kept = spread_kept(a, t->threshold) && spread_allows(t->allowed, node);
    const float factor = t->factors ? __ldg(&t->factors[node]) : 1.0f;
    t->sends[node] = kept ? spread_sent(a, factor) : 0.0f;
    if (kept) {
        const bool fresh = known.seen == 0;
        t->seen[node] = (uint16_t)(fresh ? t->hop << 8 | 1 : known.seen + 1);
        t->activation[node] = fresh || t->last_hop ? a : spread_accumulated(known.activation, a);
        if (fresh && t->parents) t->parents[node] = SPREAD_NO_NODE;
        counts->active++;
        counts->fresh += fresh;
    } else if (t->last_hop) {
        t->activation[node] = 0.0f;
    }
}

/* Queues a list that is too long for a warp: its pieces get consecutive numbers. The whole warp
 * calls it. */
__device__ __forceinline__ void pull_queue(const struct pull_task *t, uint32_t node, uint32_t count)
{
    const uint32_t pieces = (count + SPREAD_PULL_PIECE - 1) / SPREAD_PULL_PIECE;
    uint32_t at = 0, first = 0;
    if (spread_lane() == 0) {
        at = atomicAdd(&t->tally->hubs, 1u);
        first = atomicAdd(&t->tally->pieces, pieces);
        struct spread_hub hub = {node, first, pieces, 0};
        t->hubs[at] = hub;
    }
    at = __shfl_sync(SPREAD_ALL, at, 0);
    first = __shfl_sync(SPREAD_ALL, first, 0);
    for (uint32_t n = spread_lane(); n < pieces; n += 32)
        t->pieces[first + n] = at;
}

/* Sums the lists of a window, one in each lane, in the window's order: neighbours have similar
 * lengths. Lists that are too long are put into window->wide. */
__device__ __forceinline__ void pull_narrow_lists(const struct pull_task *t,
                                                  struct pull_window *window, uint32_t first,
                                                  uint32_t count)
{
    enum { EACH = SPREAD_WINDOW / SPREAD_THREADS };
    uint32_t at[EACH]; /* within the window */
    struct spread_list lists[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const uint32_t place = k * SPREAD_THREADS + threadIdx.x;
        at[k] = place < count ? __ldg(t->order + first + place) - first : count;
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        struct spread_list none = {0, 0, 0};
        lists[k] = at[k] < count ? spread_list_of(t->in, first + at[k]) : none;
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const uint32_t edges = lists[k].count;
        const bool wide = edges > SPREAD_PULL_WIDE;
        const struct spread_sum sum =
            pull_narrow(t->edges, t->grid, t->sent, lists[k].first, wide ? 0 : edges);
        if (at[k] >= count) continue;
        if (!wide)
            window->received[at[k]] = spread_received(sum, t->decay);
        else
            window->wide[atomicAdd(&window->wide_count, 1u)] = (uint16_t)at[k];
    }
}

/* Sums a list by the warp, or queues it if it is a hub's. */
__device__ __forceinline__ void pull_wide_list(const struct pull_task *t,
                                               struct pull_window *window, uint32_t first,
                                               uint32_t at)
{
    const struct spread_list list = spread_list_of(t->in, first + at);
    float received = __int_as_float(INT32_MAX); /* set later */
    if (list.count > SPREAD_PULL_PIECE)
        pull_queue(t, first + at, list.count);
    else
        received = spread_received(pull_wide(t->edges, t->grid, t->sent, list.first, list.count),
                                   t->decay);
    if (spread_lane() == 0) window->received[at] = received;
}

/* Blocks take windows in turn. Needs a sync before it. */
__device__ __forceinline__ struct pull_counts pull_windows(struct spread_shared *shared)
{
    enum { EACH = SPREAD_WINDOW / SPREAD_THREADS };
    const struct pull_task *t = &shared->pull;
    struct pull_window *window = &shared->window;
    struct pull_counts counts = {0, 0};
    for (uint64_t first = (uint64_t)blockIdx.x * SPREAD_WINDOW; first < t->nodes;
         first += (uint64_t)gridDim.x * SPREAD_WINDOW) {
        const uint32_t left = t->nodes - (uint32_t)first;
        const uint32_t count = left < SPREAD_WINDOW ? left : (uint32_t)SPREAD_WINDOW;
        if (threadIdx.x == 0) window->wide_count = 0;
        __syncthreads();
        pull_narrow_lists(t, window, (uint32_t)first, count);
        struct linear_known known[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const uint32_t i = k * SPREAD_THREADS + threadIdx.x;
            known[k] = pull_known(t, (uint32_t)first + (i < count ? i : 0));
        }
        __syncthreads();
        for (uint32_t w = threadIdx.x / 32; w < window->wide_count; w += SPREAD_WARPS)
            pull_wide_list(t, window, (uint32_t)first, window->wide[w]);
        if (window->wide_count) __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const uint32_t i = k * SPREAD_THREADS + threadIdx.x;
            const float a = i < count ? window->received[i] : 0.0f;
            if (i < count && a == a) pull_settle(t, (uint32_t)first + i, known[k], a, &counts);
        }
        __syncthreads();
    }
    return counts;
}

/* Adds the lane's share of the sums of a hub's pieces, with several loads in flight. */
__device__ __forceinline__ struct spread_sum pull_partials(const struct spread_sum *partials,
                                                           uint32_t count)
{
    enum { DEEP = 8 };
    struct spread_sum sum = {0.0, 0.0};
    for (uint32_t n0 = spread_lane(); n0 < count; n0 += 32 * DEEP) {
        double2 parts[DEEP];
#pragma unroll
        for (int k = 0; k < DEEP; k++) {
            parts[k] = make_double2(0.0, 0.0);
            if (n0 + 32 * k < count) parts[k] = __ldcg((const double2 *)partials + n0 + 32 * k);
        }
#pragma unroll
        for (int k = 0; k < DEEP; k++) {
            sum.high = __dadd_rn(sum.high, parts[k].x);
            sum.low = __dadd_rn(sum.low, parts[k].y);
        }
    }
    return sum;
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
        sum = pull_partials(t->partials + hub->first, hub->pieces);
        sum = pull_warp_sum(sum);
        if (lane == 0)
            pull_settle(t, hub->node, pull_known(t, hub->node), spread_received(sum, t->decay),
                        &counts);
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
    t->order = g->order;
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
    t->decay = spread_decay_at(q, r->hop);
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
    if (r->base->graph.edges) counts = pull_windows(r->shared);
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

/* Lists the active nodes after a hop by in-edges, and clears what the hop before it sent. */
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

/* Pushing an edge costs several times as much as pulling one. */
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
