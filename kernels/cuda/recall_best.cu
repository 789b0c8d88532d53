/* recall_best: the best of what each list of cues recalled, chosen by a block: all records of its
 * spread, where seeds rank by their activation times the boost, and seeds that have no record. Few
 * candidates are sorted in shared memory; many are first narrowed by a radix selection, a byte of
 * (key, id) at a time. Keys and ids differ, so the result does not depend on the candidates' order.
 * Then every row of the collection looks for itself among the best, and a warp scores each. */
#include "kernels/cuda/prefix.cuh"
#include "kernels/cuda/recall.cuh"

enum {
    BEST_THREADS = 1024,
    BEST_BINS = 256,
    BEST_BYTES = 12, /* of key and id */
    BEST_SLOTS = 2048,
    /* So few are put in order by counting what is before each, and the rest of the place for
     * candidates is for the result. */
    BEST_FEW = 256,
    BEST_FEW_SHARE = BEST_THREADS / BEST_FEW, /* threads that count for one */
    ROW_THREADS = 256
};
static_assert(2 * BEST_FEW <= CUDA_RECALL_RESULTS_MAX, "there is room for both");
/* No strength has this key: it is not a candidate. */
static const uint32_t NO_KEY = UINT32_MAX, NO_PLACE = UINT32_MAX;

struct best_item {
    uint64_t id;
    uint32_t key;   /* rises from the best strength to the worst */
    uint32_t place; /* of a record; behind all records: of a seed */
};

struct best_shared {
    struct best_item sorted[CUDA_RECALL_RESULTS_MAX];
    uint32_t slots[BEST_SLOTS]; /* the list's seeds by node: place + 1; 0: empty */
    uint32_t bins[BEST_BINS];
    uint32_t digit, before, inside, taken, without;
};

/* The candidates of a list. */
struct best_list {
    const struct cuda_recall *call;
    const struct spread_record *records;
    uint32_t *record_keys, *seed_keys, *seed_places;
    const uint32_t *seed_nodes;
    const uint64_t *seed_ids;
    const float *activations;
    uint32_t *slots;
    uint32_t bits, count, seeds;
};

/* Strengths are finite and at least +0, so that their bits rise. */
__device__ __forceinline__ uint32_t key_of(float strength)
{
    return 0x7fffffffu - canonical_bits(strength);
}

__device__ __forceinline__ uint32_t seed_at(const struct best_list &l, uint32_t node)
{
    const uint32_t *nodes = l.seed_nodes;
    const uint32_t at =
        recall_find(l.slots, l.bits, node, [=](uint32_t other) { return nodes[other] == node; });
    return at == UINT32_MAX ? NO_PLACE : l.slots[at] - 1;
}

__device__ __forceinline__ uint32_t candidates_of(const struct best_list &l)
{
    return l.count + l.seeds;
}

__device__ __forceinline__ uint32_t candidate_key(const struct best_list &l, uint32_t i)
{
    return i < l.count ? l.record_keys[i] : l.seed_keys[i - l.count];
}

__device__ __forceinline__ uint64_t candidate_id(const struct best_list &l, uint32_t i)
{
    return i < l.count ? l.call->nodes[l.records[i].node] : l.seed_ids[i - l.count];
}

/* ---------------------------------------------------------------- keys */

/* Makes the table of the list's seeds by node. */
__device__ void note_seeds(struct best_list *l)
{
    for (uint32_t i = threadIdx.x; i < 1u << l->bits; i += BEST_THREADS)
        l->slots[i] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < l->seeds; i += BEST_THREADS) {
        l->seed_places[i] = NO_PLACE;
        if (l->seed_nodes[i] == SPREAD_NO_NODE) continue;
        recall_insert(l->slots, l->bits, l->seed_nodes[i], i, [](uint32_t) { return false; });
    }
    __syncthreads();
}

/* What every candidate ranks by. shared->without counts seeds that have no record. */
__device__ void rank_all(struct best_shared *shared, const struct best_list &l)
{
    const float boost = l.call->boost;
    for (uint32_t i = threadIdx.x; i < l.count; i += BEST_THREADS) {
        const struct spread_record r = l.records[i];
        const uint32_t seed = seed_at(l, r.node);
        if (seed != NO_PLACE) l.seed_places[seed] = i;
        l.record_keys[i] =
            key_of(seed == NO_PLACE ? r.activation : recall_strength(r.activation, boost));
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < l.seeds; i += BEST_THREADS) {
        const bool held = l.seed_places[i] != NO_PLACE;
        l.seed_keys[i] = held ? NO_KEY : key_of(recall_strength(l.activations[i], boost));
        if (!held) atomicAdd(&shared->without, 1u);
    }
    __syncthreads();
}

