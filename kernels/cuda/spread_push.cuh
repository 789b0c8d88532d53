/* spread_push: a run of mode linear, by the grid or by a block, whose hops push along the out-
 * edges of active nodes. The grid may pull along the in-edges of all nodes instead
 * (spread_pull.cuh): sums are exact, so both give the same. Between hops, sums and marks are zero,
 * and so are sent values except those of the last hop. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_PUSH_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_PUSH_CUH

#include "kernels/cuda/spread_job.cuh"

enum {
    SPREAD_PULL_SHARE = 8,    /* pushing along one in so many edges costs as much as a pull */
    SPREAD_PARENTS_LONG = 256 /* a longer in-list is searched by a whole block */
};

/* Arrays over places (spread_places.cuh); lists contain places. */
struct linear_slot {
    struct spread_sum *sums;
    float *sent[2]; /* [hop % 2]: what is sent after that hop */
    float *activation;
    uint16_t *seen;  /* visits, with the depth in the upper byte; 0: not touched */
    unsigned *marks; /* a bit for each place: it is a candidate */
    uint32_t *parents, *touched, *lists[2], *candidates;
    struct spread_chunk *chunks;
    unsigned *bins;
    struct spread_hub *hubs; /* only for the grid: in-lists that are cut in pieces */
    uint32_t *pieces;
    struct spread_sum *partials;
    struct spread_hash hash; /* only for a block */
};

struct linear_job {
    struct spread_base base;
    struct linear_slot grid;
};

/* Adds an exact product to a sum that other threads add to. */
__device__ __forceinline__ void linear_push_product(struct spread_sum *to, struct spread_grid grid,
                                                    float sent, float weight)
{
    struct spread_sum s = {0.0, 0.0};
    spread_add(&s, grid, sent, weight);
    spread_atomic_add(&to->high, s.high);
    spread_atomic_add(&to->low, s.low);
}

/* The state of a run that all threads of a group have. */
template <class Group, class Places> struct linear_run {
    const struct spread_base *base;
    const struct linear_slot *slot;
    struct spread_shared *shared;
    struct spread_tally *tallies;
    Places places;
    uint32_t prepared; /* places of a block whose arrays are zeroed */
    uint32_t set, hop, hops_done;
    /* fresh: first touched in this hop; touched: all touched nodes */
    uint32_t active, fresh, touched;
    uint32_t listed, old_listed; /* entries of this hop's list, and of the previous hop's */
    uint64_t edges;              /* that leave the active nodes, if `list` is set */
    uint64_t started_ns;
    bool list;       /* lists[hop % 2] has the active nodes */
    bool all_listed; /* the list `touched` has all touched nodes */
    bool sums_clear;
    bool truncated;

    __device__ struct spread_tally *tally()
    {
        return &tallies[hop % 3];
    }
    __device__ float *sent()
    {
        return slot->sent[hop & 1];
    }
    __device__ float *sent_before()
    {
        return slot->sent[~hop & 1];
    }
};

/* ---------------------------------------------------------------- what hops do alike */

/* The state of a node before a hop. */
struct linear_known {
    uint32_t seen;
    float activation;
};

/* Makes a node active after this hop. Returns whether it is the first time. */
template <class Run>
__device__ __forceinline__ bool linear_activate(Run *r, uint32_t place, struct linear_known known,
                                                float activation)
{
    const struct linear_slot *s = r->slot;
    const bool fresh = known.seen == 0;
    s->seen[place] = (uint16_t)(fresh ? r->hop << 8 | 1 : known.seen + 1);
    s->activation[place] = fresh || r->base->question.last_hop
                               ? activation
                               : spread_accumulated(known.activation, activation);
    return fresh;
}

