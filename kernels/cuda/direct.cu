/* direct: one query that travels with the launch, and results that are stored straight into host
 * memory: no copies, and no event to wait for. A result is a cell, whose upper half is the launch's
 * tag, and one store writes both halves: the host sees by each cell itself that it has come, so
 * that no block waits until its stores have crossed the bus.
 *
 * Few rows: each block scores its share with a warp for each row, ranks its rows by counting, and
 * the last block selects the best of all. Many rows: as scan_topk.cu. */
#include "kernels/cuda/direct.cuh"

#include <string.h>

enum {
    DIRECT_STEPS = 32,       /* of 32 elements each, in a row */
    DIRECT_WARPS = 8,        /* of a block that stores scores */
    DIRECT_SHARE = 128,      /* most rows of a block that ranks them by counting */
    DIRECT_PARAMETERS = 4096 /* bytes that every driver and architecture takes */
};

/* From CUDA 13 on, whose oldest architecture takes 32,764 bytes, a query may be longer. */
#if CUDART_VERSION >= 13000
enum { DIRECT_DIMENSION = 1024 };
#else
enum { DIRECT_DIMENSION = 1000 };
#endif

struct direct_job {
    const float *rows;
    const float *norms;
    const uint64_t *ids;
    unsigned long long mark;
    unsigned long long *ticket;
    struct topk_entry *lists; /* `kept` for each block */
    unsigned long long *cells;
    uint64_t count;
    uint32_t dimension;
    uint32_t share; /* rows of a block, if few */
    uint32_t k;
    uint32_t kept;
    uint32_t limit_key;
    uint32_t tag;
    float query_norm;
    bool is_cosine, lower_is_better;
    float query[DIRECT_DIMENSION];
};

static_assert(sizeof(struct direct_job) - DIRECT_DIMENSION * sizeof(float) + 4000 <=
                  DIRECT_PARAMETERS,
              "a launch with 1,000 elements fits");

__device__ __forceinline__ uint32_t direct_stride(const struct direct_job &job)
{
    return (job.dimension + 31) / 32 * 32;
}

/* Copies the query, which a warp can read from its parameter only one address at a time, to shared
 * memory, and pads it. */
__device__ __forceinline__ void direct_unpack(const struct direct_job &job, float *query)
{
    for (uint32_t i = threadIdx.x; i < direct_stride(job); i += blockDim.x)
        query[i] = i < job.dimension ? job.query[i] : 0.0f;
}

/* A warp's row on its way: all loads are issued before the query is there. */
struct direct_row {
    float elements[DIRECT_STEPS];
    float norm;
};

__device__ __forceinline__ void direct_fetch(const struct direct_job &job, uint64_t row,
                                             struct direct_row *into)
{
    const uint32_t stride = direct_stride(job);
    const float *at = job.rows + row * stride + threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < DIRECT_STEPS; n++)
        into->elements[n] = n * 32 < stride ? __ldg(&at[n * 32]) : 0.0f;
    into->norm = job.is_cosine ? __ldg(&job.norms[row]) : 0.0f;
}

/* The canonical sum of sum_by_32, then the score. */
template <bool EUCLIDEAN>
__device__ __forceinline__ float direct_score(const struct direct_job &job, const float *query,
                                              const struct direct_row &row)
{
    const uint32_t stride = direct_stride(job);
    float p = 0.0f, unused = 0.0f;
#pragma unroll
    for (int n = 0; n < DIRECT_STEPS; n++)
        if (n * 32 < stride)
            sum_take<EUCLIDEAN, false>(&p, &unused, query[n * 32 + threadIdx.x % 32],
                                       row.elements[n]);
    float sum = sum_tree_of_32(p);
    return job.is_cosine ? canonical_cosine(sum, job.query_norm, row.norm) : sum;
}

__device__ __forceinline__ void direct_put(const struct direct_job &job, uint64_t cell,
                                           uint32_t value)
{
    cell_store(job.cells, job.tag, cell, value);
}

/* ---- all scores ---- */

template <bool EUCLIDEAN>
__global__ void __launch_bounds__(DIRECT_WARPS * 32) direct_scores(const struct direct_job job)
{
    __shared__ float query[DIRECT_STEPS * 32];
    __shared__ float scores[DIRECT_WARPS];
    const uint64_t first = (uint64_t)blockIdx.x * DIRECT_WARPS;
    uint64_t row = first + threadIdx.x / 32;
    if (row >= job.count) row = job.count - 1; /* a barrier needs all warps */
    struct direct_row fetched;
    direct_fetch(job, row, &fetched);
    direct_unpack(job, query);
    __syncthreads();
    float score = direct_score<EUCLIDEAN>(job, query, fetched);
    if (threadIdx.x % 32 == 0) scores[threadIdx.x / 32] = score;
    __syncthreads();
    if (threadIdx.x < DIRECT_WARPS && first + threadIdx.x < job.count)
        direct_put(job, first + threadIdx.x, __float_as_uint(scores[threadIdx.x]));
}

/* ---- the k best ---- */

