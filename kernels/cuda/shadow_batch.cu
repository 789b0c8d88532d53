/* shadow_batch: the k best rows of many queries through a shadow. A sample of the rows gives each
 * query a first proven bound; all rows are held against it by tensor cores (shadow_tile.cu), which
 * list what may reach it, some hundred for each place. Of the list the best by estimate are scored:
 * a bound almost as good as the answer. What may reach that is scored, and the best selected. */
#include "kernels/cuda/shadow_best.cuh"

enum {
    BATCH_K_MAX = SCAN_TOPK_K_MAX,
    BATCH_ROWS_MIN = 32768,
    BATCH_STEP = 16, /* each 16th tile is in the sample, */
    BATCH_STEP_LEAST = 4,
    BATCH_FEW = 16,            /* for up to this k */
    BATCH_MAXIMA_A_PLACE = 3,  /* so many more maxima than k */
    BATCH_QUERIES_MAX = 16384, /* at a time: what lists are for is bounded by scratch, too */
    BATCH_THREADS = 256        /* of a block that codes */
};

struct batch_queries {
    const float *rows, *norms, *centre;
    uint64_t count;
    uint32_t stride, plane_stride;
    int8_t *planes;
    struct shadow_query *coded;
    uint32_t *passed, *list_counts, *best_counts; /* out: 0 */
};

__global__ void __launch_bounds__(BATCH_THREADS) batch_query_kernel(const struct batch_queries job)
{
    const uint64_t query = ((uint64_t)blockIdx.x * BATCH_THREADS + threadIdx.x) / 32;
    if (query >= job.count) return; /* the whole warp */
    struct shadow_query coded =
        shadow_query_warp(job.stride, job.plane_stride, job.rows + query * job.stride,
                          job.norms[query], job.centre, 1, job.planes + query * job.plane_stride);
    if (threadIdx.x % 32 != 0) return;
    job.coded[query] = coded;
    job.passed[query] = 0;
    job.list_counts[query] = 0;
    job.best_counts[query] = 0;
}

/* A list becomes the candidates of its query, in place. */
template <bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(BEST_THREADS)
    batch_finish_kernel(const struct best_job job, const uint32_t *passed)
{
    __shared__ struct best_shared shared;
    __shared__ struct screen_line line;
    __shared__ uint32_t listed[BATCH_LIST], count;
    const uint64_t query = blockIdx.x;
    const uint32_t length = passed[query];
    const struct topk_entry *list = job.sink.lists + query * job.sink.list_stride;
    if (length > BATCH_LIST) { /* it is not whole */
        if (threadIdx.x == 0 && job.work) atomicAdd(&job.work->redone, 1ull);
        return;
    }
    const struct topk_bound limit = job.bounds[query];
    const struct best_source from = {list, length, 1};
    if (length >= job.k) best_choose<EUCLIDEAN, COMPENSATED>(job, query, from, limit, &shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        line = best_line(job, query);
        count = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < length; i += BEST_THREADS) {
        struct topk_entry entry = entry_read(&list[i]);
        float floor = screen_floor(&job.terms, job.norms[entry.id]);
        if (entry.score < fmaf(line.scale, floor, line.offset)) continue;
        listed[atomicAdd(&count, 1u)] = (uint32_t)entry.id;
    }
    __syncthreads();
    if (count) best_offer<EUCLIDEAN, COMPENSATED>(job, query, 0, listed, count);
}

/* Tells which queries must be asked again. */
__global__ void __launch_bounds__(BATCH_THREADS)
    batch_tell_kernel(const uint32_t *passed, uint64_t count, uint32_t *out_counts)
{
    const uint64_t query = (uint64_t)blockIdx.x * BATCH_THREADS + threadIdx.x;
    if (query < count && passed[query] > BATCH_LIST) out_counts[query] = CUDA_SHADOW_REDO;
}

/* ---- launching ---- */

struct batch_layout {
    uint64_t coded, bounds, passed, list_counts, best_counts, planes, maxima, next, lists, end;
    uint32_t maxima_count, plane_stride;
};

static uint32_t batch_step(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    uint32_t step = k <= BATCH_FEW ? BATCH_STEP : BATCH_STEP_LEAST;
    while (step > BATCH_STEP_LEAST &&
           shadow_tile_maxima(query_count, row_count, step) < BATCH_MAXIMA_A_PLACE * k)
        step /= 2;
    return step;
}

