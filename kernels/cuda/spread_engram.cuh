/* spread_engram: mode engram, run by the grid or by a block, level by level. Contributions are
 * counted for each target, which reserves places for them; written there; sorted, the largest
 * first; and visited one by one (spread_visit), by a thread, or by a warp that reads ahead.
 * Between levels all counts are zero. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_ENGRAM_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_ENGRAM_CUH

#include "kernels/cuda/spread_similar.cuh"
#include "kernels/cuda/spread_sort.cuh"
#include "kernels/cuda/spread_visits.cuh"

/* An expansion: a node and the gain that it passes on. */
struct engram_gain {
    uint32_t place;
    float gain;
};

/* Arrays over places (spread_places.cuh); lists contain places. */
struct engram_slot {
    struct spread_record *records; /* visits 0: not touched, and all zero */
    uint32_t *counts;              /* contributions to it in this level */
    uint32_t *ends;                /* where they begin; once they are written, where they end */
    uint32_t *touched, *targets;
    struct engram_gain *gains;
    unsigned long long *contributions[2];
    uint32_t contributions_room;
    uint32_t *bigs; /* targets with more than SPREAD_SMALL contributions */
    struct spread_run_of *runs;
    struct spread_chunk *chunks;
    unsigned *bins;
    struct spread_hash hash; /* only for a block */
};

struct engram_job {
    struct spread_base base;
    struct engram_slot grid;
};

/* The state of a run that all threads of a group have. */
template <class Group, class Places> struct engram_run {
    const struct spread_base *base;
    const struct engram_slot *slot;
    struct spread_shared *shared;
    struct spread_tally *tallies;
    Places places;
    uint32_t prepared; /* places of a block whose arrays are zeroed */
    uint32_t set, level, hops_done;
    /* expansions; nodes first touched in this level; all touched nodes */
    uint32_t active, fresh, touched;
    uint64_t contributions; /* of the next level, an upper bound */
    uint64_t cycles;
    uint64_t started_ns;
    bool truncated, no_memory;

    __device__ struct spread_tally *tally()
    {
        return &tallies[level % 3];
    }
};

/* Makes room for a level. False: it is too large for this group. Syncs before and after. */
template <class Places>
__device__ bool engram_prepare(struct engram_run<spread_block_group, Places> *r)
{
    const struct engram_slot *s = r->slot;
    const uint64_t more = r->contributions;
    const uint32_t given = *r->places.count;
    if (given + more > r->places.hash.room || more > r->base->slot_edges) return false;
    const uint32_t end = given + (uint32_t)more;
    for (uint32_t p = r->prepared + threadIdx.x; p < end; p += SPREAD_THREADS) {
        struct spread_record none = {};
        s->records[p] = none;
        s->counts[p] = 0;
    }
    if (end > r->prepared) r->prepared = end;
    r->places.grow(end);
    __syncthreads();
    return true;
}

template <class Places>
__device__ bool engram_prepare(struct engram_run<spread_grid_group, Places> *r)
{
    r->no_memory = r->contributions > r->slot->contributions_room;
    return !r->no_memory;
}

/* ---------------------------------------------------------------- contributions */

template <class Run>
__device__ __forceinline__ float engram_contribution(const Run *r, const struct spread_sender &from,
                                                     struct spread_edge e)
{
    const struct spread_graph *g = &r->base->graph;
    const struct spread_question *q = &r->base->question;
    const uint32_t source_kind = g->kinds ? __ldg(&g->kinds[from.node]) : SPREAD_PLAIN;
    const uint32_t target_kind = g->kinds ? __ldg(&g->kinds[e.node]) : SPREAD_PLAIN;
    const float direction = q->ignore_kinds ? 1.0f : spread_direction(source_kind, target_kind);
    const float weight = spread_weight(e.weight, direction, q->fan, source_kind, from.count,
                                       spread_factor_of(g, from.node));
    return spread_contribution(from.amount, weight, spread_decay_at(q, r->level));
}

template <class Group, class Places>
__device__ __forceinline__ bool engram_may_be_similar(const struct engram_run<Group, Places> *r)
{
    return Places::SIMILAR && r->level == SPREAD_SIMILAR_DEPTH + 1;
}