/* Writes the first `kept` of the block's entries to scratch, in order. */
__device__ __forceinline__ void direct_rank(const struct direct_job &job,
                                            const struct topk_entry *entries)
{
    struct topk_entry *list = job.lists + (uint64_t)blockIdx.x * job.kept;
    for (uint32_t i = threadIdx.x; i < job.share; i += blockDim.x) {
        struct topk_entry entry = entry_read(&entries[i]);
        uint32_t place = 0;
        for (uint32_t j = 0; j < job.share; j++) {
            /* entries that are missing are alike, and rank by their place */
            struct topk_entry other = entry_read(&entries[j]);
            place +=
                entry_before(other, entry) | ((entry.key == ~0u) & (other.key == ~0u) & (j < i));
        }
        if (place < job.kept) entry_write(&list[place], entry);
    }
}

template <bool EUCLIDEAN>
__global__ void __launch_bounds__(SCAN_TOPK_THREADS, 1) direct_few(const struct direct_job job)
{
    __shared__ float query[DIRECT_STEPS * 32];
    __shared__ __align__(16) struct topk_entry entries[DIRECT_SHARE];
    __shared__ struct best_shared shared;
    const uint64_t first = (uint64_t)blockIdx.x * job.share;
    const uint32_t warps = blockDim.x / 32, warp = threadIdx.x / 32;
    if (is_clerk()) ticket_prepare(job.ticket, job.mark);
    for (uint32_t mine = warp; mine < job.share || mine == warp; mine += warps) {
        uint64_t row = first + mine;
        bool is_there = mine < job.share && row < job.count;
        if (!is_there) row = job.count - 1;
        struct direct_row fetched;
        direct_fetch(job, row, &fetched);
        uint64_t id = job.ids ? __ldg(&job.ids[row]) : row;
        if (mine == warp) { /* every warp has a first round */
            direct_unpack(job, query);
            __syncthreads();
        }
        float score = direct_score<EUCLIDEAN>(job, query, fetched);
        struct topk_entry entry = {id, sink_key(score, job.lower_is_better), score};
        if (!is_there || entry.key > job.limit_key) entry = entry_worst();
        if (threadIdx.x % 32 == 0 && mine < job.share) entry_write(&entries[mine], entry);
    }
    __syncthreads();
    direct_rank(job, entries);
    if (!block_count(job.ticket, job.mark, false, &shared)) return;
    best_of({job.lists, gridDim.x, job.kept}, job.k, &shared);
    cells_store_best(job.cells, job.tag, job.k, &shared);
}

template <int GROUP, bool EUCLIDEAN>
__global__ void __launch_bounds__(SCAN_TOPK_THREADS, 1) direct_many(const struct direct_job job)
{
    extern __shared__ __align__(16) struct topk_entry warp_lists[];
    __shared__ struct best_shared shared;
    /* The query lies where the selection begins after the scan. */
    float *query = (float *)shared.survivors;
    struct scan_topk_job scan = {};
    scan.rows = job.rows;
    scan.norms = job.norms;
    scan.ids = job.ids;
    scan.count = job.count;
    scan.stride = direct_stride(job);
    scan.k = job.k;
    scan.limit_key = job.limit_key;
    scan.lower_is_better = job.lower_is_better;
    struct topk_entry *list = warp_lists + threadIdx.x / 32 * job.k;
    for (uint32_t place = threadIdx.x % 32; place < job.k; place += 32)
        entry_write(&list[place], entry_worst());
    if (is_clerk()) ticket_prepare(job.ticket, job.mark);
    if (threadIdx.x == 0) shared.next_tile = blockDim.x / 32;
    direct_unpack(job, query);
    __syncthreads();
    struct scan_query asked = {query, job.query_norm, job.is_cosine};
    scan_into<GROUP, EUCLIDEAN, false, true>(scan, asked, list, &shared.next_tile);
    __syncthreads();

    struct best_source from = {warp_lists, blockDim.x / 32, job.k};
    uint32_t k = job.kept;
#pragma unroll 1 /* without unrolling, the second pass finds its instructions in the cache */
    for (bool first = true;; first = false) {
        best_of(from, k, &shared);
        if (!first) break;
        block_leave(job.lists, job.kept, &shared);
        if (!block_count(job.ticket, job.mark, false, &shared)) return;
        from.lists = job.lists;
        from.count = gridDim.x;
        from.length = job.kept;
        k = job.k;
    }
    cells_store_best(job.cells, job.tag, job.k, &shared);
}

/* ---- launching ---- */

static_assert(DIRECT_DIMENSION * sizeof(float) <= SCAN_TOPK_SURVIVORS * sizeof(struct topk_entry),
              "the query fits the survivors' place");
static_assert(DIRECT_DIMENSION <= DIRECT_STEPS * 32, "a row fits its registers");
static_assert((int)DIRECT_DIMENSION <= (int)VECTOR_COMPENSATED_ABOVE, "no sum is compensated");

extern "C" uint32_t cuda_direct_dimension(void)
{
    return DIRECT_DIMENSION;
}

/* One block's list. */
extern "C" uint64_t cuda_direct_scratch_min(uint32_t k)
{
    return k ? SCAN_TOPK_ALIGN + k * sizeof(struct topk_entry) : 0;
}