/* Adds the threads' counts to the hop's tally. Ends with a sync; the run then has the totals. */
template <class Group, class Places>
__device__ void linear_end_hop(struct linear_run<Group, Places> *r, uint64_t edges, uint32_t active,
                               uint32_t fresh)
{
    spread_count(r->shared, 0, edges);
    spread_count(r->shared, 1, active);
    spread_count(r->shared, 2, fresh);
    __syncthreads();
    struct spread_tally *t = r->tally();
    if (threadIdx.x == 0) {
        edges = spread_counted(r->shared, 0);
        active = (uint32_t)spread_counted(r->shared, 1);
        fresh = (uint32_t)spread_counted(r->shared, 2);
        if (edges) atomicAdd(&t->edges, (unsigned long long)edges);
        if (active) atomicAdd(&t->active, active);
        if (fresh) atomicAdd(&t->fresh, fresh);
        if (Group::block() == 0 && r->base->time_ns &&
            spread_now_ns() - r->started_ns >= r->base->time_ns)
            t->late = 1;
    }
    Group::sync();
}

template <class Group, class Places>
__device__ void linear_take_tally(struct linear_run<Group, Places> *r)
{
    const struct spread_tally *t = r->tally();
    r->active = t->active;
    r->fresh = t->fresh;
    r->edges = t->edges;
    r->touched += r->fresh;
    if (r->active) r->hops_done = r->hop;
}

/* Makes room for this many more places, all zero. False: there is none. Syncs before and after. */
__device__ inline bool linear_prepare(struct linear_run<spread_block_group, spread_hash_places> *r,
                                      uint64_t more)
{
    const struct linear_slot *s = r->slot;
    const uint32_t given = *r->places.count;
    if (given + more > r->places.hash.room || more > r->base->slot_edges) return false;
    const uint32_t end = given + (uint32_t)more;
    for (uint32_t p = r->prepared + threadIdx.x; p < end; p += SPREAD_THREADS) {
        struct spread_sum none = {0.0, 0.0};
        s->sums[p] = none;
        s->sent[0][p] = s->sent[1][p] = 0.0f;
        s->seen[p] = 0;
    }
    for (uint32_t w = r->prepared / 32 + threadIdx.x; w <= end / 32; w += SPREAD_THREADS)
        s->marks[w] = 0;
    if (end > r->prepared) r->prepared = end;
    r->places.grow(end);
    __syncthreads();
    return true;
}

__device__ inline bool linear_prepare(struct linear_run<spread_grid_group, spread_dense_places> *r,
                                      uint64_t more)
{
    if (r->sums_clear || r->hop == 0) return true;
    spread_clear<spread_grid_group>(r->slot->sums,
                                    (uint64_t)r->base->graph.nodes * sizeof *r->slot->sums);
    spread_grid_group::sync();
    r->sums_clear = true;
    return true;
}

/* ---------------------------------------------------------------- hop 0 */

/* False: the set is too large for this group. */
template <class Group, class Places>
__device__ bool linear_begin(struct linear_run<Group, Places> *r)
{
    const struct spread_question *q = &r->base->question;
    const struct spread_graph *g = &r->base->graph;
    const uint64_t first = r->base->set_offsets[r->set];
    const uint64_t count = r->base->set_ends[r->set] - first;
    if (spread_is_first<Group>()) memset(r->tallies, 0, 3 * sizeof *r->tallies);
    Group::sync();
    if (!linear_prepare(r, count)) return false;
    /* If nearly all nodes are active, lists are of no use. */
    r->list = r->all_listed = !Group::GRID || count * SPREAD_PULL_SHARE <= g->nodes;
    uint64_t edges = 0;
    for (uint64_t i = spread_thread<Group>(); i < count; i += spread_threads<Group>()) {
        const struct spread_seed seed = q->seeds[first + i];
        const uint32_t place = r->places.take(seed.node);
        r->sent()[place] = spread_sent(seed.activation, spread_factor_of(g, seed.node));
        r->slot->seen[place] = 1;
        r->slot->activation[place] = seed.activation;
        if (q->paths) r->slot->parents[place] = SPREAD_NO_NODE;
        if (!r->list) continue;
        r->slot->lists[0][i] = r->slot->touched[i] = place;
        edges += spread_list_of(g->out, seed.node).count;
    }
    linear_end_hop(r, edges, 0, 0);
    linear_take_tally(r);
    r->active = r->fresh = r->touched = r->listed = (uint32_t)count;
    r->old_listed = 0;
    return true;
}

/* ---------------------------------------------------------------- a hop by out-edges */

