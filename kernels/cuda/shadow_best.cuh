/* shadow_best: canonical scores of rows that a shadow leaves, and the bound that k of them prove.
 * Device code, and what the launchers of shadow_topk.cu and shadow_batch.cu share. */
#ifndef ENGRAM_KERNELS_CUDA_SHADOW_BEST_CUH
#define ENGRAM_KERNELS_CUDA_SHADOW_BEST_CUH

#include "kernels/cuda/scan_topk.cuh"
#include "kernels/cuda/shadow.cuh"

enum {
    BEST_THREADS = 1024, /* of a block that chooses */
    BEST_WARPS_UP_TO = 2 /* times its warps: rows that a block scores by a warp each */
};

struct best_job {
    const float *queries, *query_norms;
    const float *rows, *norms;
    uint32_t stride;
    uint32_t k;
    uint32_t limit_key; /* the threshold's */
    bool is_cosine, lower_is_better;
    struct screen screen;
    struct screen_terms terms;
    struct topk_bound *bounds; /* the sink's */
    struct candidate_sink sink;
    struct cuda_topk_work *work;
};

template <int GROUP, bool EUCLIDEAN, bool COMPENSATED>
__device__ __forceinline__ float best_score(const struct best_job &job, uint64_t query,
                                            uint64_t row)
{
    float score = sum_rows<GROUP, EUCLIDEAN, COMPENSATED>(job.queries + query * job.stride,
                                                          job.rows + row * job.stride, job.stride);
    return job.is_cosine ? canonical_cosine(score, job.query_norms[query], job.norms[row]) : score;
}

template <int GROUP, bool EUCLIDEAN, bool COMPENSATED>
__device__ __forceinline__ struct topk_entry best_entry(const struct best_job &job, uint64_t query,
                                                        uint64_t row)
{
    struct topk_entry entry;
    entry.score = best_score<GROUP, EUCLIDEAN, COMPENSATED>(job, query, row);
    entry.id = job.sink.ids ? job.sink.ids[row] : job.sink.first_id + row;
    entry.key = sink_key(entry.score, job.lower_is_better);
    return entry;
}

__device__ __forceinline__ void keep_worse(struct topk_entry *mine, uint32_t key, uint64_t id)
{
    if (key < mine->key || (key == mine->key && id <= mine->id)) return;
    mine->key = key;
    mine->id = id;
}

/* The worst of the entries from the first on, each step-th, of a warp's lanes. */
__device__ __forceinline__ struct topk_entry best_worst(const struct topk_entry *entries,
                                                        uint32_t count, uint32_t first,
                                                        uint32_t step)
{
    struct topk_entry worst = {0, 0, 0.0f};
    for (uint32_t i = first; i < count; i += step)
        keep_worse(&worst, entries[i].key, entries[i].id);
    for (int partner = 16; partner > 0; partner /= 2) {
        uint64_t id = __shfl_xor_sync(WARP, worst.id, partner);
        keep_worse(&worst, __shfl_xor_sync(WARP, worst.key, partner), id);
    }
    return worst;
}

/* The worst of `count` entries is the bound if they are k and it is better than `limit`. */
__device__ __forceinline__ void best_prove(const struct best_job &job, uint64_t query,
                                           const struct topk_entry &worst, uint32_t count,
                                           struct topk_bound limit)
{
    if (count == job.k && worst.key < limit.key) {
        limit.id = worst.id;
        limit.key = worst.key;
    }
    job.bounds[query] = limit;
}

/* Chooses the k best of a list of rows (k <= SCAN_TOPK_K_MAX), and proves a bound by what
 * entry_of(row), which all lanes of a warp call, says of each. */