/* ---------------------------------------------------------------- the best of them */

__device__ __forceinline__ bool item_before(const struct best_item &a, const struct best_item &b)
{
    return a.key != b.key ? a.key < b.key : a.id < b.id;
}

/* Bitonic sort of the first `size` (a power of two, at most 2 * BEST_THREADS) items. */
__device__ void sort_items(struct best_item *items, uint32_t size)
{
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t gap = run / 2; gap > 0; gap /= 2) {
            __syncthreads();
            const uint32_t low = threadIdx.x / gap * gap * 2 + threadIdx.x % gap, high = low + gap;
            if (high >= size) continue;
            const struct best_item a = items[low], b = items[high];
            if (item_before(b, a) != ((low & run) == 0)) continue;
            items[low] = b;
            items[high] = a;
        }
    }
    __syncthreads();
}

/* -1, 0 or 1: how a candidate's first bytes compare with the prefix. */
__device__ __forceinline__ int compare(const struct best_list &l, uint32_t i,
                                       const struct rank_prefix &p)
{
    const uint32_t key_bits = p.bytes >= 4 ? 32 : 8 * p.bytes;
    const uint32_t key = key_bits ? candidate_key(l, i) >> (32 - key_bits) << (32 - key_bits) : 0;
    if (key != p.key || p.bytes <= 4) return key < p.key ? -1 : key > p.key;
    const uint32_t id_bits = 8 * (p.bytes - 4);
    const uint64_t id = candidate_id(l, i) >> (64 - id_bits) << (64 - id_bits);
    return id < p.id ? -1 : id > p.id;
}

__device__ __forceinline__ uint32_t byte_of(const struct best_list &l, uint32_t i, uint32_t at)
{
    return at < 4 ? candidate_key(l, i) >> (24 - 8 * at) & 255u
                  : (uint32_t)(candidate_id(l, i) >> (56 - 8 * (at - 4))) & 255u;
}

/* Extends the prefix by a byte: that of the rank-th of those that have it. */
__device__ void narrow(struct best_shared *shared, const struct best_list &l, struct rank_prefix *p,
                       uint32_t *rank)
{
    if (threadIdx.x < BEST_BINS) shared->bins[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < candidates_of(l); i += BEST_THREADS)
        if (candidate_key(l, i) != NO_KEY && compare(l, i, *p) == 0)
            atomicAdd(&shared->bins[byte_of(l, i, p->bytes)], 1u);
    prefix_extend(shared, p, rank);
}

/* Puts the best `wanted` of more candidates, and at most `room` with those behind them, or all of
 * them, into shared memory; returns how many came. */
__device__ uint32_t collect(struct best_shared *shared, const struct best_list &l, bool all,
                            uint32_t wanted, uint32_t room)
{
    struct rank_prefix p = {0, 0, 0};
    uint32_t rank = wanted;
    while (!all && p.bytes < BEST_BYTES && (p.bytes == 0 || wanted - rank + shared->inside > room))
        narrow(shared, l, &p, &rank);
    if (threadIdx.x == 0) shared->taken = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < candidates_of(l); i += BEST_THREADS) {
        if (candidate_key(l, i) == NO_KEY || (!all && compare(l, i, p) > 0)) continue;
        const uint32_t at = atomicAdd(&shared->taken, 1u);
        const struct best_item item = {candidate_id(l, i), candidate_key(l, i), i};
        if (at < CUDA_RECALL_RESULTS_MAX) shared->sorted[at] = item;
    }
    __syncthreads();
    return shared->taken < CUDA_RECALL_RESULTS_MAX ? shared->taken : CUDA_RECALL_RESULTS_MAX;
}

/* Puts up to BEST_FEW items in order, behind their places. */
__device__ void order_few(struct best_shared *shared, uint32_t count)
{
    const uint32_t i = threadIdx.x / BEST_FEW_SHARE, share = threadIdx.x % BEST_FEW_SHARE;
    const struct best_item own = shared->sorted[i < count ? i : 0];
    uint32_t before = 0;
    for (uint32_t k = share; k < count; k += BEST_FEW_SHARE)
        before += item_before(shared->sorted[k], own);
    for (int o = BEST_FEW_SHARE / 2; o > 0; o /= 2)
        before += __shfl_xor_sync(WARP, before, o);
    if (share == 0 && i < count) shared->sorted[BEST_FEW + before] = own;
    __syncthreads();
}

