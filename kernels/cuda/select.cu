/* select: the k best by (key, id) of one query's candidates, selected by one block. Few candidates
 * are sorted in shared memory; many are first narrowed by a radix selection, a byte of (key, id)
 * at a time. All (key, id) pairs differ, so the result does not depend on the candidates' order. */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/prefix.cuh"

enum { SELECT_THREADS = 1024, SELECT_BINS = 256, SELECT_BYTES = 12 /* of key and id */ };

struct select_shared {
    struct topk_entry sorted[SELECT_SORT_MAX];
    uint32_t bins[SELECT_BINS];
    uint32_t digit, before, inside; /* the chosen bin; candidates before it and in it */
    uint32_t taken;
};

/* Returns candidate i, counting the best so far first. */
__device__ __forceinline__ struct topk_entry candidate(const struct select_round &round,
                                                       uint32_t kept, uint32_t i)
{
    uint64_t query = blockIdx.x;
    return i < kept ? round.best[query * round.k + i]
                    : round.lists[query * round.list_stride + (i - kept)];
}

/* Bitonic sort of the first `size` (a power of two, at most SELECT_SORT_MAX) entries, by all
 * threads of the block, a pair for each. Up to a gap of 32, a warp's pairs lie in 64 entries of
 * its own. */
__device__ void sort_shared(struct topk_entry *entries, uint32_t size)
{
    __syncthreads();
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t gap = run / 2; gap > 0; gap /= 2) {
            if (gap > 32 || (gap == 32 && run > 64))
                __syncthreads();
            else
                __syncwarp();
            uint32_t low = threadIdx.x / gap * gap * 2 + threadIdx.x % gap, high = low + gap;
            if (high >= size) continue;
            struct topk_entry a = entries[low], b = entries[high];
            if (entry_before(b, a) == ((low & run) == 0)) {
                entries[low] = b;
                entries[high] = a;
            }
        }
    }
    __syncthreads();
}

__device__ __forceinline__ uint32_t power_of_two(uint32_t count)
{
    uint32_t size = 1;
    while (size < count)
        size *= 2;
    return size;
}

__device__ __forceinline__ uint32_t byte_of(const struct topk_entry &entry, uint32_t at)
{
    return at < 4 ? entry.key >> (24 - 8 * at) & 255u
                  : (uint32_t)(entry.id >> (56 - 8 * (at - 4))) & 255u;
}

/* -1, 0 or 1: how the entry's first bytes compare with the prefix. */
__device__ __forceinline__ int compare(const struct topk_entry &entry,
                                       const struct rank_prefix &prefix)
{
    uint32_t key_bits = prefix.bytes >= 4 ? 32 : 8 * prefix.bytes;
    uint32_t key = key_bits == 0 ? 0 : entry.key >> (32 - key_bits) << (32 - key_bits);
    if (key != prefix.key) return key < prefix.key ? -1 : 1;
    uint32_t id_bits = prefix.bytes > 4 ? 8 * (prefix.bytes - 4) : 0;
    uint64_t id = id_bits == 0 ? 0 : entry.id >> (64 - id_bits) << (64 - id_bits);
    return id == prefix.id ? 0 : id < prefix.id ? -1 : 1;
}

/* Lanes with the same bin share one addition. */
__device__ __forceinline__ void bin_count(uint32_t *bins, uint32_t bin)
{
#if __CUDA_ARCH__ >= 700
    unsigned same = __match_any_sync(__activemask(), bin);
    if ((threadIdx.x & 31) == (unsigned)__ffs(same) - 1)
        atomicAdd(&bins[bin], (uint32_t)__popc(same));
#else
    atomicAdd(&bins[bin], 1u);
#endif
}

/* Extends the prefix by a byte: counts the candidates with this prefix by their next byte and
 * finds the bin that holds the rank-th. */
