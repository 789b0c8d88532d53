/* cluster: rule centroid. A step is three launches: one block picks the best pair and makes its
 * members one list; their mean, 32 columns a block; and a scan of all centroids for the new one,
 * which tells it to their lists. Between launches everything is in VRAM, so a clustering stops and
 * goes on after any step, and other streams' kernels run between. */
#include "kernels/cuda/cluster.cuh"

enum {
    PICK_THREADS = 1024,
    COPY_EACH = 8,     /* numbers of a thread at once */
    COPY_ALONE = 1024, /* members that a warp copies by itself */
    NEAR_THREADS = 128
};

/* ---- lists of what cuda_topk found ---- */

__global__ void __launch_bounds__(NEAR_THREADS) cluster_near_kernel(const struct cluster_run r)
{
    const struct cuda_cluster &w = r.work;
    const uint32_t i = blockIdx.x * NEAR_THREADS + threadIdx.x;
    if (i >= w.some) return;
    const uint32_t slot = w.first + i, id = w.ids[slot], count = w.found_counts[i];
    struct cluster_near *near = &w.near[id];
    uint32_t kept = 0;
    cluster_near_clear(near);
    for (uint32_t n = 0; n < count && kept <= CLUSTER_NEAR_MAX; n++) {
        const uint64_t at = (uint64_t)i * CUDA_CLUSTER_FOUND + n;
        const uint32_t other = (uint32_t)w.found_ids[at];
        if (other == id) continue;
        const struct cluster_pair p = {w.found_scores[at], other, w.births[other]};
        if (kept < CLUSTER_NEAR_MAX)
            near->pairs[kept] = p;
        else
            near->bound = p;
        kept++;
    }
    near->count = kept < CLUSTER_NEAR_MAX ? kept : (uint32_t)CLUSTER_NEAR_MAX;
    w.bests[slot] = cluster_near_best(near, id, w.births);
}

/* ---- the pick ---- */

__device__ __forceinline__ struct cluster_key best_key(const struct cluster_best &b)
{
    struct cluster_key k;
    k.first = cluster_key_of(b.value, b.low);
    k.second = (uint64_t)b.high << 32 | (b.certain ? 0u : 1u);
    k.whose = b.owner;
    return k;
}

struct pick_room {
    struct cluster_key least[32];
    uint64_t keys[PICK_THREADS];
    uint32_t total, used;
};

__device__ __forceinline__ void put_near(const struct cuda_cluster &w, struct cluster_near *near,
                                         uint32_t rank, uint64_t key)
{
    const uint32_t id = (uint32_t)key;
    const struct cluster_pair p = {cluster_key_value(key), id, w.births[id]};
    if (rank < CLUSTER_NEAR_MAX)
        near->pairs[rank] = p;
    else if (rank == CLUSTER_NEAR_MAX)
        near->bound = p;
}

/* More than a block's threads: one after the other, each the least behind the last. */
__device__ void join_many(const struct cuda_cluster &w, uint32_t parts, struct cluster_near *near,
                          struct pick_room *room)
{
    uint64_t last = 0; /* no key is: scores are at most 1 */
    for (uint32_t rank = 0; rank <= CLUSTER_NEAR_MAX; rank++) {
        struct cluster_key k = cluster_key_none();
        for (uint32_t e = threadIdx.x; e < parts * CUDA_CLUSTER_PART_PAIRS; e += PICK_THREADS) {
            if (e % CUDA_CLUSTER_PART_PAIRS >= w.part_counts[e / CUDA_CLUSTER_PART_PAIRS]) continue;
            const uint64_t key = w.part_keys[e];
            if (key > last && key < k.first) k.first = key;
        }
        last = cluster_key_least(k, room->least).first;
        if (threadIdx.x == 0) put_near(w, near, rank, last);
    }
}