template <class Group, class Places>
__device__ void linear_push(struct linear_run<Group, Places> *r)
{
    const struct linear_slot *s = r->slot;
    const struct spread_graph *g = &r->base->graph;
    const uint32_t *senders = s->lists[~r->hop & 1];
    const float *sent = r->sent_before();
    struct spread_tally *t = r->tally();
    auto sender = [&](uint32_t i) {
        const uint32_t place = senders[i], node = r->places.node(place);
        const struct spread_list list = spread_list_of(g->out, node);
        struct spread_sender one = {list.first, list.count, node, sent[place]};
        if (one.amount == 0.0f) one.count = 0;
        return one;
    };
    auto visit = [&](const struct spread_sender &from, struct spread_edge e, bool valid) {
        uint32_t place = 0;
        bool first = false;
        if (valid && spread_allows(r->base->question.allowed, e.node)) {
            place = r->places.take(e.node);
            linear_push_product(&s->sums[place], g->grid, from.amount, e.weight);
            unsigned *word = &s->marks[place / 32], bit = 1u << (place & 31);
            const bool known = Group::GRID && *(volatile unsigned *)word & bit;
            first = !known && !(atomicOr(word, bit) & bit);
        }
        __syncwarp();
        spread_append(s->candidates, &t->candidates, place, first);
    };
    spread_each_edge<Group>(g->out_edges, r->listed, s->chunks, &t->chunks, sender, visit);
    Group::sync();
    const uint32_t chunks = t->chunks;
    if (chunks == 0) return;
    spread_each_chunk<Group>(g->out_edges, s->chunks, chunks, sender, visit);
    Group::sync();
}

/* Turns what the candidates received into their new state. */
template <class Group, class Places>
__device__ void linear_settle(struct linear_run<Group, Places> *r)
{
    const struct linear_slot *s = r->slot;
    const struct spread_question *q = &r->base->question;
    const struct spread_graph *g = &r->base->graph;
    struct spread_tally *t = r->tally();
    const uint32_t count = t->candidates;
    const float decay = spread_decay_at(q, r->hop);
    uint64_t edges = 0;
    for (uint32_t i0 = spread_warp<Group>() * 32; i0 < count; i0 += spread_threads<Group>()) {
        bool kept = false, fresh = false;
        uint32_t place = 0;
        if (i0 + spread_lane() < count) {
            place = s->candidates[i0 + spread_lane()];
            /* All values are read at once, although a node that is dropped needs the sum only. */
            const struct spread_sum sum = s->sums[place], none = {0.0, 0.0};
            const struct linear_known known = {s->seen[place], s->activation[place]};
            const uint32_t node = r->places.node(place);
            s->sums[place] = none;
            s->marks[place / 32] = 0; /* all of its bits are candidates */
            const float a = spread_received(sum, decay);
            kept = spread_kept(a, q->thresholds[0]);
            if (kept) {
                fresh = linear_activate(r, place, known, a);
                r->sent()[place] = spread_sent(a, spread_factor_of(g, node));
                edges += spread_list_of(g->out, node).count;
                if (fresh && q->paths) s->parents[place] = SPREAD_NO_NODE;
            }
        }
        __syncwarp();
        spread_append(s->lists[r->hop & 1], &t->active, place, kept);
        spread_append(s->touched + r->touched, &t->fresh, place, fresh);
    }
    linear_end_hop(r, edges, 0, 0);
    linear_take_tally(r);
    r->list = true;
}

/* False: the hop is too large for this group. */
template <class Group, class Places>
__device__ bool linear_hop_by_push(struct linear_run<Group, Places> *r)
{
    if (!linear_prepare(r, r->edges)) return false;
    /* This hop writes where the values sent by the hop before the last one are. */
    const uint32_t *old = r->slot->lists[r->hop & 1];
    for (uint32_t i = spread_thread<Group>(); i < r->old_listed; i += spread_threads<Group>())
        r->sent()[old[i]] = 0.0f;
    linear_push(r);
    linear_settle(r);
    r->old_listed = r->listed;
    r->listed = r->active;
    return true;
}

/* ---------------------------------------------------------------- parents */

__device__ __forceinline__ bool linear_better(const struct spread_best *a,
                                              const struct spread_best *b)
{
    return a->product > b->product || (a->product == b->product && a->id < b->id);
}