/* Counts one more contribution for the target. All lanes of the warp call it. */
template <class Group, class Places>
__device__ __forceinline__ void engram_count(struct engram_run<Group, Places> *r, uint32_t target,
                                             bool valid)
{
    uint32_t place = 0;
    bool first = false;
    if (valid && spread_allows(r->base->question.allowed, target)) {
        place = r->places.take(target);
        first = atomicAdd(&r->slot->counts[place], 1u) == 0;
    }
    __syncwarp();
    spread_append(r->slot->targets, &r->tally()->candidates, place, first);
}

template <class Group, class Places>
__device__ __forceinline__ void engram_put(struct engram_run<Group, Places> *r, uint32_t target,
                                           float contribution, uint32_t source)
{
    if (!spread_allows(r->base->question.allowed, target)) return;
    const uint32_t at = atomicAdd(&r->slot->ends[r->places.find(target)], 1u);
    r->slot->contributions[0][at] = spread_sort_key(contribution, source);
}

/* The same in a level in which similarity may take the place of weights. All lanes of the warp call
 * it; valid: the lane has an edge. */
template <class Group, class Places>
__device__ void engram_put_similar(struct engram_run<Group, Places> *r,
                                   const struct spread_sender &from, struct spread_edge e,
                                   bool valid)
{
    const struct spread_base *b = r->base;
    const bool replaced =
        valid && b->similar.replaced[from.node] && spread_allows(b->question.allowed, e.node);
    const float cosine = similar_cosines(&b->similar, from.node, e.node, replaced);
    if (!valid) return;
    float contribution = 0.0f;
    if (replaced) {
        const float weight = spread_similar_weight(cosine, b->question.thresholds[SPREAD_HOT],
                                                   spread_factor_of(&b->graph, from.node));
        contribution =
            spread_contribution(from.amount, weight, spread_decay_at(&b->question, r->level));
    } else {
        contribution = engram_contribution(r, from, e);
    }
    engram_put(r, e.node, contribution, from.node);
}

/* Walks over all contributions: puts false counts them, true writes them to their places. Ends
 * with a sync. */
template <class Group, class Places>
__device__ void engram_walk_seeds(struct engram_run<Group, Places> *r, bool puts)
{
    const uint64_t first = r->base->set_offsets[r->set];
    const uint32_t count = (uint32_t)r->contributions;
    for (uint32_t i0 = spread_warp<Group>() * 32; i0 < count; i0 += spread_threads<Group>()) {
        const uint32_t i = i0 + spread_lane();
        struct spread_seed seed = {0, 0.0f};
        if (i < count) seed = r->base->question.seeds[first + i];
        if (!puts)
            engram_count(r, seed.node, i < count);
        else if (i < count)
            engram_put(r, seed.node, seed.activation, SPREAD_NO_NODE);
        __syncwarp();
    }
    Group::sync();
}

template <class Group, class Places>
__device__ void engram_walk_edges(struct engram_run<Group, Places> *r, bool puts)
{
    const struct engram_slot *s = r->slot;
    const struct spread_graph *g = &r->base->graph;
    struct spread_tally *t = r->tally();
    auto sender = [&](uint32_t i) {
        const struct engram_gain gain = s->gains[i];
        const uint32_t node = r->places.node(gain.place);
        const struct spread_list list = spread_list_of(g->out, node);
        struct spread_sender one = {list.first, list.count, node, gain.gain};
        return one;
    };
    auto visit = [&](const struct spread_sender &from, struct spread_edge e, bool valid) {
        if (!puts)
            engram_count(r, e.node, valid);
        else if (engram_may_be_similar(r))
            engram_put_similar(r, from, e, valid);
        else if (valid)
            engram_put(r, e.node, engram_contribution(r, from, e), from.node);
        __syncwarp();
    };
    /* The first walk queues long lists. */
    spread_each_edge<Group>(g->out_edges, r->active, s->chunks, puts ? NULL : &t->chunks, sender,
                            visit);
    if (!puts) Group::sync();
    const uint32_t chunks = t->chunks;
    if (chunks || puts) {
        spread_each_chunk<Group>(g->out_edges, s->chunks, chunks, sender, visit);
        Group::sync();
    }
}