extern "C" uint64_t cuda_direct_scratch_best(uint32_t k)
{
    return k ? scan_topk_scratch(k) : 0;
}

static struct direct_job direct_job_of(enum metric metric, const struct cuda_rows *rows,
                                       const struct cuda_direct *direct)
{
    struct direct_job job;
    job.rows = rows->rows;
    job.norms = rows->norms;
    job.ids = direct->ids;
    job.mark = direct->k ? scan_topk_mark() : 0;
    job.ticket = (unsigned long long *)direct->scratch;
    job.lists = (struct topk_entry *)((char *)direct->scratch + SCAN_TOPK_ALIGN);
    job.cells = (unsigned long long *)direct->cells;
    job.count = rows->count;
    job.dimension = rows->dimension;
    job.share = 0;
    job.k = direct->k;
    job.kept = 0;
    job.is_cosine = metric == METRIC_COSINE;
    job.lower_is_better = metric_lower_is_better(metric);
    job.limit_key = direct->threshold ? topk_key(*direct->threshold, job.lower_is_better) : ~0u - 1;
    job.tag = direct->tag;
    job.query_norm = direct->query_norm;
    memcpy(job.query, direct->query, rows->dimension * sizeof *job.query);
    memset(job.query + rows->dimension, 0, sizeof job.query - rows->dimension * sizeof *job.query);
    return job;
}

static void direct_scores_enqueue(const struct direct_job *job, cudaStream_t stream)
{
    unsigned blocks = blocks_for(job->count, DIRECT_WARPS);
    if (job->lower_is_better)
        direct_scores<true><<<blocks, DIRECT_WARPS * 32, 0, stream>>>(*job);
    else
        direct_scores<false><<<blocks, DIRECT_WARPS * 32, 0, stream>>>(*job);
}

/* False: there are too many rows, or too little scratch for as many blocks. */
static bool direct_few_enqueue(struct direct_job *job, unsigned processors, uint64_t scratch_bytes,
                               cudaStream_t stream)
{
    uint64_t blocks = blocks_for(job->count, DIRECT_WARPS);
    if (blocks > processors) blocks = processors;
    if (blocks > SCAN_TOPK_BLOCKS) blocks = SCAN_TOPK_BLOCKS;
    if (job->count == 0 || job->count > blocks * DIRECT_SHARE) return false;
    job->share = (uint32_t)((job->count + blocks - 1) / blocks);
    blocks = blocks_for(job->count, job->share);
    job->kept = job->share < job->k ? job->share : job->k;
    if (SCAN_TOPK_ALIGN + blocks * job->kept * sizeof(struct topk_entry) > scratch_bytes)
        return false;
    unsigned threads = SCAN_TOPK_BUCKETS; /* the least that select */
    while (threads < SCAN_TOPK_THREADS && job->share > threads / 32)
        threads *= 2;
    if (job->lower_is_better)
        direct_few<true><<<(unsigned)blocks, threads, 0, stream>>>(*job);
    else
        direct_few<false><<<(unsigned)blocks, threads, 0, stream>>>(*job);
    return true;
}

static int direct_many_enqueue(struct direct_job *job, unsigned processors, uint64_t scratch_bytes,
                               cudaStream_t stream)
{
    struct scan_topk_shape shape = scan_topk_shape_of(job->count, job->k, processors);
    job->kept = scan_topk_kept(&shape, job->count, job->k, scratch_bytes);
    if (job->kept == 0) return cudaErrorInvalidValue;
    size_t bytes = shape.threads / 32 * job->k * sizeof(struct topk_entry);
    if (shape.group == 32 && job->lower_is_better)
        direct_many<32, true><<<shape.blocks, shape.threads, bytes, stream>>>(*job);
    else if (shape.group == 32)
        direct_many<32, false><<<shape.blocks, shape.threads, bytes, stream>>>(*job);
    else if (job->lower_is_better)
        direct_many<8, true><<<shape.blocks, shape.threads, bytes, stream>>>(*job);
    else
        direct_many<8, false><<<shape.blocks, shape.threads, bytes, stream>>>(*job);
    return cudaSuccess;
}

extern "C" int cuda_direct(enum metric metric, const struct cuda_rows *rows,
                           const struct cuda_direct *direct, struct CUstream_st *stream)
{
    if (rows->dimension > DIRECT_DIMENSION || direct->k > CUDA_DIRECT_K_MAX || direct->tag == 0)
        return cudaErrorInvalidValue;
    if (direct->k == 0 && rows->count == 0) return cudaSuccess;
    struct direct_job job = direct_job_of(metric, rows, direct);
    int processors = 1, error = cudaSuccess;
    if (job.k == 0)
        direct_scores_enqueue(&job, stream);
    else
        error = device_attribute(cudaDevAttrMultiProcessorCount, &processors);
    if (error) return error;
    if (job.k && !direct_few_enqueue(&job, (unsigned)processors, direct->scratch_bytes, stream))
        error = direct_many_enqueue(&job, (unsigned)processors, direct->scratch_bytes, stream);
    return error ? error : cudaGetLastError();
}
