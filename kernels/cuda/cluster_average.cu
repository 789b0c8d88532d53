/* cluster_average: rule average. The exact sums of all pairs of clusters and their means lie as a
 * triangle. A step is two launches: one block finds the best row, looking again for those whose
 * nearest is gone; and the sums of the two that merge are added, a thread for each other cluster.
 */
#include "kernels/cuda/cluster.cuh"

enum {
    PAIR_THREADS = 256,
    CHOOSE_THREADS = 1024,
    ADD_THREADS = 128,
    LOOKS_MAX = 32 /* of a step, so that it is short */
};

/* The first of the largest of count numbers; of none index 0 and -infinity. */
template <int THREADS>
__device__ struct cluster_key largest_of(const float *numbers, uint32_t count,
                                         struct cluster_key *room)
{
    struct cluster_key k = cluster_key_none();
    k.first = cluster_key_of(-INFINITY, 0);
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        const uint64_t key = cluster_key_of(numbers[i], i);
        if (key < k.first) k.first = key;
    }
    return cluster_key_least(k, room);
}

/* Finds the nearest of a row among those before it. */
template <int THREADS>
__device__ void look(const struct cuda_cluster &w, uint32_t row, struct cluster_key *room)
{
    const struct cluster_key k =
        largest_of<THREADS>(w.means + (row ? cuda_cluster_pair(row, 0) : 0), row, room);
    if (threadIdx.x != 0) return;
    w.nearest[row] = (uint32_t)k.first;
    w.stale[row] = 0;
    w.scores[row] = cluster_key_value(k.first);
}

/* ---- all against all ---- */

__global__ void __launch_bounds__(PAIR_THREADS) cluster_pairs_kernel(const struct cluster_run r)
{
    const struct cuda_cluster &w = r.work;
    const uint32_t row = w.first + blockIdx.y, j = blockIdx.x * PAIR_THREADS + threadIdx.x;
    if (j >= row) return;
    const uint64_t at = cuda_cluster_pair(row, j);
    float p = w.cosines[(uint64_t)blockIdx.y * (w.first + w.some) + j];
    if (w.times) p = cluster_decayed(p, w.times[row], w.times[j]);
    p = cluster_similarity(p);
    w.means[at] = p;
    w.lows[at] = cluster_units(p);
    w.highs[at] = 0;
}

__global__ void __launch_bounds__(PAIR_THREADS) cluster_look_kernel(const struct cluster_run r)
{
    __shared__ struct cluster_key room[32];
    look<PAIR_THREADS>(r.work, r.work.first + blockIdx.x, room);
}

/* ---- merges ---- */

/* Of all with the largest value the one whose nearest has the lowest id, then the first. */
__device__ struct cluster_key best_row(const struct cuda_cluster &w, struct cluster_key *room)
{
    struct cluster_key k = cluster_key_none();
    for (uint32_t row = threadIdx.x; row < w.count; row += CHOOSE_THREADS) {
        struct cluster_key own;
        own.first = cluster_key_of(w.scores[row], w.nearest[row]);
        own.second = own.whose = row;
        if (cluster_key_before(own, k)) k = own;
    }
    return cluster_key_least(k, room);
}

__global__ void __launch_bounds__(CHOOSE_THREADS) cluster_choose_kernel(const struct cluster_run r)
{
    __shared__ struct cluster_key room[32];
    const struct cuda_cluster &w = r.work;
    struct cuda_cluster_state *s = w.state;
    const uint32_t ended = s->ended, merged = s->look;
    uint32_t high, scans = 0;
    if (ended) return;
    if (merged != CUDA_CLUSTER_NONE) look<CHOOSE_THREADS>(w, merged, room);
    for (;; scans++) {
        __syncthreads();
        const struct cluster_key k = best_row(w, room);
        high = k.whose;
        if (!(cluster_key_value(k.first) >= w.threshold)) {
            if (threadIdx.x == 0) s->ended = 1;
            high = CUDA_CLUSTER_NONE;
            break;
        }
        if (!w.stale[high]) break;
        if (scans == LOOKS_MAX) {
            high = CUDA_CLUSTER_NONE;
            break;
        }
        look<CHOOSE_THREADS>(w, high, room);
    }
    if (threadIdx.x != 0) return;
    s->scans += scans;
    s->merged = high != CUDA_CLUSTER_NONE;
    s->look = CUDA_CLUSTER_NONE;
    if (!s->merged) return;
    const uint32_t low = w.nearest[high];
    const struct cuda_cluster_merge m = {low, high};
    w.window[s->merges - w.merges] = m;
    w.births[low] = ++s->merges;
    w.births[high] = CLUSTER_GONE;
    w.scores[high] = -INFINITY;
    w.sizes[low] = s->size = w.sizes[low] + w.sizes[high];
    s->live--;
    s->low = s->look = low;
    s->high = high;
}

__device__ __forceinline__ uint64_t pair_of(uint32_t a, uint32_t b)
{
    return a > b ? cuda_cluster_pair(a, b) : cuda_cluster_pair(b, a);
}

/* Tells `row`, which is above low, its new mean to it. That is more than it had where high was
 * nearer, but above it. */
__device__ __forceinline__ void renew(const struct cuda_cluster &w, uint32_t row, uint32_t low,
                                      uint32_t high, float mean)
{
    const float value = w.scores[row];
    const bool stale = w.stale[row] != 0;
    const uint32_t nearest = w.nearest[row];
    if (mean > value || (!stale && mean == value && low <= nearest)) {
        w.scores[row] = mean;
        w.nearest[row] = low;
        w.stale[row] = 0;
    } else if (!stale && (nearest == low || nearest == high)) {
        w.nearest[row] = 0;
        w.stale[row] = 1;
    }
}

__global__ void __launch_bounds__(ADD_THREADS) cluster_add_kernel(const struct cluster_run r)
{
    const struct cuda_cluster &w = r.work;
    const struct cuda_cluster_state *s = w.state;
    const uint32_t id = blockIdx.x * ADD_THREADS + threadIdx.x, low = s->low, high = s->high;
    if (s->ended || !s->merged || id >= w.count || w.births[id] == CLUSTER_GONE || id == low)
        return;
    const uint64_t to = pair_of(id, low), from = pair_of(id, high);
    const struct cluster_total a = {w.lows[to], w.highs[to]}, b = {w.lows[from], w.highs[from]};
    const struct cluster_total total = cluster_total_add(a, b);
    const float mean = cluster_total_mean(total, (uint64_t)s->size * w.sizes[id]);
    w.lows[to] = total.low;
    w.highs[to] = total.high;
    w.means[to] = mean;
    if (id > high) w.means[from] = -INFINITY;
    if (id > low) renew(w, id, low, high, mean);
}

/* ---- launching ---- */

int cluster_average_launch(const struct cluster_run &r, cudaStream_t stream)
{
    const struct cuda_cluster &w = r.work;
    if (w.stage == CUDA_CLUSTER_PAIRS && w.some) {
        const dim3 grid(blocks_for(w.first + w.some, PAIR_THREADS), w.some);
        cluster_pairs_kernel<<<grid, PAIR_THREADS, 0, stream>>>(r);
        cluster_look_kernel<<<w.some, PAIR_THREADS, 0, stream>>>(r);
    }
    for (uint32_t step = 0; w.stage == CUDA_CLUSTER_ADD && step < w.steps; step++) {
        cluster_choose_kernel<<<1, CHOOSE_THREADS, 0, stream>>>(r);
        cluster_add_kernel<<<blocks_for(w.count, ADD_THREADS), ADD_THREADS, 0, stream>>>(r);
    }
    return cudaGetLastError();
}
