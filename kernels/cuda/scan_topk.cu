/* scan_topk: the few best rows of one query in one launch. Every warp keeps the best of its rows
 * in shared memory, every block writes the best of its warps to scratch, and the last block to
 * finish selects the best of the blocks. */
#include "kernels/cuda/scan_topk.cuh"

#include <unistd.h>

template <int GROUP, bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(SCAN_TOPK_THREADS, 1)
    scan_topk_kernel(const struct scan_topk_job job)
{
    extern __shared__ __align__(16) struct topk_entry warp_lists[];
    __shared__ struct best_shared shared;
    struct topk_entry *list = warp_lists + threadIdx.x / 32 * job.k;
    for (uint32_t place = threadIdx.x % 32; place < job.k; place += 32)
        entry_write(&list[place], entry_worst());
    if (is_clerk()) ticket_prepare(job.ticket, job.mark);
    /* each warp has a first tile already */
    if (threadIdx.x == 0) shared.next_tile = blockDim.x / 32;
    __syncthreads();
    struct scan_query query = {job.query, 0.0f, job.query_norm != NULL};
    if (query.is_cosine) query.norm = __ldg(job.query_norm);
    scan_into<GROUP, EUCLIDEAN, COMPENSATED, false>(job, query, list, &shared.next_tile);
    __syncthreads();

    struct best_source from = {warp_lists, blockDim.x / 32, job.k};
    uint32_t k = job.kept;
#pragma unroll 1 /* without unrolling, the second pass finds its instructions in the cache */
    for (bool first = true;; first = false) {
        if (first || !job.sparse)
            best_of(from, k, &shared);
        else
            best_of_blocks(from, k, &shared);
        if (!first) break;
        block_leave(job.lists, job.kept, &shared);
        if (!block_count(job.ticket, job.mark, true, &shared)) return;
        from.lists = job.lists;
        from.count = gridDim.x;
        from.length = job.kept;
        k = job.k;
    }
    if (threadIdx.x >= job.k) return;
    struct topk_entry entry = shared.best[threadIdx.x];
    uint32_t found = threadIdx.x + 1;
    bool last = found == job.k || shared.best[found].key == ~0u;
    if (entry.key != ~0u) {
        job.out_ids[threadIdx.x] = entry.id;
        job.out_scores[threadIdx.x] = entry.score;
        if (last) *job.out_count = found;
    } else if (threadIdx.x == 0) {
        *job.out_count = 0;
    }
}

/* Splitmix64 over a counter with a random start: it differs from launch to launch, and no client
 * can have left the next values in memory. */
unsigned long long scan_topk_mark(void)
{
    static uint64_t counter;
    const uint64_t step = 0x9e3779b97f4a7c15u;
    uint64_t none = 0;
    if (__atomic_load_n(&counter, __ATOMIC_RELAXED) == 0) {
        uint64_t begin = step;
        if (getentropy(&begin, sizeof begin)) begin = step; /* as good, but predictable */
        __atomic_compare_exchange_n(&counter, &none, begin, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    }
    uint64_t z = __atomic_add_fetch(&counter, step, __ATOMIC_RELAXED);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) << SCAN_TOPK_COUNT_BITS;
}

uint64_t scan_topk_scratch(uint32_t k)
{
    return SCAN_TOPK_ALIGN + (uint64_t)SCAN_TOPK_BLOCKS * k * sizeof(struct topk_entry);
}

struct scan_topk_shape scan_topk_shape_of(uint64_t count, uint32_t k, unsigned processors)
{
    bool is_row_a_warp = count <= (uint64_t)processors * SCAN_TOPK_THREADS / 32;
    struct scan_topk_shape shape = {is_row_a_warp ? 32u : 8u, SCAN_TOPK_THREADS, 0};
    while (shape.threads / 32 * k * sizeof(struct topk_entry) > SCAN_TOPK_LISTS_BYTES)
        shape.threads /= 2;
    unsigned most = SCAN_TOPK_THREADS / shape.threads * processors;
    while (shape.threads > 256 && count <= (uint64_t)processors * shape.threads / 2 / shape.group)
        shape.threads /= 2;
    uint64_t blocks = count ? blocks_for(count, shape.threads / shape.group) : 1;
    shape.blocks = (unsigned)(blocks < most ? blocks : most);
    return shape;
}

