/* recall_seeds: the nearest rows of cues become the seeds of a spread. A block makes the seeds of
 * a list and puts their ids into one table; then every node of the graph looks for itself there,
 * which costs less than an index of all nodes; and a block for each list collects those that are
 * nodes. */
#include "kernels/cuda/recall.cuh"

enum { THREADS = 256, CLEAR_BLOCKS_MAX = 1024 };

__global__ void __launch_bounds__(THREADS)
    recall_begin_kernel(uint4 *tables, uint64_t count, uint64_t *began)
{
    const uint4 zero = {0, 0, 0, 0};
    const uint64_t first = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (first == 0) *began = recall_now_ns();
    for (uint64_t i = first; i < count; i += (uint64_t)gridDim.x * THREADS)
        tables[i] = zero;
}

__device__ __forceinline__ float activation_of(const struct cuda_recall &r, uint64_t hit)
{
    return recall_activation(r.hit_scores[hit], r.threshold, r.width);
}

/* Adds a seed to the list whose places begin at base, and to the table. hit: a place that has its
 * id. */
__device__ void add_seed(const struct recall_job &job, uint64_t base, uint32_t *count, uint64_t hit,
                         float activation)
{
    const uint64_t *ids = job.call.hit_ids, id = ids[hit];
    const uint64_t at = base + atomicAdd(count, 1u);
    job.call.seed_ids[at] = id;
    job.call.seed_activations[at] = activation;
    job.seed_slots[at] = recall_insert(job.by_seed.entries, job.by_seed.bits, id, (uint32_t)hit,
                                       [=](uint32_t other) { return ids[other] == id; });
}

/* A list of several cues: each row once. A seed's activation is at least 0.5, so two are 1 or more,
 * which is capped: their sum needs no order. */
__device__ void add_lists_seeds(const struct recall_job &job, uint64_t first, uint64_t end,
                                uint32_t *count)
{
    const struct cuda_recall &r = job.call;
    const uint64_t base = first * r.k, *ids = r.hit_ids + base;
    const uint32_t places = (uint32_t)((end - first) * r.k), bits = recall_few_bits(places);
    uint32_t *table = job.list_tables + 4 * base, *doubles = job.list_doubles + 4 * base;
    for (uint32_t i = threadIdx.x; i < 1u << bits; i += THREADS)
        table[i] = doubles[i] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < places; i += THREADS) {
        if (i % r.k >= r.hit_counts[first + i / r.k]) continue;
        if (activation_of(r, base + i) < r.activation_min) continue;
        const uint64_t id = ids[i];
        const uint32_t at =
            recall_insert(table, bits, id, i, [=](uint32_t other) { return ids[other] == id; });
        if (*(volatile uint32_t *)&table[at] != i + 1) doubles[at] = 1;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < 1u << bits; i += THREADS) {
        if (!table[i]) continue;
        const uint64_t hit = base + table[i] - 1;
        add_seed(job, base, count, hit, doubles[i] ? 1.0f : activation_of(r, hit));
    }
}

__global__ void __launch_bounds__(THREADS) recall_gather_kernel(const struct recall_job job)
{
    __shared__ uint32_t count;
    const struct cuda_recall &r = job.call;
    const uint64_t first = recall_cue(r, blockIdx.x), end = recall_cue(r, blockIdx.x + 1);
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (end - first > 1) {
        add_lists_seeds(job, first, end, &count);
    } else if (end > first) {
        for (uint32_t i = threadIdx.x; i < r.hit_counts[first]; i += THREADS) {
            const float activation = activation_of(r, first * r.k + i);
            if (activation < r.activation_min) continue;
            add_seed(job, first * r.k, &count, first * r.k + i, activation);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) job.seed_counts[blockIdx.x] = count;
}

/* Each node looks for itself among the seeds. */
__global__ void __launch_bounds__(THREADS) recall_nodes_kernel(const struct recall_job job)
{
    const uint32_t node = blockIdx.x * THREADS + threadIdx.x;
    if (node >= job.call.node_count) return;
    const uint64_t *ids = job.call.hit_ids, id = job.call.nodes[node];
    if (id == UINT64_MAX) return;
    const uint32_t at = recall_find(job.by_seed.entries, job.by_seed.bits, id,
                                    [=](uint32_t other) { return ids[other] == id; });
    if (at != UINT32_MAX) job.by_seed.found[at] = node + 1;
}

__device__ __forceinline__ bool allows(const uint64_t *allowed, uint32_t node)
{
    return !allowed || (allowed[node / 64] >> (node & 63) & 1);
}

/* A list's seeds that are nodes. */
__global__ void __launch_bounds__(THREADS) recall_collect_kernel(const struct recall_job job)
{
    __shared__ uint32_t count;
    const struct cuda_recall &r = job.call;
    const uint32_t list = blockIdx.x, seeds = job.seed_counts[list];
    const uint64_t base = recall_cue(r, list) * r.k;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < seeds; i += THREADS) {
        const uint32_t found = job.by_seed.found[job.seed_slots[base + i]];
        const bool is = found && allows(r.allowed, found - 1);
        job.seed_nodes[base + i] = is ? found - 1 : SPREAD_NO_NODE;
        if (!is) continue;
        struct spread_seed seed = {found - 1, r.seed_activations[base + i]};
        r.seeds[base + atomicAdd(&count, 1u)] = seed;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    struct recall_outcome outcome = {};
    outcome.seeds = seeds;
    outcome.spread = count;
    r.outcomes[list] = outcome;
    r.set_offsets[list] = base;
    r.set_ends[list] = base + count;
    if (list == 0) r.times->seeds_ns = recall_now_ns() - *job.began;
}

extern "C" int cuda_recall_begin(const struct cuda_recall *r, struct CUstream_st *stream)
{
    const struct recall_job job = recall_job_of(r);
    const uint64_t count = cuda_recall_layout_of(r).cleared_bytes / sizeof(uint4);
    const unsigned enough = blocks_for(count, THREADS);
    const unsigned blocks = enough < CLEAR_BLOCKS_MAX ? enough : CLEAR_BLOCKS_MAX;
    uint4 *tables = (uint4 *)r->scratch;
    recall_begin_kernel<<<blocks, THREADS, 0, stream>>>(tables, count, job.began);
    return cudaGetLastError();
}

extern "C" int cuda_recall_seeds(const struct cuda_recall *r, struct CUstream_st *stream)
{
    if (r->lists == 0) return cudaSuccess;
    const struct recall_job job = recall_job_of(r);
    recall_gather_kernel<<<r->lists, THREADS, 0, stream>>>(job);
    recall_nodes_kernel<<<blocks_for(r->node_count, THREADS), THREADS, 0, stream>>>(job);
    recall_collect_kernel<<<r->lists, THREADS, 0, stream>>>(job);
    return cudaGetLastError();
}
