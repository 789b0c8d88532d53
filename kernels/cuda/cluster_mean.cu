/* cluster_mean: the centroid of a cluster that has just been merged, 32 columns a block. */
#include "kernels/cuda/cluster.cuh"

enum {
    MEAN_COLUMNS = 32,
    MEAN_WARPS = 32,
    MEAN_ROWS = CUDA_CLUSTER_PART, /* that are brought at once */
    MEAN_EACH = MEAN_ROWS / MEAN_WARPS
};

/* The row of a member among all; of none behind the last. */
__device__ __forceinline__ uint32_t member_row(const struct cluster_run &r, const uint32_t *members,
                                               uint32_t i, uint32_t count)
{
    if (i >= count) return CUDA_CLUSTER_NONE;
    const uint32_t row = __ldg(&members[i]);
    return r.work.positions ? __ldg(&r.work.positions[row]) : row;
}

/* A column is one chain; all warps bring rows, whose numbers they find out one turn before, and the
 * first adds them. Sums so far are kept of a large cluster, and found again where its first members
 * are the same as they were. */
__global__ void __launch_bounds__(MEAN_WARPS * 32) cluster_mean_kernel(const struct cluster_run r)
{
    __shared__ float room[MEAN_ROWS][MEAN_COLUMNS];
    const struct cuda_cluster &w = r.work;
    const struct cuda_cluster_state *s = w.state;
    if (s->ended || !s->merged) return;
    const uint32_t count = s->size, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t column = blockIdx.x * MEAN_COLUMNS + lane, begins = s->begins;
    const uint32_t *members =
        w.members + (uint64_t)s->half * CUDA_CLUSTER_HALF * w.count + w.firsts[s->low];
    const bool keeps = s->kept == s->low;
    struct cluster_sum sum = {0.0f, 0.0};
    uint32_t rows[MEAN_EACH];
    float x[MEAN_EACH];
    if (begins && warp == 0) {
        sum.sum = w.sums[(uint64_t)begins * r.stride + column];
        sum.correction = w.corrections[(uint64_t)begins * r.stride + column];
    }
#pragma unroll
    for (int i = 0; i < MEAN_EACH; i++)
        rows[i] = member_row(r, members, begins * MEAN_ROWS + warp + MEAN_WARPS * i, count);
#pragma unroll
    for (int i = 0; i < MEAN_EACH; i++) {
        x[i] = rows[i] == CUDA_CLUSTER_NONE
                   ? 0.0f
                   : __ldg(r.rows.rows + (uint64_t)rows[i] * r.stride + column);
        rows[i] = member_row(r, members, (begins + 1) * MEAN_ROWS + warp + MEAN_WARPS * i, count);
    }
    for (uint32_t first = begins * MEAN_ROWS; first < count; first += MEAN_ROWS) {
        const uint32_t after = first + 2 * MEAN_ROWS + warp;
#pragma unroll
        for (int i = 0; i < MEAN_EACH; i++)
            room[warp + MEAN_WARPS * i][lane] = x[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < MEAN_EACH; i++) {
            if (rows[i] != CUDA_CLUSTER_NONE)
                x[i] = __ldg(r.rows.rows + (uint64_t)rows[i] * r.stride + column);
            rows[i] = member_row(r, members, after + MEAN_WARPS * i, count);
        }
        const uint32_t some = count - first < MEAN_ROWS ? count - first : (uint32_t)MEAN_ROWS;
        if (warp == 0) {
            if (keeps && first) {
                w.sums[(uint64_t)(first / MEAN_ROWS) * r.stride + column] = sum.sum;
                w.corrections[(uint64_t)(first / MEAN_ROWS) * r.stride + column] = sum.correction;
            }
#pragma unroll 8
            for (uint32_t i = 0; i < some; i++)
                cluster_sum_take(&sum, room[i][lane]);
        }
        __syncthreads();
    }
    if (warp == 0) w.rows[(uint64_t)s->slot * r.stride + column] = cluster_sum_mean(&sum, count);
}

int cluster_mean_launch(const struct cluster_run &r, cudaStream_t stream)
{
    cluster_mean_kernel<<<r.stride / MEAN_COLUMNS, MEAN_WARPS * 32, 0, stream>>>(r);
    return cudaGetLastError();
}