/* Sorts `count` items; returns where they lie then. */
__device__ const struct best_item *sort_all(struct best_shared *shared, uint32_t count)
{
    if (count <= BEST_FEW) {
        order_few(shared, count);
        return shared->sorted + BEST_FEW;
    }
    uint32_t size = 1;
    while (size < count)
        size *= 2;
    const struct best_item worst = {UINT64_MAX, NO_KEY, 0};
    for (uint32_t i = count + threadIdx.x; i < size; i += BEST_THREADS)
        shared->sorted[i] = worst;
    __syncthreads();
    sort_items(shared->sorted, size);
    return shared->sorted;
}

/* ---------------------------------------------------------------- paths */

/* A table of all of the list's records by node. */
__device__ void note_records(const struct best_list &l, uint32_t *trail, uint32_t bits)
{
    for (uint32_t i = threadIdx.x; i < 1u << bits; i += BEST_THREADS)
        trail[i] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < l.count; i += BEST_THREADS)
        recall_insert(trail, bits, l.records[i].node, i, [](uint32_t) { return false; });
    __syncthreads();
}

/* Walks from a record to a seed, and writes the nodes from there on. Returns how many. */
__device__ uint32_t write_path(const struct best_list &l, const uint32_t *trail, uint32_t bits,
                               uint32_t record, uint32_t *out)
{
    const struct spread_record *records = l.records;
    uint32_t length = 0;
    for (uint32_t at = record; length <= l.call->hops;) {
        const uint32_t parent = records[at].parent;
        out[length++] = records[at].node;
        if (parent == SPREAD_NO_NODE) break;
        const uint32_t slot = recall_find(
            trail, bits, parent, [=](uint32_t other) { return records[other].node == parent; });
        if (slot == UINT32_MAX) break;
        at = trail[slot] - 1;
    }
    for (uint32_t i = 0; i < length / 2; i++) {
        const uint32_t node = out[i];
        out[i] = out[length - 1 - i];
        out[length - 1 - i] = node;
    }
    return length;
}

/* ---------------------------------------------------------------- a list */

__device__ struct recall_entry entry_of(const struct best_list &l, const struct best_item &item)
{
    struct recall_entry e = {};
    e.id = item.id;
    if (item.place >= l.count) {
        e.activation = l.activations[item.place - l.count];
        e.marks = RECALL_SEED;
        return e;
    }
    const struct spread_record r = l.records[item.place];
    e.activation = r.activation;
    e.depth = r.depth;
    e.marks = RECALL_TOUCHED | (seed_at(l, r.node) == NO_PLACE ? 0 : RECALL_SEED);
    return e;
}

/* Writes the best, and puts them into the table in which rows look for themselves. */
__device__ void write_entries(const struct recall_job &job, const struct best_item *best,
                              const struct best_list &l, uint32_t list, uint32_t kept)
{
    const struct cuda_recall &r = job.call;
    const uint64_t base = (uint64_t)list * r.results;
    const uint32_t bits = recall_few_bits(l.count);
    uint32_t *trail = r.paths ? job.trails + 4 * r.sets[list].first_record : NULL;
    struct recall_entry *entries = r.entries;
    if (trail && l.count) note_records(l, trail, bits);
    for (uint32_t i = threadIdx.x; i < kept; i += BEST_THREADS) {
        const struct best_item item = best[i];
        struct recall_entry e = entry_of(l, item);
        uint32_t *path = trail ? r.path_nodes + (base + i) * (r.hops + 1ull) : NULL;
        if (path && item.place < l.count)
            e.path = (uint16_t)write_path(l, trail, bits, item.place, path);
        entries[base + i] = e;
        __threadfence(); /* before another block compares its id */
        job.entry_slots[base + i] =
            recall_insert(job.by_entry.entries, job.by_entry.bits, e.id, (uint32_t)(base + i),
                          [=](uint32_t other) {
                              __threadfence();
                              return __ldcg((const unsigned long long *)&entries[other].id) == e.id;
                          });
    }
}

__device__ struct best_list list_of(const struct recall_job *job, struct best_shared *shared,
                                    uint32_t list, const struct cuda_spread_set &set)
{
    const struct cuda_recall *r = &job->call;
    const uint64_t base = recall_cue(*r, list) * r->k;
    struct best_list l = {};
    l.call = r;
    l.records = r->records + set.first_record;
    l.record_keys = job->record_keys + set.first_record;
    l.seed_keys = job->seed_keys + base;
    l.seed_places = job->seed_places + base;
    l.seed_nodes = job->seed_nodes + base;
    l.seed_ids = r->seed_ids + base;
    l.activations = r->seed_activations + base;
    l.count = (uint32_t)set.record_count;
    l.seeds = job->seed_counts[list];
    l.bits = recall_few_bits(l.seeds);
    l.slots = 1u << l.bits <= BEST_SLOTS ? shared->slots : job->list_tables + 4 * base;
    return l;
}