template <typename EntryOf>
__device__ __forceinline__ void best_choose_by(const struct best_job &job, uint64_t query,
                                               const struct best_source &from,
                                               struct topk_bound limit, struct best_shared *shared,
                                               EntryOf entry_of)
{
    __shared__ uint32_t found;
    if (threadIdx.x == 0) found = 0;
    best_of(from, job.k, shared);
    for (uint32_t i = threadIdx.x / 32; i < job.k; i += BEST_THREADS / 32) {
        if (shared->best[i].key == ~0u) break; /* and all behind it */
        struct topk_entry entry = entry_of(shared->best[i].id);
        __syncwarp(); /* all lanes have read */
        if (threadIdx.x % 32 != 0) continue;
        shared->best[i] = entry;
        atomicAdd(&found, 1u);
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    struct topk_entry worst = best_worst(shared->best, found, threadIdx.x, 32);
    if (threadIdx.x == 0) best_prove(job, query, worst, found, limit);
}

/* By their canonical scores. */
template <bool EUCLIDEAN, bool COMPENSATED>
__device__ __forceinline__ void best_choose(const struct best_job &job, uint64_t query,
                                            const struct best_source &from, struct topk_bound limit,
                                            struct best_shared *shared)
{
    best_choose_by(job, query, from, limit, shared, [&](uint64_t row) {
        return best_entry<32, EUCLIDEAN, COMPENSATED>(job, query, row);
    });
}

__device__ __forceinline__ struct screen_line best_line(const struct best_job &job, uint64_t query)
{
    const float bound = sink_score(job.bounds[query].key, job.lower_is_better);
    const struct screen_line all = {0.0f, -INFINITY};
    return isnan(bound) ? all : screen_line(&job.screen, job.query_norms[query], bound);
}

template <int GROUP, bool EUCLIDEAN, bool COMPENSATED>
__device__ __forceinline__ void best_offer_by(const struct best_job &job, uint64_t query,
                                              uint64_t first, const uint32_t *listed,
                                              uint32_t count)
{
    const uint32_t groups = blockDim.x / GROUP, bound_key = job.bounds[query].key;
    for (uint32_t n = 0; n < count; n += groups) {
        /* Groups past the end repeat the last row: a warp's shuffles need all its threads. */
        uint32_t i = n + threadIdx.x / GROUP;
        uint64_t row = first + listed[i < count ? i : count - 1];
        float score = best_score<GROUP, EUCLIDEAN, COMPENSATED>(job, query, row);
        if (i >= count || threadIdx.x % GROUP != 0) continue;
        sink_offer(&job.sink, query, row, score, job.lower_is_better, bound_key);
    }
}

/* Offers the canonical scores of the listed rows, counted from `first`; by all of the block. */
template <bool EUCLIDEAN, bool COMPENSATED>
__device__ __forceinline__ void best_offer(const struct best_job &job, uint64_t query,
                                           uint64_t first, const uint32_t *listed, uint32_t count)
{
    if (threadIdx.x == 0 && job.work) atomicAdd(&job.work->passed, (unsigned long long)count);
    if (count <= BEST_WARPS_UP_TO * blockDim.x / 32)
        best_offer_by<32, EUCLIDEAN, COMPENSATED>(job, query, first, listed, count);
    else
        best_offer_by<8, EUCLIDEAN, COMPENSATED>(job, query, first, listed, count);
}

/* ---- launching ---- */

static inline struct best_job best_job_of(enum metric metric, const struct cuda_queries *queries,
                                          const struct cuda_rows *rows,
                                          const struct cuda_topk *topk)
{
    struct best_job job = {};
    job.queries = queries->rows;
    job.query_norms = queries->norms;
    job.rows = rows->rows;
    job.norms = rows->norms;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    job.k = topk->k;
    job.is_cosine = metric == METRIC_COSINE;
    job.lower_is_better = metric_lower_is_better(metric);
    job.limit_key = topk->threshold ? topk_key(*topk->threshold, job.lower_is_better) : ~0u;
    job.screen = screen_of_shadow(metric, rows->dimension);
    job.terms = screen_terms(&job.screen);
    job.sink.ids = topk->ids;
    job.sink.first_id = topk->first_id;
    job.sink.filter = topk->filter;
    job.work = topk->work;
    return job;
}

/* For each query the best of maxima_count rows of `maxima` prove its first bound. */
int shadow_choose_launch(const struct best_job *job, const struct topk_entry *maxima,
                         uint32_t maxima_count, uint64_t query_count, bool compensated,
                         cudaStream_t stream);

static inline uint64_t shadow_align(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static inline unsigned shadow_processors(void)
{
    int processors = 0;
    return device_attribute(cudaDevAttrMultiProcessorCount, &processors) ? 1 : (unsigned)processors;
}

/* One query: the way from its scan to its k best, or its list. */
struct shadow_layout {
    uint64_t query, counts, bounds, planes, above, maxima, chosen, next, lists, end;
    uint64_t maxima_count;
    uint32_t segment;
};
struct shadow_call {
    enum metric metric;
    const struct cuda_queries *queries;
    const struct cuda_rows *rows;
    const struct cuda_shadow *shadow;
    unsigned processors;
    struct shadow_layout at;
    char *scratch;
    struct select_round chosen, round;
};
struct shadow_call shadow_call_of(enum metric metric, const struct cuda_queries *queries,
                                  const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                                  uint32_t k, void *scratch);
/* Leaves shadow_above of each row, and the maxima. */
int shadow_scan_enqueue(const struct shadow_call *call, const struct cuda_filter *filter,
                        float *above, struct topk_entry *maxima, cudaStream_t stream);
/* The worst of *chosen_count entries is the bound, if they are k. */
int shadow_bound_launch(const struct best_job *job, const struct topk_entry *chosen,
                        const uint32_t *chosen_count, cudaStream_t stream);

/* cuda_shadow_topk for a few queries, in one launch, where it suits. */
bool shadow_few_suits(uint64_t query_count, uint32_t k, uint64_t row_count, uint32_t dimension);
uint64_t shadow_few_scratch(uint64_t query_count, uint64_t row_count);
int shadow_few_topk(enum metric metric, const struct cuda_queries *queries,
                    const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                    const struct cuda_topk *topk, cudaStream_t stream);
enum { SHADOW_FEW_MAX = 8 };

/* cuda_shadow_topk for more than one query. */
bool shadow_batch_suits(uint64_t query_count, uint32_t k, uint64_t row_count);
uint64_t shadow_batch_scratch(uint64_t query_count, uint32_t k, uint64_t row_count,
                              uint32_t dimension);
int shadow_batch_topk(enum metric metric, const struct cuda_queries *queries,
                      const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                      const struct cuda_topk *topk, cudaStream_t stream);

/* Without rows (shadow_list.cu). */
struct list_job {
    struct best_job best;
    const int8_t *planes;  /* of the queries, plane_stride bytes apart */
    uint32_t plane_stride; /* a second plane follows at code_stride, if `two` */
    uint32_t code_stride;
    bool two;
    const struct shadow_query *coded;
    struct shadow_rows rows;
    struct cuda_shadow_list out;
};
/* As shadow_choose_launch. */
int list_choose_launch(const struct list_job *job, const struct topk_entry *maxima,
                       uint32_t maxima_count, uint64_t query_count, cudaStream_t stream);
/* Of the lists that a tile left, `passed` long, at most `most`. */
int list_finish_launch(const struct list_job *job, const uint32_t *passed, uint64_t query_count,
                       cudaStream_t stream);
int shadow_batch_list(enum metric metric, const struct cuda_queries *queries,
                      const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                      const struct cuda_topk *topk, const struct cuda_shadow_list *list,
                      cudaStream_t stream);

enum { BATCH_LIST = 4096 }; /* pairs of a query among several */

#endif