/* Reserves places for the contributions of each target. Ends with a sync. */
template <class Group, class Places>
__device__ void engram_place(struct engram_run<Group, Places> *r)
{
    const struct engram_slot *s = r->slot;
    struct spread_tally *t = r->tally();
    const uint32_t count = t->candidates;
    for (uint32_t i0 = spread_warp<Group>() * 32; i0 < count; i0 += spread_threads<Group>()) {
        const bool is = i0 + spread_lane() < count;
        const uint32_t place = is ? s->targets[i0 + spread_lane()] : 0;
        const uint32_t many = is ? s->counts[place] : 0;
        uint32_t end = many;
        for (int o = 1; o < 32; o *= 2) {
            const uint32_t before = __shfl_up_sync(SPREAD_ALL, end, o);
            if (spread_lane() >= (unsigned)o) end += before;
        }
        unsigned long long base = 0;
        if (spread_lane() == 31) base = atomicAdd(&t->contributions, (unsigned long long)end);
        base = __shfl_sync(SPREAD_ALL, base, 31);
        if (is) s->ends[place] = (uint32_t)base + end - many;
        spread_append(s->bigs, &t->bigs, place, many > SPREAD_SMALL);
        if (many > SPREAD_SMALL) {
            spread_queue_runs(s->runs, &t->pieces, place, many);
            if (many > SPREAD_RUN) atomicMax(&t->longest, many);
        }
        __syncwarp();
    }
    Group::sync();
}

/* ---------------------------------------------------------------- visits */

/* Appends the results of the lanes' targets (is: the lane has one) to the shared lists. */
template <class Group, class Places>
__device__ __forceinline__ void engram_settle(struct engram_run<Group, Places> *r, uint32_t place,
                                              const struct engram_outcome &o, bool is, bool fresh)
{
    const struct engram_slot *s = r->slot;
    struct spread_tally *t = r->tally();
    if (is) s->counts[place] = 0;
    if (is && o.record.visits) s->records[place] = o.record;
    spread_append(s->touched + r->touched, &t->fresh, place, is && fresh && o.record.visits);
    uint32_t end = is ? o.gained : 0;
    for (int d = 1; d < 32; d *= 2) {
        const uint32_t before = __shfl_up_sync(SPREAD_ALL, end, d);
        if (spread_lane() >= (unsigned)d) end += before;
    }
    uint32_t base = 0;
    if (spread_lane() == 31 && end) base = atomicAdd(&t->active, end);
    base = __shfl_sync(SPREAD_ALL, base, 31) + end - (is ? o.gained : 0);
#pragma unroll
    for (uint32_t n = 0; n < 3; n++) {
        if (!is || n >= o.gained) continue;
        struct engram_gain gain = {place, o.gains[n]};
        s->gains[base + n] = gain;
    }
}

struct engram_counts {
    uint64_t edges, cycles;
    uint32_t visited;
};

__device__ __forceinline__ void engram_count_outcome(const struct spread_graph *g,
                                                     const struct engram_outcome &o, bool visited,
                                                     struct engram_counts *counts)
{
    counts->cycles += o.cycles;
    counts->visited |= visited;
    if (o.gained) counts->edges += (uint64_t)o.gained * spread_list_of(g->out, o.record.node).count;
}