__global__ void __launch_bounds__(BEST_THREADS) recall_best_kernel(const struct recall_job job)
{
    __shared__ struct best_shared shared;
    const uint32_t list = blockIdx.x;
    const struct cuda_spread_set set = job.call.sets[list];
    struct recall_outcome *outcome = &job.call.outcomes[list];
    if (set.no_memory || set.no_room) {
        if (threadIdx.x == 0) outcome->undone = 1;
        return;
    }
    if (threadIdx.x == 0) shared.without = 0;
    struct best_list l = list_of(&job, &shared, list, set);
    note_seeds(&l);
    rank_all(&shared, l);
    const uint32_t all = l.count + shared.without;
    const uint32_t kept = all < job.call.results ? all : job.call.results;
    const uint32_t room = kept <= BEST_FEW / 2 ? BEST_FEW : CUDA_RECALL_RESULTS_MAX;
    const struct best_item *best = shared.sorted;
    if (kept) best = sort_all(&shared, collect(&shared, l, all <= room, kept, room));
    write_entries(job, best, l, list, kept);
    if (threadIdx.x != 0) return;
    outcome->touched = set.record_count;
    outcome->kept = kept;
    outcome->hops = set.hops_done;
    outcome->truncated = set.truncated;
}

/* ---------------------------------------------------------------- scores */

/* Each row looks for itself among the best. */
__global__ void __launch_bounds__(ROW_THREADS) recall_rows_kernel(const struct recall_job job)
{
    const uint64_t row = (uint64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (row >= job.call.rows.count) return;
    const struct recall_entry *entries = job.call.entries;
    const uint64_t id = job.call.row_ids[row];
    const uint32_t at = recall_find(job.by_entry.entries, job.by_entry.bits, id,
                                    [=](uint32_t other) { return entries[other].id == id; });
    if (at != UINT32_MAX) job.by_entry.found[at] = (uint32_t)row + 1;
}

template <bool COMPENSATED>
__global__ void __launch_bounds__(ROW_THREADS) recall_scores_kernel(const struct recall_job job)
{
    const struct cuda_recall &r = job.call;
    const uint64_t warp = ((uint64_t)blockIdx.x * ROW_THREADS + threadIdx.x) / 32;
    if (warp == 0 && threadIdx.x == 0)
        r.times->best_ns = recall_now_ns() - *job.began - r.times->seeds_ns;
    const uint32_t list = (uint32_t)(warp / r.results), i = (uint32_t)(warp % r.results);
    if (list >= r.lists || i >= r.outcomes[list].kept) return;
    const uint32_t found = job.by_entry.found[job.entry_slots[warp]];
    const uint64_t stride = vector_stride(r.rows.dimension);
    float best = __uint_as_float(0x7fc00000u);
    const uint64_t first = recall_cue(r, list), end = found ? recall_cue(r, list + 1) : first;
    for (uint64_t cue = first; cue < end; cue++) {
        const float dot = sum_rows<32, false, COMPENSATED>(
            r.queries.rows + cue * stride, r.rows.rows + (found - 1) * stride, (uint32_t)stride);
        const float score = canonical_cosine(dot, r.queries.norms[cue], r.rows.norms[found - 1]);
        if (cue == first || best < score) best = score;
    }
    if (threadIdx.x % 32 == 0) r.entries[warp].score = best;
}

extern "C" int cuda_recall_best(const struct cuda_recall *r, struct CUstream_st *stream)
{
    if (r->lists == 0) return cudaSuccess;
    const struct recall_job job = recall_job_of(r);
    const unsigned blocks = blocks_for((uint64_t)r->lists * r->results, ROW_THREADS / 32);
    recall_best_kernel<<<r->lists, BEST_THREADS, 0, stream>>>(job);
    recall_rows_kernel<<<blocks_for(r->rows.count, ROW_THREADS), ROW_THREADS, 0, stream>>>(job);
    if (canonical_is_compensated(r->rows.dimension))
        recall_scores_kernel<true><<<blocks, ROW_THREADS, 0, stream>>>(job);
    else
        recall_scores_kernel<false><<<blocks, ROW_THREADS, 0, stream>>>(job);
    return cudaGetLastError();
}