/* Finds the best in a share of an in-list: edges at, at + step, ... */
template <class Group, class Places>
__device__ __forceinline__ struct spread_best linear_best(struct linear_run<Group, Places> *r,
                                                          struct spread_list list, uint32_t at,
                                                          uint32_t step)
{
    const struct spread_graph *g = &r->base->graph;
    const float *sent = r->sent_before();
    struct spread_best best = {0.0, UINT64_MAX, SPREAD_NO_NODE};
    for (; at < list.count; at += step) {
        const struct spread_edge e = spread_edge_at(g->in_edges, list.first + at);
        const uint32_t place = r->places.find(e.node);
        const float x = place == SPREAD_NO_NODE ? 0.0f : sent[place];
        const double product = __dmul_rn((double)x, (double)e.weight);
        if (!(product > 0.0) || product < best.product) continue;
        struct spread_best now = {product, g->ids[e.node], e.node};
        if (linear_better(&now, &best)) best = now;
    }
    return best;
}

__device__ __forceinline__ struct spread_best linear_best_of(struct spread_best best, int lanes)
{
    for (int o = lanes / 2; o > 0; o /= 2) {
        struct spread_best other;
        other.product = __shfl_xor_sync(SPREAD_ALL, best.product, o);
        other.id = __shfl_xor_sync(SPREAD_ALL, (unsigned long long)best.id, o);
        other.node = __shfl_xor_sync(SPREAD_ALL, best.node, o);
        if (linear_better(&other, &best)) best = other;
    }
    return best;
}

/* Eight lanes for each node; all lanes of the warp call it. Long in-lists are queued. */
template <class Group, class Places>
__device__ __forceinline__ void linear_parent(struct linear_run<Group, Places> *r, uint32_t place,
                                              bool valid)
{
    struct spread_list list = {0, 0, 0};
    if (valid) list = spread_list_of(r->base->graph.in, r->places.node(place));
    const bool is_long = list.count > SPREAD_PARENTS_LONG;
    const bool leads = (spread_lane() & 7) == 0;
    spread_append(r->slot->candidates, &r->tally()->bigs, place, is_long && leads);
    if (is_long) list.count = 0;
    const struct spread_best best = linear_best_of(linear_best(r, list, spread_lane() & 7, 8), 8);
    if (valid && !is_long && leads) r->slot->parents[place] = best.node;
}

template <class Group, class Places>
__device__ void linear_long_parent(struct linear_run<Group, Places> *r, uint32_t place)
{
    const struct spread_list list = spread_list_of(r->base->graph.in, r->places.node(place));
    struct spread_best best = linear_best_of(linear_best(r, list, threadIdx.x, SPREAD_THREADS), 32);
    if (spread_lane() == 0) r->shared->best[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < SPREAD_WARPS; w++)
            if (linear_better(&r->shared->best[w], &best)) best = r->shared->best[w];
        r->slot->parents[place] = best.node;
    }
    __syncthreads();
}

/* Finds the parents of the nodes that were first touched in this hop. */
template <class Group, class Places>
__device__ void linear_parents(struct linear_run<Group, Places> *r)
{
    const struct linear_slot *s = r->slot;
    const unsigned lane = spread_lane(), row = lane / 8;
    const uint32_t warp = spread_warp<Group>(), warps = spread_warps<Group>();
    if (r->all_listed) {
        const uint32_t *fresh = s->touched + (r->touched - r->fresh);
        for (uint32_t i0 = warp * 4; i0 < r->fresh; i0 += warps * 4) {
            const bool valid = i0 + row < r->fresh;
            linear_parent(r, valid ? fresh[i0 + row] : 0, valid);
        }
    } else {
        const uint32_t nodes = r->base->graph.nodes;
        for (uint32_t i0 = warp * 32; i0 < nodes; i0 += warps * 32) {
            const bool is = i0 + lane < nodes && s->seen[i0 + lane] == (r->hop << 8 | 1);
            const unsigned who = __ballot_sync(SPREAD_ALL, is);
            for (unsigned n = 0; n < 32; n += 4)
                if (who >> n & 15) linear_parent(r, i0 + n + row, who >> (n + row) & 1);
        }
    }
    Group::sync();
    const uint32_t bigs = r->tally()->bigs;
    for (uint32_t b = Group::block(); b < bigs; b += Group::blocks())
        linear_long_parent(r, s->candidates[b]);
    if (bigs) Group::sync();
}