/* Visits targets with few contributions, one a thread, which also sorts them. */
template <class Group, class Places>
__device__ void engram_visit_small(struct engram_run<Group, Places> *r,
                                   struct engram_counts *counts)
{
    const struct engram_slot *s = r->slot;
    const struct spread_graph *g = &r->base->graph;
    const uint32_t count = r->tally()->candidates;
    for (uint32_t i0 = spread_warp<Group>() * 32; i0 < count; i0 += spread_threads<Group>()) {
        const bool in = i0 + spread_lane() < count;
        const uint32_t place = in ? s->targets[i0 + spread_lane()] : 0;
        const uint32_t many = in ? s->counts[place] : 0;
        /* 0: a target with many, which is done already */
        const bool is = many > 0 && many <= SPREAD_SMALL;
        struct engram_outcome o = {};
        bool fresh = false;
        if (is) {
            unsigned long long *c = s->contributions[0] + (s->ends[place] - many);
            spread_sort_few(c, many);
            o.record = s->records[place];
            fresh = o.record.visits == 0;
            bool visited = false;
            for (uint32_t n = 0; n < many; n++) {
                if (!engram_visit(r, &o, spread_sort_value(c[n]))) break;
                visited = true;
            }
            if (fresh) {
                uint64_t id;
                o.record.node = r->places.node(place);
                o.record.parent = r->base->question.paths
                                      ? engram_lowest(c, many, 0, 1, g->ids, &id)
                                      : SPREAD_NO_NODE;
            }
            engram_count_outcome(g, o, visited, counts);
        }
        __syncwarp();
        engram_settle(r, place, o, is, fresh);
    }
}

/* Visits a target by a whole warp: the lanes read ahead, and all of them compute the same. */
template <class Group, class Places>
__device__ void engram_visit_bigs(struct engram_run<Group, Places> *r, int side,
                                  struct engram_counts *counts)
{
    const struct engram_slot *s = r->slot;
    const struct spread_graph *g = &r->base->graph;
    const unsigned lane = spread_lane();
    const uint32_t bigs = r->tally()->bigs;
    for (uint32_t b = spread_warp<Group>(); b < bigs; b += spread_warps<Group>()) {
        const uint32_t place = s->bigs[b], many = s->counts[place];
        const unsigned long long *c =
            s->contributions[many > SPREAD_RUN ? side : 0] + (s->ends[place] - many);
        struct engram_outcome o = {};
        o.record = s->records[place];
        const bool fresh = o.record.visits == 0;
        bool counting = true, visited = false;
        unsigned long long next = lane < many ? c[lane] : 0;
        for (uint32_t n0 = 0; n0 < many && counting; n0 += 32) {
            const unsigned long long now = next;
            next = n0 + 32 + lane < many ? c[n0 + 32 + lane] : 0;
            const uint32_t here = many - n0 < 32 ? many - n0 : 32;
            for (uint32_t n = 0; n < here && counting; n++) {
                counting = engram_visit(r, &o, spread_sort_value(__shfl_sync(SPREAD_ALL, now, n)));
                visited |= counting;
            }
        }
        if (fresh) {
            uint64_t id = UINT64_MAX;
            uint32_t node = SPREAD_NO_NODE;
            if (r->base->question.paths) node = engram_lowest(c, many, lane, 32, g->ids, &id);
            for (int d = 16; d > 0; d /= 2) {
                const uint64_t other = __shfl_xor_sync(SPREAD_ALL, (unsigned long long)id, d);
                const uint32_t whose = __shfl_xor_sync(SPREAD_ALL, node, d);
                if (other < id) node = whose, id = other;
            }
            o.record.node = r->places.node(place);
            o.record.parent = node;
        }
        if (lane == 0) engram_count_outcome(g, o, visited, counts);
        __syncwarp();
        engram_settle(r, place, o, lane == 0, fresh);
    }
}

/* Ends with a sync; the run then has the totals of the tally. */
template <class Group, class Places>
__device__ void engram_end_level(struct engram_run<Group, Places> *r,
                                 const struct engram_counts *counts)
{
    spread_count(r->shared, 0, counts->edges);
    spread_count(r->shared, 1, counts->cycles);
    spread_count(r->shared, 2, counts->visited);
    __syncthreads();
    struct spread_tally *t = r->tally();
    if (threadIdx.x == 0) {
        const unsigned long long edges = spread_counted(r->shared, 0);
        const unsigned long long cycles = spread_counted(r->shared, 1);
        const unsigned visited = (unsigned)spread_counted(r->shared, 2);
        if (edges) atomicAdd(&t->edges, edges);
        if (cycles) atomicAdd(&t->cycles, cycles);
        if (visited) atomicAdd(&t->visited, visited);
        if (Group::block() == 0 && r->base->time_ns &&
            spread_now_ns() - r->started_ns >= r->base->time_ns)
            t->late = 1;
    }
    Group::sync();
    r->active = t->active;
    r->fresh = t->fresh;
    r->touched += r->fresh;
    r->contributions = t->edges;
    r->cycles += t->cycles;
    if (t->visited) r->hops_done = r->level;
}