uint32_t scan_topk_kept(struct scan_topk_shape *shape, uint64_t count, uint32_t k,
                        uint64_t scratch_bytes)
{
    uint64_t left = scratch_bytes, blocks = shape->blocks;
    left = left > SCAN_TOPK_ALIGN ? left - SCAN_TOPK_ALIGN : 0;
    left /= k * sizeof(struct topk_entry);
    if (blocks > SCAN_TOPK_BLOCKS) blocks = SCAN_TOPK_BLOCKS;
    if (blocks > left) blocks = left; /* less scratch means fewer blocks */
    if (blocks == 0) return 0;
    shape->blocks = (unsigned)blocks;
    uint64_t a_round = shape->threads / shape->group * blocks;
    uint64_t rounds = (count + a_round - 1) / a_round;
    uint64_t of_a_block = (rounds ? rounds : 1) * (shape->threads / shape->group);
    return of_a_block < k ? (uint32_t)of_a_block : k;
}

template <int GROUP>
static void scan_topk_choose(const struct scan_topk_job *job, const struct scan_topk_shape *shape,
                             bool compensated, cudaStream_t stream)
{
    size_t bytes = shape->threads / 32 * job->k * sizeof(struct topk_entry);
    if (job->lower_is_better && compensated)
        scan_topk_kernel<GROUP, true, true><<<shape->blocks, shape->threads, bytes, stream>>>(*job);
    else if (job->lower_is_better)
        scan_topk_kernel<GROUP, true, false>
            <<<shape->blocks, shape->threads, bytes, stream>>>(*job);
    else if (compensated)
        scan_topk_kernel<GROUP, false, true>
            <<<shape->blocks, shape->threads, bytes, stream>>>(*job);
    else
        scan_topk_kernel<GROUP, false, false>
            <<<shape->blocks, shape->threads, bytes, stream>>>(*job);
}

static int scan_topk_enqueue(enum metric metric, const struct cuda_queries *query,
                             const struct cuda_rows *rows, const struct cuda_topk *topk,
                             struct scan_topk_shape shape, cudaStream_t stream)
{
    uint32_t kept = scan_topk_kept(&shape, rows->count, topk->k, topk->scratch_bytes);
    if (kept == 0) return cudaErrorInvalidValue;
    struct scan_topk_job job = {};
    job.query = query->rows;
    job.query_norm = metric == METRIC_COSINE ? query->norms : NULL;
    job.rows = rows->rows;
    job.norms = rows->norms;
    job.ids = topk->ids;
    job.first_id = topk->first_id;
    job.filter = topk->filter;
    job.count = rows->count;
    job.mark = scan_topk_mark();
    job.ticket = (unsigned long long *)topk->scratch;
    job.lists = (struct topk_entry *)((char *)topk->scratch + SCAN_TOPK_ALIGN);
    job.out_ids = topk->out_ids;
    job.out_scores = topk->out_scores;
    job.out_count = topk->out_counts;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    job.k = topk->k;
    job.kept = kept;
    job.lower_is_better = metric_lower_is_better(metric);
    job.sparse = topk->threshold && topk->k > SCAN_TOPK_FEW;
    job.limit_key = topk->threshold ? topk_key(*topk->threshold, job.lower_is_better) : ~0u - 1;
    bool compensated = canonical_is_compensated(rows->dimension);
    if (shape.group == 32)
        scan_topk_choose<32>(&job, &shape, compensated, stream);
    else
        scan_topk_choose<8>(&job, &shape, compensated, stream);
    return cudaGetLastError();
}

int scan_topk_launch(enum metric metric, const struct cuda_queries *query,
                     const struct cuda_rows *rows, const struct cuda_topk *topk,
                     cudaStream_t stream)
{
    int device = 0, processors = 1;
    cudaError_t error = cudaGetDevice(&device);
    if (!error) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error) return error;
    return scan_topk_enqueue(metric, query, rows, topk,
                             scan_topk_shape_of(rows->count, topk->k, (unsigned)processors),
                             stream);
}
