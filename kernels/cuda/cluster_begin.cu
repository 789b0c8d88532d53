/* cluster_begin: how a clustering begins: each row a cluster of its own; and how rule centroid's
 * second pass does, without those that are too small: what is left of the last slots moves into
 * the gaps of the first ones. */
#include "kernels/cuda/cluster.cuh"

enum { BEGIN_THREADS = 256, GAP_THREADS = 1024 };

/* A block for each row. */
__global__ void __launch_bounds__(BEGIN_THREADS) cluster_begin_kernel(const struct cluster_run r)
{
    const struct cuda_cluster &w = r.work;
    const uint32_t i = blockIdx.x, row = w.positions ? w.positions[i] : i;
    const float4 *from = (const float4 *)(r.rows.rows + (uint64_t)row * r.stride);
    float4 *to = (float4 *)(w.rows + (uint64_t)i * r.stride);
    for (uint32_t c = threadIdx.x; c < r.stride / 4; c += BEGIN_THREADS)
        to[c] = __ldg(&from[c]);
    if (threadIdx.x != 0) return;
    w.norms[i] = r.rows.norms[row];
    w.births[i] = 0;
    w.sizes[i] = 1;
    if (!w.average) {
        w.ids[i] = w.at[i] = w.firsts[i] = w.members[i] = i;
        w.wide_ids[i] = i;
    }
    if (i != 0) return;
    struct cuda_cluster_state s = {};
    s.live = s.used = w.count;
    s.slot = s.look = s.kept = CUDA_CLUSTER_NONE;
    *w.state = s;
}

/* Adds up a number of each thread; returns the sum of those before it. */
__device__ uint32_t sum_before(uint32_t number, uint32_t *room, uint32_t *all)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t sum = number;
    for (uint32_t step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_up_sync(WARP, sum, step);
        if (lane >= step) sum += other;
    }
    __syncthreads();
    if (lane == 31) room[warp] = sum;
    __syncthreads();
    uint32_t before = sum - number, total = 0;
    for (uint32_t i = 0; i < GAP_THREADS / 32; i++) {
        if (i < warp) before += room[i];
        total += room[i];
    }
    *all = total;
    return before;
}

/* The i-th gap among the slots that will be left is for the i-th cluster behind them. */
__global__ void __launch_bounds__(GAP_THREADS) cluster_gaps_kernel(const struct cluster_run r)
{
    __shared__ uint32_t room[GAP_THREADS / 32];
    const struct cuda_cluster &w = r.work;
    struct cuda_cluster_state *s = w.state;
    const uint32_t live = s->live;
    uint32_t left = 0, holes = 0, movers = 0, some;
    for (uint32_t from = 0; from < live; from += GAP_THREADS) {
        const uint32_t slot = from + threadIdx.x;
        sum_before(slot < live && w.sizes[w.ids[slot]] >= w.size_min, room, &some);
        left += some;
    }
    for (uint32_t from = 0; from < live; from += GAP_THREADS) {
        const uint32_t slot = from + threadIdx.x;
        const bool stays = slot < live && w.sizes[w.ids[slot]] >= w.size_min;
        const bool hole = slot < left && !stays, mover = slot >= left && stays;
        if (slot < live && !stays) w.births[w.ids[slot]] = CLUSTER_GONE;
        uint32_t at = holes + sum_before(hole, room, &some);
        if (hole) w.holes[at] = slot;
        holes += some;
        at = movers + sum_before(mover, room, &some);
        if (mover) w.movers[at] = slot;
        movers += some;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    s->live = left;
    s->moves = movers;
    s->slot = CUDA_CLUSTER_NONE;
    s->merged = 0;
    s->ended = left < 2;
}

/* A block for each slot that there was. */
__global__ void __launch_bounds__(BEGIN_THREADS) cluster_move_kernel(const struct cluster_run r)
{
    const struct cuda_cluster &w = r.work;
    if (blockIdx.x >= w.state->moves) return;
    const uint32_t to = w.holes[blockIdx.x], from = w.movers[blockIdx.x];
    for (uint32_t c = threadIdx.x; c < r.stride; c += BEGIN_THREADS)
        w.rows[(uint64_t)to * r.stride + c] = w.rows[(uint64_t)from * r.stride + c];
    if (threadIdx.x != 0) return;
    w.norms[to] = w.norms[from];
    w.ids[to] = w.ids[from];
    w.at[w.ids[to]] = to;
}

__global__ void __launch_bounds__(BEGIN_THREADS) cluster_ids_kernel(const struct cluster_run r)
{
    const uint32_t slot = blockIdx.x * BEGIN_THREADS + threadIdx.x;
    if (slot < r.work.state->live) r.work.wide_ids[slot] = r.work.ids[slot];
}

int cluster_begin_launch(const struct cluster_run &r, cudaStream_t stream)
{
    cluster_begin_kernel<<<r.work.count, BEGIN_THREADS, 0, stream>>>(r);
    return cudaGetLastError();
}

int cluster_again_launch(const struct cluster_run &r, cudaStream_t stream)
{
    cluster_gaps_kernel<<<1, GAP_THREADS, 0, stream>>>(r);
    cluster_move_kernel<<<r.work.live, BEGIN_THREADS, 0, stream>>>(r);
    cluster_ids_kernel<<<blocks_for(r.work.live, BEGIN_THREADS), BEGIN_THREADS, 0, stream>>>(r);
    return cudaGetLastError();
}