/* Makes the list of whom the last scan was for, of what its parts found. */
__device__ void join(const struct cuda_cluster &w, uint32_t parts, uint32_t slot,
                     struct pick_room *room)
{
    const uint32_t id = w.ids[slot], t = threadIdx.x;
    struct cluster_near *near = &w.near[id];
    if (t == 0) {
        room->total = 0;
        cluster_near_clear(near);
    }
    __syncthreads();
    const uint32_t count = t < parts ? w.part_counts[t] : 0;
    const uint32_t to = count ? atomicAdd(&room->total, count) : 0;
    for (uint32_t i = 0; i < count && to + i < PICK_THREADS; i++)
        room->keys[to + i] = w.part_keys[t * CUDA_CLUSTER_PART_PAIRS + i];
    __syncthreads();
    const uint32_t total = room->total;
    if (total > PICK_THREADS) {
        join_many(w, parts, near, room);
    } else if (t < total) {
        uint32_t rank = 0;
        for (uint32_t i = 0; i < total; i++)
            rank += room->keys[i] < room->keys[t];
        put_near(w, near, rank, room->keys[t]);
    }
    if (t == 0) near->count = total < CLUSTER_NEAR_MAX ? total : (uint32_t)CLUSTER_NEAR_MAX;
    __syncthreads();
    if (t == 0) w.bests[slot] = cluster_near_best(near, id, w.births);
    __syncthreads();
}

__device__ struct cluster_key best_of_all(const struct cuda_cluster &w, uint32_t parts,
                                          uint32_t slot, struct pick_room *room)
{
    struct cluster_key k = cluster_key_none();
    if (threadIdx.x < parts) k = best_key(w.part_bests[threadIdx.x]);
    if (threadIdx.x == CUDA_CLUSTER_PARTS_MAX && slot != CUDA_CLUSTER_NONE)
        k = best_key(w.bests[slot]);
    return cluster_key_least(k, room->least);
}

__device__ __forceinline__ uint32_t *half_of(const struct cuda_cluster &w, uint32_t half)
{
    return w.members + (uint64_t)half * CUDA_CLUSTER_HALF * w.count;
}

/* Copies with some loads in flight, by `threads` of which this one is `thread`. */
__device__ __forceinline__ void copy_numbers(const uint32_t *__restrict__ from,
                                             uint32_t *__restrict__ to, uint32_t count,
                                             uint32_t thread, uint32_t threads)
{
    uint32_t x[COPY_EACH];
    for (uint32_t first = thread; first < count; first += threads * COPY_EACH) {
#pragma unroll
        for (uint32_t k = 0; k < COPY_EACH; k++)
            if (first + k * threads < count) x[k] = from[first + k * threads];
#pragma unroll
        for (uint32_t k = 0; k < COPY_EACH; k++)
            if (first + k * threads < count) to[first + k * threads] = x[k];
    }
}

/* Copies what is alive of the members into the other half, a warp for each cluster, and those of
 * large ones with all. Returns how much that is. */
__device__ uint32_t collect(const struct cuda_cluster &w, uint32_t half, uint32_t live,
                            struct pick_room *room)
{
    const uint32_t *from = half_of(w, half), lane = threadIdx.x % 32;
    uint32_t *to = half_of(w, half ^ 1), *large = (uint32_t *)room->keys, at = 0;
    if (threadIdx.x == 0) room->used = room->total = 0;
    __syncthreads();
    for (uint32_t slot = threadIdx.x / 32; slot < live; slot += PICK_THREADS / 32) {
        const uint32_t id = w.ids[slot], size = w.sizes[id], first = w.firsts[id];
        if (lane == 0) at = atomicAdd(&room->used, size);
        at = __shfl_sync(WARP, at, 0);
        if (size < COPY_ALONE) {
            copy_numbers(from + first, to + at, size, lane, 32);
        } else if (lane == 0) { /* there are fewer than rows / COPY_ALONE of those */
            const uint32_t i = atomicAdd(&room->total, 1u);
            large[3 * i] = first, large[3 * i + 1] = at, large[3 * i + 2] = size;
        }
        __syncwarp();
        if (lane == 0) w.firsts[id] = at;
    }
    __syncthreads();
    for (uint32_t i = 0; i < room->total; i++)
        copy_numbers(from + large[3 * i], to + large[3 * i + 1], large[3 * i + 2], threadIdx.x,
                     PICK_THREADS);
    __syncthreads();
    return room->used;
}