/* False: the level is too large for this group. */
template <class Group, class Places>
__device__ bool engram_level(struct engram_run<Group, Places> *r)
{
    if (!engram_prepare(r)) return false;
    const struct engram_slot *s = r->slot;
    if (engram_may_be_similar(r)) similar_note_all<Group>(r);
    if (r->level == 0)
        engram_walk_seeds(r, false);
    else
        engram_walk_edges(r, false);
    engram_place(r);
    if (r->level == 0)
        engram_walk_seeds(r, true);
    else
        engram_walk_edges(r, true);
    const struct spread_tally *t = r->tally();
    struct spread_segments segments = {s->counts, s->ends, s->runs, t->pieces, t->longest};
    const int side = spread_sort_runs<Group>(r->shared, segments, s->contributions);
    struct engram_counts counts = {0, 0, 0};
    engram_visit_bigs(r, side, &counts);
    engram_visit_small(r, &counts);
    engram_end_level(r, &counts);
    return true;
}

/* ---------------------------------------------------------------- bounds, and the outcome */

/* Drops the fresh nodes with the highest ids until the bound is met. */
template <class Group, class Places>
__device__ void engram_trim(struct engram_run<Group, Places> *r)
{
    const struct engram_slot *s = r->slot;
    const uint64_t over = r->touched - r->base->question.touched_max;
    const uint64_t keep = over < r->fresh ? r->fresh - over : 0;
    const uint32_t *fresh = s->touched + (r->touched - r->fresh);
    auto id = [&](uint32_t i, uint64_t *value) {
        *value = r->base->graph.ids[r->places.node(fresh[i])];
        return true;
    };
    const uint64_t last = keep ? spread_lowest<Group>(s->bins, keep, r->fresh, id) : 0;
    for (uint32_t i = spread_thread<Group>(); i < r->fresh; i += spread_threads<Group>()) {
        uint64_t value;
        id(i, &value);
        if (keep == 0 || value > last) s->records[fresh[i]].visits = 0;
    }
    Group::sync();
    r->truncated = true;
}

/* Writes the result. Does not end with a sync. */
template <class Group, class Places>
__device__ void engram_finish(struct engram_run<Group, Places> *r)
{
    const struct engram_slot *s = r->slot;
    const uint32_t count = r->no_memory ? 0 : r->touched;
    const uint64_t most = r->base->question.touched_max;
    struct cuda_spread_set outcome = {};
    outcome.cycles = r->cycles;
    outcome.hops_done = r->hops_done;
    outcome.truncated = r->truncated;
    outcome.no_memory = r->no_memory;
    auto is = [&](uint32_t i) { return s->records[s->touched[i]].visits != 0; };
    auto record = [&](uint32_t i) { return s->records[s->touched[i]]; };
    spread_finish_set<Group>(r->base, r->shared, r->set, &r->tallies[(r->level + 1) % 3].records,
                             count < most ? count : most, count, is, record, outcome);
}

/* ---------------------------------------------------------------- a run */

/* False: the set is too large for this group. */
template <class Group, class Places>
__device__ bool engram_run_through(struct engram_run<Group, Places> *r)
{
    const struct spread_question *q = &r->base->question;
    const struct spread_base *b = r->base;
    if (spread_is_first<Group>()) memset(r->tallies, 0, 3 * sizeof *r->tallies);
    Group::sync();
    r->contributions = b->set_ends[r->set] - b->set_offsets[r->set];
    while (engram_level(r)) {
        if (r->touched > q->touched_max)
            engram_trim(r);
        else if (r->active > 0 && r->tally()->late)
            r->truncated = true;
        if (r->truncated || r->active == 0 || r->level == q->hops) {
            engram_finish(r);
            return true;
        }
        r->level++;
        if (spread_is_first<Group>())
            memset(&r->tallies[(r->level + 1) % 3], 0, sizeof *r->tallies);
    }
    if (r->no_memory) engram_finish(r);
    return r->no_memory;
}

#endif
