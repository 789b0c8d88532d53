/* shadow_scan: one query against the int8 codes of all rows, at the rate of memory. 16 lanes share
 * a row, 16 bytes at a time; a warp takes 32 rows that follow each other, of which each lane ends
 * with one: what stands beside the codes is then read and written 32 places at a time. */
#include "kernels/cuda/shadow_scan.cuh"

enum {
    SCAN_THREADS = 256,
    SCAN_WARPS = SCAN_THREADS / 32,
    SCAN_BATCH = 32, /* rows of a warp at a time */
    SCAN_BLOCKS = 3, /* a multiprocessor: registers for the loads in flight */
};

/* Adds the products of a batch's rows: each lane gets the sums of the row with its number. */
template <int FLIGHT>
__device__ __forceinline__ void scan_batch(const struct shadow_scan &job, const int4 *planes,
                                           uint64_t first, int *high, int *low)
{
    const uint64_t group = first + threadIdx.x % 32 / 16 * 16;
#pragma unroll 1
    for (uint32_t n = 0; n < 16; n += SCAN_ROWS)
        scan_rows<FLIGHT>(job.rows, job.code_stride, planes, group + n, n, high, low);
}

template <int FLIGHT>
__global__ void __launch_bounds__(SCAN_THREADS, SCAN_BLOCKS)
    shadow_scan_kernel(const struct shadow_scan job)
{
    extern __shared__ int4 planes[];
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t warps = (uint64_t)gridDim.x * SCAN_WARPS;
    const uint64_t warp = (uint64_t)blockIdx.x * SCAN_WARPS + threadIdx.x / 32;
    for (uint32_t n = threadIdx.x; n < job.code_stride / 8; n += SCAN_THREADS)
        planes[n] = ((const int4 *)job.planes)[n];
    const struct shadow_query query = *job.query;
    __syncthreads();
    struct topk_entry best = entry_worst();
    for (uint64_t first = warp * SCAN_BATCH; first < job.rows.count; first += warps * SCAN_BATCH) {
        const uint64_t row = first + lane, at = row < job.rows.count ? row : job.rows.count - 1;
        bool open = row < job.rows.count;
        if (job.filter.allowed) open = open && filter_passes(job.filter, 0, at);
        float above = -INFINITY;
        struct topk_entry own = entry_worst();
        if (__any_sync(WARP, open)) {
            const float scale = job.rows.scales[at], lost = job.rows.losts[at];
            const float length = job.rows.lengths[at], norm = job.norms[at];
            int high = 0, low = 0;
            scan_batch<FLIGHT>(job, planes, first, &high, &low);
            float estimate = shadow_estimate(&query, scale, high, low);
            if (open) {
                above = shadow_above(&query, estimate, lost, length);
                own.id = row;
                own.key = sink_key(scan_rank(job.metric, estimate, norm), false);
            }
        }
        if (row < job.rows.count) job.above[row] = above;
        if (!job.maxima) continue;
        if (job.segment == 0) {
            if (entry_before(own, best)) best = own;
            continue;
        }
        scan_best(&own, job.segment);
        if (lane % job.segment == 0) job.maxima[(first + lane) / job.segment] = own;
    }
    if (!job.maxima || job.segment) return;
    scan_best(&best, 32);
    if (lane == 0) job.maxima[warp] = best;
}

static unsigned scan_blocks(uint64_t row_count, unsigned processors)
{
    unsigned blocks = blocks_for(row_count, SCAN_BATCH * SCAN_WARPS);
    unsigned most = processors * SCAN_BLOCKS;
    return blocks < most ? blocks : most;
}

uint64_t shadow_scan_maxima(uint64_t row_count, uint32_t segment, unsigned processors)
{
    if (segment == 0) return (uint64_t)scan_blocks(row_count, processors) * SCAN_WARPS;
    return (row_count + SCAN_BATCH - 1) / SCAN_BATCH * (SCAN_BATCH / segment);
}

int shadow_scan_launch(const struct shadow_scan *scan, unsigned processors, cudaStream_t stream)
{
    const unsigned blocks = scan_blocks(scan->rows.count, processors);
    const size_t bytes = 2 * (size_t)scan->code_stride;
    if (scan->code_stride <= 256)
        shadow_scan_kernel<1><<<blocks, SCAN_THREADS, bytes, stream>>>(*scan);
    else if (scan->code_stride <= 512)
        shadow_scan_kernel<2><<<blocks, SCAN_THREADS, bytes, stream>>>(*scan);
    else if (scan->code_stride <= 768)
        shadow_scan_kernel<3><<<blocks, SCAN_THREADS, bytes, stream>>>(*scan);
    else
        shadow_scan_kernel<4><<<blocks, SCAN_THREADS, bytes, stream>>>(*scan);
    return cudaGetLastError();
}