__device__ void narrow(struct select_shared *shared, const struct select_round &round,
                       uint32_t kept, uint32_t total, struct rank_prefix *prefix, uint32_t *rank)
{
    if (threadIdx.x < SELECT_BINS) shared->bins[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < total; i += SELECT_THREADS) {
        struct topk_entry entry = candidate(round, kept, i);
        if (compare(entry, *prefix) != 0) continue;
        bin_count(shared->bins, byte_of(entry, prefix->bytes));
    }
    prefix_extend(shared, prefix, rank);
}

/* Writes the k best of total > k candidates to `to`, in no order. */
__device__ void select_best(struct select_shared *shared, const struct select_round &round,
                            uint32_t kept, uint32_t total, struct topk_entry *to)
{
    struct rank_prefix prefix = {0, 0, 0};
    uint32_t rank = round.k;
    do
        narrow(shared, round, kept, total, &prefix, &rank);
    while (prefix.bytes < SELECT_BYTES && shared->inside != rank);
    if (threadIdx.x == 0) {
        shared->taken = 0;
        /* The best bound with this prefix is not known; the worst one is valid, too. */
        uint32_t key_bits = prefix.bytes >= 4 ? 32 : 8 * prefix.bytes;
        uint32_t id_bits = prefix.bytes > 4 ? 8 * (prefix.bytes - 4) : 0;
        struct topk_bound bound;
        bound.key = prefix.key | (key_bits == 32 ? 0 : ~0u >> key_bits);
        bound.id = prefix.id | (id_bits == 64 ? 0 : ~0ull >> id_bits);
        round.bounds[blockIdx.x] = bound;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < total; i += SELECT_THREADS) {
        struct topk_entry entry = candidate(round, kept, i);
        if (compare(entry, prefix) > 0) continue;
        uint32_t at = atomicAdd(&shared->taken, 1u);
        if (at < round.k) to[at] = entry; /* only an id that is given twice could exceed it */
    }
    __syncthreads();
}

__global__ void __launch_bounds__(SELECT_THREADS) select_kernel(const struct select_round round)
{
    __shared__ struct select_shared shared;
    uint64_t query = blockIdx.x;
    uint32_t kept = round.best_counts[query];
    uint32_t total = kept + round.list_counts[query];
    if (round.idle && total == kept) return;
    uint32_t count = total < round.k ? total : round.k;
    bool small = total <= SELECT_SORT_MAX;
    struct topk_entry *next = round.next + query * round.k;
    bool sort = small || round.k <= SELECT_SORT_MAX;
    if (small) {
        for (uint32_t i = threadIdx.x; i < total; i += SELECT_THREADS)
            shared.sorted[i] = candidate(round, kept, i);
    } else if (total > round.k) {
        select_best(&shared, round, kept, total, sort ? shared.sorted : next);
    } else {
        for (uint32_t i = threadIdx.x; i < total; i += SELECT_THREADS)
            next[i] = candidate(round, kept, i);
    }
    if (sort) {
        uint32_t used = small ? total : count, size = power_of_two(used);
        for (uint32_t i = used + threadIdx.x; i < size; i += SELECT_THREADS)
            shared.sorted[i] = entry_worst();
        sort_shared(shared.sorted, size);
        for (uint32_t i = threadIdx.x; i < count; i += SELECT_THREADS) {
            next[i] = shared.sorted[i];
            if (!round.sort) continue;
            round.out_ids[query * round.k + i] = shared.sorted[i].id;
            round.out_scores[query * round.k + i] = shared.sorted[i].score;
        }
    }
    __syncthreads(); /* all threads have read the counts */
    if (threadIdx.x != 0) return;
    if (sort && count == round.k && count > 0) {
        round.bounds[query].key = shared.sorted[count - 1].key;
        round.bounds[query].id = shared.sorted[count - 1].id;
    }
    round.next_counts[query] = count;
    round.list_counts[query] = 0;
}

