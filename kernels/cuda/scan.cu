/* scan: one query against rows in order or listed, and the norms of rows. Bound by memory: each
 * row is read once, with enough loads in flight to reach the copy rate. */
#include "kernels/cuda/launch.cuh"

struct scan_job {
    const float *query;
    const float *query_norm; /* NULL unless the metric is cosine */
    const float *rows;
    const float *norms;
    const uint64_t *positions; /* NULL: row i is the i-th */
    uint32_t stride;
    bool lower_is_better;
    struct score_span span;
};

template <int GROUP, bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS) scan_kernel(const struct scan_job job)
{
    uint64_t i = ((uint64_t)blockIdx.x * SUMS_THREADS + threadIdx.x) / GROUP;
    /* Groups past the end repeat the last row, because a warp's shuffles need all its threads. */
    uint64_t at = i < job.span.count ? i : job.span.count - 1;
    uint64_t row = job.positions ? job.positions[at] : at;
    uint32_t bound_key = job.span.sink.lists ? job.span.sink.bounds[0].key : 0;
    float score =
        sum_rows<GROUP, EUCLIDEAN, COMPENSATED>(job.query, job.rows + row * job.stride, job.stride);
    if (i != at || threadIdx.x % GROUP != 0) return;
    if (job.query_norm) score = canonical_cosine(score, *job.query_norm, job.norms[row]);
    if (job.span.sink.lists)
        sink_offer(&job.span.sink, 0, job.span.first + i, score, job.lower_is_better, bound_key);
    else
        job.span.scores[i] = score;
}

template <int GROUP, bool COMPENSATED>
__global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS)
    norms_kernel(const float *rows, uint32_t stride, uint64_t count, float *norms)
{
    uint64_t i = ((uint64_t)blockIdx.x * SUMS_THREADS + threadIdx.x) / GROUP;
    const float *row = rows + (i < count ? i : count - 1) * stride;
    float square = sum_rows<GROUP, false, COMPENSATED>(row, row, stride);
    if (i < count && threadIdx.x % GROUP == 0) norms[i] = canonical_norm(square);
}

template <int GROUP>
static void scan_choose(const struct scan_job *job, bool compensated, cudaStream_t stream)
{
    unsigned blocks = blocks_for(job->span.count, SUMS_THREADS / GROUP);
    if (job->lower_is_better && compensated)
        scan_kernel<GROUP, true, true><<<blocks, SUMS_THREADS, 0, stream>>>(*job);
    else if (job->lower_is_better)
        scan_kernel<GROUP, true, false><<<blocks, SUMS_THREADS, 0, stream>>>(*job);
    else if (compensated)
        scan_kernel<GROUP, false, true><<<blocks, SUMS_THREADS, 0, stream>>>(*job);
    else
        scan_kernel<GROUP, false, false><<<blocks, SUMS_THREADS, 0, stream>>>(*job);
}

static int scan_enqueue(enum metric metric, const struct cuda_queries *query,
                        const struct cuda_rows *rows, const uint64_t *positions,
                        const struct score_span *span, cudaStream_t stream)
{
    if (span->count == 0) return cudaSuccess;
    struct scan_job job = {};
    job.query = query->rows;
    job.query_norm = metric == METRIC_COSINE ? query->norms : NULL;
    job.rows = span_rows(rows, span);
    job.norms = rows->norms + span->first;
    job.positions = positions;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    job.lower_is_better = metric_lower_is_better(metric);
    job.span = *span;
    bool compensated = canonical_is_compensated(rows->dimension);
    if (span->count < SUMS_WIDE_BELOW)
        scan_choose<32>(&job, compensated, stream);
    else
        scan_choose<8>(&job, compensated, stream);
    return cudaGetLastError();
}

int scan_launch(enum metric metric, const struct cuda_queries *query, const struct cuda_rows *rows,
                const struct score_span *span, cudaStream_t stream)
{
    return scan_enqueue(metric, query, rows, NULL, span, stream);
}

extern "C" int cuda_scan(enum metric metric, const struct cuda_queries *query,
                         const struct cuda_rows *rows, float *scores, struct CUstream_st *stream)
{
    struct score_span span = {};
    span.count = rows->count;
    span.scores = scores;
    return scan_enqueue(metric, query, rows, NULL, &span, stream);
}

extern "C" int cuda_gather(enum metric metric, const struct cuda_queries *query,
                           const struct cuda_rows *rows, const uint64_t *positions, uint64_t count,
                           float *scores, struct CUstream_st *stream)
{
    struct score_span span = {};
    span.count = count;
    span.scores = scores;
    return scan_enqueue(metric, query, rows, positions, &span, stream);
}

extern "C" int cuda_norms(const struct cuda_rows *rows, float *norms, struct CUstream_st *stream)
{
    uint64_t count = rows->count;
    if (count == 0) return cudaSuccess;
    uint32_t stride = (uint32_t)vector_stride(rows->dimension);
    bool wide = count < SUMS_WIDE_BELOW, compensated = canonical_is_compensated(rows->dimension);
    unsigned blocks = blocks_for(count, SUMS_THREADS / (wide ? 32 : 8));
    if (wide && compensated)
        norms_kernel<32, true>
            <<<blocks, SUMS_THREADS, 0, stream>>>(rows->rows, stride, count, norms);
    else if (wide)
        norms_kernel<32, false>
            <<<blocks, SUMS_THREADS, 0, stream>>>(rows->rows, stride, count, norms);
    else if (compensated)
        norms_kernel<8, true>
            <<<blocks, SUMS_THREADS, 0, stream>>>(rows->rows, stride, count, norms);
    else
        norms_kernel<8, false>
            <<<blocks, SUMS_THREADS, 0, stream>>>(rows->rows, stride, count, norms);
    return cudaGetLastError();
}
