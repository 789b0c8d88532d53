/* gather_lists: each query against its own list of rows, all queries in one launch. A group of
 * threads computes one (query, row) pair and finds the query by searching the list offsets. */
#include "kernels/cuda/launch.cuh"

struct gather_lists_job {
    const float *queries;
    const float *query_norms; /* NULL unless the metric is cosine */
    const float *rows;
    const float *norms;
    const uint32_t *positions; /* NULL: position i is row i */
    const uint64_t *offsets;   /* query_count + 1; NULL: every query has the whole list */
    uint64_t query_count;
    uint64_t length; /* of the whole list */
    uint64_t count;  /* of scores */
    float *scores;
    uint32_t stride;
};

/* The last query whose list begins at or before i, because lists before it may be empty. */
__device__ __forceinline__ uint64_t query_of(const struct gather_lists_job &job, uint64_t i)
{
    uint64_t low = 0, high = job.query_count;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        if (__ldg((const unsigned long long *)&job.offsets[middle]) <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

template <int GROUP, bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS)
    gather_lists_kernel(const struct gather_lists_job job)
{
    uint64_t i = ((uint64_t)blockIdx.x * SUMS_THREADS + threadIdx.x) / GROUP;
    uint64_t at = i < job.count ? i : job.count - 1; /* a warp's shuffles need all its threads */
    uint64_t query = job.offsets ? query_of(job, at) : at / job.length;
    uint64_t row = job.offsets ? at : at % job.length;
    if (job.positions) row = __ldg(&job.positions[row]);
    float score = sum_rows<GROUP, EUCLIDEAN, COMPENSATED>(job.queries + query * job.stride,
                                                          job.rows + row * job.stride, job.stride);
    if (i != at || threadIdx.x % GROUP != 0) return;
    if (job.query_norms) score = canonical_cosine(score, job.query_norms[query], job.norms[row]);
    job.scores[i] = score;
}

template <int GROUP>
static void gather_lists_choose(const struct gather_lists_job *job, bool euclidean,
                                bool compensated, cudaStream_t stream)
{
    unsigned blocks = blocks_for(job->count, SUMS_THREADS / GROUP);
    if (euclidean && compensated)
        gather_lists_kernel<GROUP, true, true><<<blocks, SUMS_THREADS, 0, stream>>>(*job);
    else if (euclidean)
        gather_lists_kernel<GROUP, true, false><<<blocks, SUMS_THREADS, 0, stream>>>(*job);
    else if (compensated)
        gather_lists_kernel<GROUP, false, true><<<blocks, SUMS_THREADS, 0, stream>>>(*job);
    else
        gather_lists_kernel<GROUP, false, false><<<blocks, SUMS_THREADS, 0, stream>>>(*job);
}

extern "C" int cuda_gather_lists(enum metric metric, const struct cuda_queries *queries,
                                 const struct cuda_rows *rows, const uint32_t *positions,
                                 const uint64_t *offsets, uint64_t count, float *scores,
                                 struct CUstream_st *stream)
{
    if (count == 0 || queries->count == 0) return cudaSuccess;
    struct gather_lists_job job = {};
    job.queries = queries->rows;
    job.query_norms = metric == METRIC_COSINE ? queries->norms : NULL;
    job.rows = rows->rows;
    job.norms = rows->norms;
    job.positions = positions;
    job.offsets = offsets;
    job.query_count = queries->count;
    job.length = count;
    job.count = offsets ? count : count * queries->count;
    job.scores = scores;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    bool euclidean = metric_lower_is_better(metric);
    bool compensated = canonical_is_compensated(rows->dimension);
    if (job.count < SUMS_WIDE_BELOW)
        gather_lists_choose<32>(&job, euclidean, compensated, stream);
    else
        gather_lists_choose<8>(&job, euclidean, compensated, stream);
    return cudaGetLastError();
}