/* Returns how many of count rising numbers are below x. */
__device__ __forceinline__ uint32_t below(const uint32_t *numbers, uint32_t count, uint32_t x)
{
    uint32_t low = 0;
    while (low < count) {
        const uint32_t middle = (low + count) / 2;
        if (numbers[middle] < x)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

__device__ void spread_out(const uint32_t *__restrict__ numbers, uint32_t count,
                           const uint32_t *__restrict__ others, uint32_t other_count,
                           uint32_t *__restrict__ to)
{
    uint32_t x[COPY_EACH], at[COPY_EACH];
    for (uint32_t first = threadIdx.x; first < count; first += PICK_THREADS * COPY_EACH) {
#pragma unroll
        for (uint32_t k = 0; k < COPY_EACH; k++)
            x[k] = first + k * PICK_THREADS < count ? numbers[first + k * PICK_THREADS] : 0;
#pragma unroll
        for (uint32_t k = 0; k < COPY_EACH; k++)
            at[k] = first + k * PICK_THREADS + below(others, other_count, x[k]);
#pragma unroll
        for (uint32_t k = 0; k < COPY_EACH; k++)
            if (first + k * PICK_THREADS < count) to[at[k]] = x[k];
    }
}

/* Puts the members of low and high into one list. */
__device__ void link_members(const struct cuda_cluster &w, struct cuda_cluster_state *s,
                             uint32_t low, uint32_t high, struct pick_room *room)
{
    const uint32_t a = w.sizes[low], b = w.sizes[high];
    uint32_t half = s->half, used = s->used;
    if (used + a + b > CUDA_CLUSTER_HALF * w.count) {
        used = collect(w, half, s->live, room);
        half ^= 1;
    }
    uint32_t *members = half_of(w, half);
    const uint32_t *of_low = members + w.firsts[low], *of_high = members + w.firsts[high];
    spread_out(of_low, a, of_high, b, members + used);
    spread_out(of_high, b, of_low, a, members + used);
    __syncthreads();
    if (threadIdx.x != 0) return;
    const uint32_t same = s->kept == low ? below(of_low, a, of_high[0]) : 0;
    s->begins = (same < a ? same : a - 1) / CUDA_CLUSTER_PART; /* sums are kept before a member */
    if (a + b > 2 * CUDA_CLUSTER_PART) s->kept = low;
    w.firsts[low] = used;
    w.sizes[low] = s->size = a + b;
    s->half = half;
    s->used = used + a + b;
}

/* The last slot's cluster moves to this one. */
__device__ void free_slot(const struct cluster_run &r, uint32_t slot, uint32_t last)
{
    const struct cuda_cluster &w = r.work;
    if (slot == last) return;
    for (uint32_t c = threadIdx.x; c < r.stride; c += blockDim.x)
        w.rows[(uint64_t)slot * r.stride + c] = w.rows[(uint64_t)last * r.stride + c];
    if (threadIdx.x != 0) return;
    const uint32_t id = w.ids[last];
    w.norms[slot] = w.norms[last];
    w.bests[slot] = w.bests[last];
    w.ids[slot] = id;
    w.at[id] = slot;
}

__device__ void merge(const struct cluster_run &r, uint32_t low, uint32_t high,
                      struct pick_room *room)
{
    const struct cuda_cluster &w = r.work;
    struct cuda_cluster_state *s = w.state;
    const uint32_t slot = w.at[high], last = s->live - 1;
    link_members(w, s, low, high, room);
    free_slot(r, slot, last);
    __syncthreads();
    if (threadIdx.x != 0) return;
    const struct cuda_cluster_merge merged = {low, high};
    w.window[s->merges - w.merges] = merged;
    w.births[low] = ++s->merges;
    w.births[high] = CLUSTER_GONE;
    s->live = last;
    s->slot = w.at[low];
    s->merged = 1;
    s->low = low;
    s->high = high;
}

__global__ void __launch_bounds__(PICK_THREADS) cluster_pick_kernel(const struct cluster_run r)
{
    __shared__ struct pick_room room;
    const struct cuda_cluster &w = r.work;
    struct cuda_cluster_state *s = w.state;
    const uint32_t ended = s->ended, parts = s->parts, slot = s->slot;
    if (ended) return;
    if (slot != CUDA_CLUSTER_NONE) join(w, parts, slot, &room);
    const struct cluster_key k = best_of_all(w, parts, slot, &room);
    const bool none = k.first == ~0ull || cluster_key_value(k.first) == -INFINITY;
    __syncthreads(); /* all have read the state */
    if (none) {
        if (threadIdx.x == 0) s->ended = 1;
    } else if (k.second & 1) {
        if (threadIdx.x != 0) return;
        s->slot = w.at[k.whose];
        s->merged = 0;
        s->scans++;
    } else {
        merge(r, (uint32_t)k.first, (uint32_t)(k.second >> 32), &room);
        if (threadIdx.x == 0) s->scans++;
    }
}

/* ---- the scan ---- */

struct scan_room {
    struct cluster_key least[32];
    float scores[CUDA_CLUSTER_PART_SLOTS_MAX];
    uint64_t keys[CUDA_CLUSTER_PART_SLOTS_MAX];
    uint32_t reached;
    float norm;
};

/* Tells one slot of the cluster that is scanned for. */
__device__ __forceinline__ void tell(const struct cuda_cluster &w,
                                     const struct cuda_cluster_state *s, uint32_t slot, float score)
{
    const uint32_t id = w.ids[slot], own = s->low;
    const bool reaches = score >= w.threshold;
    struct cluster_best *best = &w.bests[slot];
    if (reaches) {
        const struct cluster_pair p = {score, own, w.births[own]};
        cluster_near_offer(&w.near[id], p, w.births);
    }
    const uint32_t other = best->low == id ? best->high : best->low;
    const bool gone = best->certain && (other == s->low || other == s->high);
    if (reaches || gone) *best = cluster_near_best(&w.near[id], id, w.births);
}

/* Scores slots [first, end) against the one that is scanned for. */
template <int GROUP, bool COMPENSATED>
__device__ void score_slots(const struct cluster_run &r, uint32_t own, uint32_t first, uint32_t end,
                            struct scan_room *room)
{
    const struct cuda_cluster &w = r.work;
    const float *query = w.rows + (uint64_t)own * r.stride;
    if (threadIdx.x < 32) {
        const float square = sum_rows<32, false, COMPENSATED>(query, query, r.stride);
        if (threadIdx.x == 0) room->norm = cluster_norm(canonical_norm(square));
    }
    __syncthreads();
    const float norm = room->norm;
    for (uint32_t from = first; from < end; from += SUMS_THREADS / GROUP) {
        const uint32_t slot = from + threadIdx.x / GROUP, at = slot < end ? slot : end - 1;
        const float dot =
            sum_rows<GROUP, false, COMPENSATED>(query, w.rows + (uint64_t)at * r.stride, r.stride);
        if (slot < end && threadIdx.x % GROUP == 0)
            room->scores[slot - first] = canonical_cosine(dot, norm, w.norms[slot]);
    }
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x == 0 && w.state->merged) w.norms[own] = norm;
}

/* Leaves the part's keys that may be among the nearest, in order. */
__device__ void leave_keys(const struct cuda_cluster &w, struct scan_room *room)
{
    const uint32_t reached = room->reached;
    for (uint32_t i = threadIdx.x; i < reached; i += SUMS_THREADS) {
        uint32_t rank = 0;
        for (uint32_t k = 0; k < reached; k++)
            rank += room->keys[k] < room->keys[i];
        if (rank < CUDA_CLUSTER_PART_PAIRS)
            w.part_keys[blockIdx.x * CUDA_CLUSTER_PART_PAIRS + rank] = room->keys[i];
    }
    if (threadIdx.x == 0)
        w.part_counts[blockIdx.x] =
            reached < CUDA_CLUSTER_PART_PAIRS ? reached : (uint32_t)CUDA_CLUSTER_PART_PAIRS;
}

/* fresh: there is nothing to score, only the best of all is wanted. */
template <int GROUP, bool COMPENSATED>
__global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS)
    cluster_scan_kernel(const struct cluster_run r, bool fresh)
{
    __shared__ struct scan_room room;
    const struct cuda_cluster &w = r.work;
    struct cuda_cluster_state *s = w.state;
    if (s->ended) return;
    const uint32_t live = s->live, own = fresh ? CUDA_CLUSTER_NONE : s->slot;
    const uint32_t each = (live + gridDim.x - 1) / gridDim.x;
    const uint32_t first = blockIdx.x * each;
    const uint32_t end = first + each < live ? first + each : live;
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) s->parts = (live + each - 1) / each;
        room.reached = 0;
    }
    if (first >= live) return;
    if (own != CUDA_CLUSTER_NONE) score_slots<GROUP, COMPENSATED>(r, own, first, end, &room);
    struct cluster_key k = cluster_key_none();
    for (uint32_t slot = first + threadIdx.x; slot < end; slot += SUMS_THREADS) {
        if (slot == own) continue;
        if (own != CUDA_CLUSTER_NONE) {
            const float score = room.scores[slot - first];
            if (score >= w.threshold)
                room.keys[atomicAdd(&room.reached, 1u)] = cluster_key_of(score, w.ids[slot]);
            if (s->merged) tell(w, s, slot, score);
        }
        const struct cluster_key own_key = best_key(w.bests[slot]);
        if (cluster_key_before(own_key, k)) k = own_key;
    }
    k = cluster_key_least(k, room.least);
    if (own != CUDA_CLUSTER_NONE) leave_keys(w, &room);
    if (threadIdx.x != 0) return;
    struct cluster_best best = {-INFINITY, 0, 0, 0, false};
    if (k.first != ~0ull) {
        best.value = cluster_key_value(k.first);
        best.low = (uint32_t)k.first;
        best.high = (uint32_t)(k.second >> 32);
        best.owner = k.whose;
        best.certain = !(k.second & 1);
    }
    w.part_bests[blockIdx.x] = best;
}