/* Sorts run blockIdx.x of query blockIdx.y in place. */
__global__ void __launch_bounds__(SELECT_THREADS) sort_runs_kernel(const struct select_round round)
{
    __shared__ struct topk_entry sorted[SELECT_SORT_MAX];
    uint32_t count = round.next_counts[blockIdx.y], first = blockIdx.x * SELECT_SORT_MAX;
    if (first >= count) return;
    uint32_t used = count - first < SELECT_SORT_MAX ? count - first : SELECT_SORT_MAX;
    struct topk_entry *run = round.next + (uint64_t)blockIdx.y * round.k + first;
    for (uint32_t i = threadIdx.x; i < SELECT_SORT_MAX; i += SELECT_THREADS)
        sorted[i] = i < used ? run[i] : entry_worst();
    sort_shared(sorted, SELECT_SORT_MAX);
    for (uint32_t i = threadIdx.x; i < used; i += SELECT_THREADS)
        run[i] = sorted[i];
}

/* An entry's place is its place in its run plus the number of smaller entries in the other runs. */
__global__ void __launch_bounds__(SELECT_THREADS) merge_runs_kernel(const struct select_round round)
{
    uint32_t count = round.next_counts[blockIdx.y];
    uint32_t i = blockIdx.x * SELECT_THREADS + threadIdx.x;
    if (i >= count) return;
    const struct topk_entry *best = round.next + (uint64_t)blockIdx.y * round.k;
    struct topk_entry entry = best[i];
    uint32_t place = i % SELECT_SORT_MAX, own = i / SELECT_SORT_MAX;
    for (uint32_t run = 0; run * SELECT_SORT_MAX < count; run++) {
        if (run == own) continue;
        uint32_t low = run * SELECT_SORT_MAX;
        uint32_t first = low, high = count - low < SELECT_SORT_MAX ? count : low + SELECT_SORT_MAX;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (entry_before(best[middle], entry))
                low = middle + 1;
            else
                high = middle;
        }
        place += low - first;
    }
    round.out_ids[(uint64_t)blockIdx.y * round.k + place] = entry.id;
    round.out_scores[(uint64_t)blockIdx.y * round.k + place] = entry.score;
}

__global__ void select_init_kernel(struct topk_bound bound, uint64_t query_count,
                                   struct topk_bound *bounds, uint32_t *list_counts,
                                   uint32_t *best_counts, uint32_t listed)
{
    uint64_t query = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (query >= query_count) return;
    bounds[query].id = bound.id;
    bounds[query].key = bound.key;
    list_counts[query] = listed;
    best_counts[query] = 0;
}

int select_init_launch(const float *threshold, bool lower_is_better, uint64_t query_count,
                       const struct select_round *round, uint32_t *best_counts, uint32_t listed,
                       cudaStream_t stream)
{
    if (query_count == 0) return cudaSuccess;
    struct topk_bound bound;
    bound.id = ~0ull;
    bound.key = threshold ? topk_key(*threshold, lower_is_better) : ~0u;
    select_init_kernel<<<blocks_for(query_count, 256), 256, 0, stream>>>(
        bound, query_count, round->bounds, round->list_counts, best_counts, listed);
    return cudaGetLastError();
}

int select_launch(const struct select_round *round, uint64_t query_count, cudaStream_t stream)
{
    if (query_count == 0) return cudaSuccess;
    select_kernel<<<(unsigned)query_count, SELECT_THREADS, 0, stream>>>(*round);
    return cudaGetLastError();
}

int select_sort_launch(const struct select_round *round, uint64_t query_count, cudaStream_t stream)
{
    const uint64_t queries_max = 65535; /* limit of a grid's y */
    for (uint64_t first = 0; first < query_count; first += queries_max) {
        uint64_t left = query_count - first;
        unsigned queries = (unsigned)(left < queries_max ? left : queries_max);
        struct select_round part = *round;
        part.next += first * round->k;
        part.next_counts += first;
        part.out_ids += first * round->k;
        part.out_scores += first * round->k;
        sort_runs_kernel<<<dim3(blocks_for(round->k, SELECT_SORT_MAX), queries), SELECT_THREADS, 0,
                           stream>>>(part);
        merge_runs_kernel<<<dim3(blocks_for(round->k, SELECT_THREADS), queries), SELECT_THREADS, 0,
                            stream>>>(part);
    }
    return cudaGetLastError();
}