static struct batch_layout batch_layout_of(uint64_t query_count, uint32_t k, uint64_t row_count,
                                           uint32_t dimension)
{
    struct batch_layout at = {};
    const uint64_t counts = shadow_align(query_count * sizeof(uint32_t));
    at.plane_stride = (uint32_t)(shadow_stride(dimension) + 127) / 128 * 128;
    at.maxima_count =
        shadow_tile_maxima(query_count, row_count, batch_step(query_count, k, row_count));
    at.bounds = at.coded + shadow_align(query_count * sizeof(struct shadow_query));
    at.passed = at.bounds + shadow_align(query_count * sizeof(struct topk_bound));
    at.list_counts = at.passed + counts;
    at.best_counts = at.list_counts + counts;
    at.planes = at.best_counts + counts;
    at.maxima = at.planes + shadow_align(query_count * at.plane_stride);
    at.next = at.maxima + shadow_align(query_count * at.maxima_count * sizeof(struct topk_entry));
    at.lists = at.next + shadow_align(query_count * k * sizeof(struct topk_entry));
    at.end = at.lists + shadow_align(query_count * BATCH_LIST * sizeof(struct topk_entry));
    return at;
}

bool shadow_batch_suits(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    return query_count <= BATCH_QUERIES_MAX && k <= BATCH_K_MAX && row_count >= BATCH_ROWS_MIN &&
           shadow_tile_runs() &&
           shadow_tile_maxima(query_count, row_count, batch_step(query_count, k, row_count)) >=
               BATCH_MAXIMA_A_PLACE * k;
}

uint64_t shadow_batch_scratch(uint64_t query_count, uint32_t k, uint64_t row_count,
                              uint32_t dimension)
{
    return batch_layout_of(query_count, k, row_count, dimension).end;
}

static int batch_code(const struct cuda_queries *queries, const struct cuda_rows *rows,
                      const struct cuda_shadow *shadow, char *scratch,
                      const struct batch_layout *at, cudaStream_t stream)
{
    struct batch_queries job = {};
    job.rows = queries->rows;
    job.norms = queries->norms;
    job.centre = shadow->centre;
    job.count = queries->count;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    job.plane_stride = at->plane_stride;
    job.planes = (int8_t *)(scratch + at->planes);
    job.coded = (struct shadow_query *)(scratch + at->coded);
    job.passed = (uint32_t *)(scratch + at->passed);
    job.list_counts = (uint32_t *)(scratch + at->list_counts);
    job.best_counts = (uint32_t *)(scratch + at->best_counts);
    batch_query_kernel<<<blocks_for(queries->count, BATCH_THREADS / 32), BATCH_THREADS, 0,
                         stream>>>(job);
    return cudaGetLastError();
}

static struct shadow_tile batch_tile(enum metric metric, const struct cuda_queries *queries,
                                     const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                                     const struct best_job *best, char *scratch,
                                     const struct batch_layout *at)
{
    struct shadow_tile tile = {};
    tile.planes = (int8_t *)(scratch + at->planes);
    tile.coded = (struct shadow_query *)(scratch + at->coded);
    tile.query_norms = queries->norms;
    tile.rows = shadow_rows_of(shadow, rows->count);
    tile.norms = rows->norms;
    tile.filter = best->sink.filter;
    tile.metric = metric;
    tile.lower_is_better = best->lower_is_better;
    tile.screen = best->screen;
    tile.terms = best->terms;
    tile.query_count = queries->count;
    tile.code_stride = (uint32_t)shadow_stride(rows->dimension);
    tile.plane_stride = at->plane_stride;
    tile.chunks = at->plane_stride / 128;
    tile.maxima_count = at->maxima_count;
    tile.bounds = best->bounds;
    tile.counts = (uint32_t *)(scratch + at->passed);
    tile.lists = best->sink.lists;
    tile.most = BATCH_LIST;
    return tile;
}

static int batch_finish(const struct best_job *job, const uint32_t *passed, uint64_t query_count,
                        bool compensated, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)query_count;
    if (job->lower_is_better && compensated)
        batch_finish_kernel<true, true><<<blocks, BEST_THREADS, 0, stream>>>(*job, passed);
    else if (job->lower_is_better)
        batch_finish_kernel<true, false><<<blocks, BEST_THREADS, 0, stream>>>(*job, passed);
    else if (compensated)
        batch_finish_kernel<false, true><<<blocks, BEST_THREADS, 0, stream>>>(*job, passed);
    else
        batch_finish_kernel<false, false><<<blocks, BEST_THREADS, 0, stream>>>(*job, passed);
    return cudaGetLastError();
}