/* ---- launching ---- */

/* Parts are as many as fill the device at once, and no smaller than a block's warps like. */
static unsigned scan_blocks(const struct cuda_cluster &w)
{
    enum { LEAST = 8 };
    const unsigned blocks = blocks_for(w.live, LEAST);
    return blocks < CUDA_CLUSTER_PARTS_MAX ? blocks : (unsigned)CUDA_CLUSTER_PARTS_MAX;
}

static void scan_launch(const struct cluster_run &r, bool fresh, cudaStream_t stream)
{
    const unsigned blocks = scan_blocks(r.work);
    const bool compensated = canonical_is_compensated(r.rows.dimension);
    const bool wide = r.work.live < SUMS_WIDE_BELOW;
    if (wide && compensated)
        cluster_scan_kernel<32, true><<<blocks, SUMS_THREADS, 0, stream>>>(r, fresh);
    else if (wide)
        cluster_scan_kernel<32, false><<<blocks, SUMS_THREADS, 0, stream>>>(r, fresh);
    else if (compensated)
        cluster_scan_kernel<8, true><<<blocks, SUMS_THREADS, 0, stream>>>(r, fresh);
    else
        cluster_scan_kernel<8, false><<<blocks, SUMS_THREADS, 0, stream>>>(r, fresh);
}