/* ---------------------------------------------------------------- bounds, and the outcome */

/* Drops the fresh nodes with the highest ids until the bound is met. */
template <class Group, class Places>
__device__ void linear_trim(struct linear_run<Group, Places> *r)
{
    const struct linear_slot *s = r->slot;
    const uint64_t over = r->touched - r->base->question.touched_max;
    const uint64_t keep = over < r->fresh ? r->fresh - over : 0;
    const uint32_t *fresh = s->touched + (r->touched - r->fresh);
    const uint32_t count = r->all_listed ? r->fresh : r->base->graph.nodes;
    auto id = [&](uint32_t i, uint64_t *value) {
        const uint32_t place = r->all_listed ? fresh[i] : i;
        if (s->seen[place] != (r->hop << 8 | 1)) return false;
        *value = r->base->graph.ids[r->places.node(place)];
        return true;
    };
    const uint64_t last = keep ? spread_lowest<Group>(s->bins, keep, count, id) : 0;
    for (uint32_t i = spread_thread<Group>(); i < count; i += spread_threads<Group>()) {
        uint64_t value;
        if (id(i, &value) && (keep == 0 || value > last)) s->seen[r->all_listed ? fresh[i] : i] = 0;
    }
    Group::sync();
    r->truncated = true;
}

/* Writes the result. Ends with a sync. */
template <class Group, class Places>
__device__ void linear_finish(struct linear_run<Group, Places> *r)
{
    const struct linear_slot *s = r->slot;
    const struct spread_question *q = &r->base->question;
    const bool by_list = q->last_hop ? r->list : r->all_listed;
    const uint32_t *list = q->last_hop ? s->lists[r->hop & 1] : s->touched;
    uint32_t count = !by_list ? r->base->graph.nodes : q->last_hop ? r->active : r->touched;
    if (q->last_hop && (r->hop != q->hops || r->active == 0)) count = 0;
    const uint64_t touched = r->touched < q->touched_max ? r->touched : q->touched_max;
    const uint64_t active = r->active < touched ? r->active : touched; /* some nodes were dropped */
    const uint64_t most = count == 0 ? 0 : q->last_hop ? active : touched;
    struct cuda_spread_set outcome = {};
    outcome.hops_done = r->hops_done;
    outcome.truncated = r->truncated;
    auto is = [&](uint32_t i) {
        const uint32_t place = by_list ? list[i] : i;
        return s->seen[place] != 0 && (!q->last_hop || by_list || s->activation[place] > 0.0f);
    };
    auto record = [&](uint32_t i) {
        const uint32_t place = by_list ? list[i] : i, depth = s->seen[place] >> 8;
        struct spread_record one = {};
        one.node = r->places.node(place);
        one.parent = q->paths ? s->parents[place] : SPREAD_NO_NODE;
        one.activation = one.confidence = s->activation[place];
        one.visits = s->seen[place] & 255;
        one.depth = (uint8_t)depth;
        one.tier = (uint8_t)spread_tier_of(depth);
        return one;
    };
    spread_finish_set<Group>(r->base, r->shared, r->set, &r->tallies[(r->hop + 1) % 3].records,
                             most, count, is, record, outcome);
}

/* ---------------------------------------------------------------- a run */

/* False: the set is too large for this group. */
template <class Group, class Places>
__device__ bool linear_run_through(struct linear_run<Group, Places> *r)
{
    const struct spread_question *q = &r->base->question;
    if (!linear_begin(r)) return false;
    for (;;) {
        if (q->paths && r->hop > 0 && r->fresh > 0) linear_parents(r);
        if (r->touched > q->touched_max) {
            linear_trim(r);
            break;
        }
        if (r->hop == q->hops || r->active == 0) break;
        if (r->tally()->late) {
            r->truncated = true;
            break;
        }
        r->hop++;
        if (spread_is_first<Group>()) memset(&r->tallies[(r->hop + 1) % 3], 0, sizeof *r->tallies);
        if (!linear_hop(r)) return false; /* in spread_pull.cuh or spread_linear.cu */
    }
    linear_finish(r);
    return true;
}

#endif