static int batch_select(const struct best_job *job, const struct cuda_topk *topk, char *scratch,
                        const struct batch_layout *at, uint64_t query_count, cudaStream_t stream)
{
    struct select_round round = {};
    round.k = topk->k;
    round.sort = 1;
    round.list_stride = BATCH_LIST;
    round.lists = job->sink.lists;
    round.list_counts = job->sink.counts;
    round.best = (struct topk_entry *)(scratch + at->next); /* none of it */
    round.best_counts = (uint32_t *)(scratch + at->best_counts);
    round.next = (struct topk_entry *)(scratch + at->next);
    round.next_counts = topk->out_counts;
    round.bounds = job->bounds;
    round.out_ids = topk->out_ids;
    round.out_scores = topk->out_scores;
    int error = select_launch(&round, query_count, stream);
    if (error) return error;
    batch_tell_kernel<<<blocks_for(query_count, BATCH_THREADS), BATCH_THREADS, 0, stream>>>(
        (uint32_t *)(scratch + at->passed), query_count, topk->out_counts);
    return cudaGetLastError();
}

/* Of a search of many queries: where its pieces of scratch lie, and the bounds. */
struct batch_call {
    struct batch_layout at;
    struct best_job best;
    struct shadow_tile tile;
};

/* Codes the queries. False: there is too little scratch, or *error. */
static bool batch_begin(enum metric metric, const struct cuda_queries *queries,
                        const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                        const struct cuda_topk *topk, struct batch_call *call, int *error,
                        cudaStream_t stream)
{
    char *scratch = (char *)topk->scratch;
    call->at = batch_layout_of(queries->count, topk->k, rows->count, rows->dimension);
    *error = cudaErrorInvalidValue;
    if (topk->scratch_bytes < call->at.end) return false;
    call->best = best_job_of(metric, queries, rows, topk);
    call->best.bounds = (struct topk_bound *)(scratch + call->at.bounds);
    call->best.sink.lists = (struct topk_entry *)(scratch + call->at.lists);
    call->best.sink.counts = (uint32_t *)(scratch + call->at.list_counts);
    call->best.sink.bounds = call->best.bounds;
    call->best.sink.list_stride = BATCH_LIST;
    *error = batch_code(queries, rows, shadow, scratch, &call->at, stream);
    call->tile = batch_tile(metric, queries, rows, shadow, &call->best, scratch, &call->at);
    return *error == cudaSuccess;
}

/* The best of a sample, for the first bounds. */
static int batch_sample(const struct batch_call *call, const struct cuda_rows *rows,
                        const struct cuda_topk *topk, unsigned processors, cudaStream_t stream)
{
    struct shadow_tile sample = call->tile;
    sample.step = batch_step(sample.query_count, topk->k, rows->count);
    sample.maxima = (struct topk_entry *)((char *)topk->scratch + call->at.maxima);
    return shadow_tile_launch(&sample, processors, stream);
}

int shadow_batch_topk(enum metric metric, const struct cuda_queries *queries,
                      const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                      const struct cuda_topk *topk, cudaStream_t stream)
{
    const uint64_t count = queries->count;
    const bool compensated = canonical_is_compensated(rows->dimension);
    const unsigned processors = shadow_processors();
    char *scratch = (char *)topk->scratch;
    struct batch_call call = {};
    int error;
    if (!batch_begin(metric, queries, rows, shadow, topk, &call, &error, stream)) return error;
    const struct topk_entry *maxima = (struct topk_entry *)(scratch + call.at.maxima);
    error = batch_sample(&call, rows, topk, processors, stream);
    if (!error)
        error = shadow_choose_launch(&call.best, maxima, call.at.maxima_count, count, compensated,
                                     stream);
    call.tile.step = 1;
    if (!error) error = shadow_tile_launch(&call.tile, processors, stream);
    if (!error) error = batch_finish(&call.best, call.tile.counts, count, compensated, stream);
    return error ? error : batch_select(&call.best, topk, scratch, &call.at, count, stream);
}

int shadow_batch_list(enum metric metric, const struct cuda_queries *queries,
                      const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                      const struct cuda_topk *topk, const struct cuda_shadow_list *list,
                      cudaStream_t stream)
{
    const uint64_t count = queries->count;
    const unsigned processors = shadow_processors();
    char *scratch = (char *)topk->scratch;
    struct batch_call call = {};
    struct list_job job = {};
    int error;
    if (!batch_begin(metric, queries, rows, shadow, topk, &call, &error, stream)) return error;
    job.best = call.best;
    job.planes = call.tile.planes;
    job.plane_stride = call.tile.plane_stride;
    job.code_stride = call.tile.code_stride;
    job.coded = call.tile.coded;
    job.rows = call.tile.rows;
    job.out = *list;
    const struct topk_entry *maxima = (struct topk_entry *)(scratch + call.at.maxima);
    error = batch_sample(&call, rows, topk, processors, stream);
    if (!error) error = list_choose_launch(&job, maxima, call.at.maxima_count, count, stream);
    call.tile.step = 1;
    if (!error) error = shadow_tile_launch(&call.tile, processors, stream);
    return error ? error : list_finish_launch(&job, call.tile.counts, count, stream);
}