static int merge_launch(const struct cluster_run &r, cudaStream_t stream)
{
    if (r.work.fresh) scan_launch(r, true, stream);
    for (uint32_t step = 0; step < r.work.steps; step++) {
        cluster_pick_kernel<<<1, PICK_THREADS, 0, stream>>>(r);
        (void)cluster_mean_launch(r, stream);
        scan_launch(r, false, stream);
    }
    return cudaGetLastError();
}

extern "C" int cuda_cluster(const struct cuda_rows *rows, const struct cuda_cluster *work,
                            struct CUstream_st *stream)
{
    const struct cluster_run r = {*rows, *work, (uint32_t)vector_stride(rows->dimension)};
    if (!work->count) return cudaSuccess;
    switch (work->stage) {
    case CUDA_CLUSTER_BEGIN: return cluster_begin_launch(r, stream);
    case CUDA_CLUSTER_NEAR:
        if (work->some)
            cluster_near_kernel<<<blocks_for(work->some, NEAR_THREADS), NEAR_THREADS, 0, stream>>>(
                r);
        return cudaGetLastError();
    case CUDA_CLUSTER_MERGE: return merge_launch(r, stream);
    case CUDA_CLUSTER_AGAIN: return cluster_again_launch(r, stream);
    case CUDA_CLUSTER_PAIRS:
    case CUDA_CLUSTER_ADD: return cluster_average_launch(r, stream);
    }
    return cudaErrorInvalidValue;
}
