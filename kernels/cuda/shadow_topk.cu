/* shadow_topk: the k best rows of one query through its shadow. The scan (shadow_scan.cu) leaves
 * for each row what its dot product is at most, and the best rows of many segments by their
 * estimates. The canonical scores of the k best of those are a proven bound, whichever rows they
 * are: only rows that may reach it are scored, and the k best of them selected. */
#include "kernels/cuda/shadow_best.cuh"

enum {
    PASS_THREADS = 256,
    PASS_ROWS = 1024,          /* of a block */
    PASS_ROWS_FEW = 256,       /* the same, to use all multiprocessors */
    PASS_MANY = 1 << 18,       /* rows from which on blocks have PASS_ROWS */
    SHADOW_MAXIMA_A_PLACE = 3, /* so many more maxima than k */
    SHADOW_LEAST = 4,          /* rows of a segment */
    SHADOW_ROWS_MIN = 4096     /* fewer rows are scored as quickly */
};

/* ---- the query ---- */

/* Codes the query, and prepares what later kernels count in. */
__global__ void __launch_bounds__(32)
    shadow_query_kernel(const float *row, const float *norm, const float *centre, uint32_t stride,
                        uint32_t code_stride, int8_t *planes, struct shadow_query *query,
                        const struct select_round chosen, uint32_t maxima,
                        const struct select_round round)
{
    struct shadow_query coded =
        shadow_query_warp(stride, code_stride, row, *norm, centre, 2, planes);
    if (threadIdx.x != 0) return;
    *query = coded;
    *chosen.list_counts = maxima;
    *chosen.next_counts = 0;
    *round.list_counts = 0;
    *(uint32_t *)round.best_counts = 0;
}

/* ---- the bound ---- */

template <bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(BEST_THREADS)
    choose_few_kernel(const struct best_job job, const struct topk_entry *maxima, uint32_t count)
{
    __shared__ struct best_shared shared;
    const struct best_source from = {maxima + (uint64_t)blockIdx.x * count, count, 1};
    const struct topk_bound limit = {~0ull, job.limit_key};
    best_choose<EUCLIDEAN, COMPENSATED>(job, blockIdx.x, from, limit, &shared);
}

int shadow_choose_launch(const struct best_job *job, const struct topk_entry *maxima,
                         uint32_t maxima_count, uint64_t query_count, bool compensated,
                         cudaStream_t stream)
{
    const unsigned blocks = (unsigned)query_count;
    if (job->lower_is_better && compensated)
        choose_few_kernel<true, true>
            <<<blocks, BEST_THREADS, 0, stream>>>(*job, maxima, maxima_count);
    else if (job->lower_is_better)
        choose_few_kernel<true, false>
            <<<blocks, BEST_THREADS, 0, stream>>>(*job, maxima, maxima_count);
    else if (compensated)
        choose_few_kernel<false, true>
            <<<blocks, BEST_THREADS, 0, stream>>>(*job, maxima, maxima_count);
    else
        choose_few_kernel<false, false>
            <<<blocks, BEST_THREADS, 0, stream>>>(*job, maxima, maxima_count);
    return cudaGetLastError();
}

/* Any k: scores what select_kernel chose, in place. */
template <bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS)
    choose_many_kernel(const struct best_job job, struct topk_entry *chosen,
                       const uint32_t *chosen_count)
{
    const uint32_t count = *chosen_count, group = SUMS_THREADS / 8;
    uint32_t i = blockIdx.x * group + threadIdx.x / 8;
    if (blockIdx.x * group >= count) return;
    const struct topk_entry mine = chosen[i < count ? i : count - 1];
    const bool is_row = mine.key != ~0u; /* else fewer rows than k may enter */
    __syncthreads();                     /* groups past the end have read the last one, too */
    struct topk_entry entry = best_entry<8, EUCLIDEAN, COMPENSATED>(job, 0, is_row ? mine.id : 0);
    if (i < count && is_row && threadIdx.x % 8 == 0) chosen[i] = entry;
}

__global__ void __launch_bounds__(BEST_THREADS)
    choose_bound_kernel(const struct best_job job, const struct topk_entry *chosen,
                        const uint32_t *chosen_count)
{
    __shared__ struct topk_entry worst[BEST_THREADS / 32];
    const struct topk_bound limit = {~0ull, job.limit_key};
    struct topk_entry mine = best_worst(chosen, *chosen_count, threadIdx.x, BEST_THREADS);
    if (threadIdx.x % 32 == 0) worst[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    mine = best_worst(worst, BEST_THREADS / 32, threadIdx.x, 32);
    if (threadIdx.x == 0) best_prove(job, 0, mine, *chosen_count, limit);
}

int shadow_bound_launch(const struct best_job *job, const struct topk_entry *chosen,
                        const uint32_t *chosen_count, cudaStream_t stream)
{
    choose_bound_kernel<<<1, BEST_THREADS, 0, stream>>>(*job, chosen, chosen_count);
    return cudaGetLastError();
}

/* ---- what may reach the bound ---- */

template <bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(PASS_THREADS, SUMS_BLOCKS)
    pass_kernel(const struct best_job job, const float *above, uint64_t row_count, uint32_t share)
{
    __shared__ uint32_t listed[PASS_ROWS], count;
    __shared__ struct screen_line line;
    const uint64_t first = (uint64_t)blockIdx.x * share;
    if (threadIdx.x == 0) {
        line = best_line(job, 0);
        count = 0;
    }
    __syncthreads();
#pragma unroll 4
    for (uint32_t n = threadIdx.x; n < share; n += PASS_THREADS) {
        uint64_t row = first + n;
        if (row >= row_count) break;
        float floor = screen_floor(&job.terms, job.norms[row]);
        if (above[row] < fmaf(line.scale, floor, line.offset)) continue;
        if (job.sink.filter.allowed && !filter_passes(job.sink.filter, 0, row)) continue;
        listed[atomicAdd(&count, 1u)] = n;
    }
    __syncthreads();
    if (count) best_offer<EUCLIDEAN, COMPENSATED>(job, 0, first, listed, count);
}

/* Counts rows that a bound rules out which their own canonical score reaches. */
template <bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS)
    outside_kernel(const struct best_job job, const float *above, uint64_t row_count,
                   unsigned long long *outside)
{
    uint64_t i = ((uint64_t)blockIdx.x * SUMS_THREADS + threadIdx.x) / 8;
    uint64_t row = i < row_count ? i : row_count - 1;
    float score = best_score<8, EUCLIDEAN, COMPENSATED>(job, 0, row);
    if (i != row || threadIdx.x % 8 != 0) return;
    struct screen_line line = screen_line(&job.screen, *job.query_norms, score);
    float floor = screen_floor(&job.terms, job.norms[row]);
    if (above[row] < fmaf(line.scale, floor, line.offset)) atomicAdd(outside, 1ull);
}

/* ---- launching ---- */

/* A maximum for each warp, if these are enough; else as many as k asks for. */
static uint32_t shadow_segment(uint32_t k, uint64_t row_count, unsigned processors)
{
    const uint64_t wanted = (uint64_t)SHADOW_MAXIMA_A_PLACE * k;
    uint32_t segment = 32;
    if (shadow_scan_maxima(row_count, 0, processors) >= wanted) return 0;
    while (segment > SHADOW_LEAST && row_count / segment < wanted)
        segment /= 2;
    return segment;
}

static struct shadow_layout shadow_layout_of(uint32_t k, uint64_t row_count, uint32_t dimension,
                                             unsigned processors)
{
    struct shadow_layout at = {};
    at.segment = shadow_segment(k, row_count, processors);
    at.maxima_count = shadow_scan_maxima(row_count, at.segment, processors);
    at.counts = 64;
    at.bounds = at.counts + 64;
    at.planes = 256;
    at.above = at.planes + shadow_align(2 * shadow_stride(dimension));
    at.maxima = at.above + shadow_align(row_count * sizeof(float));
    at.chosen = at.maxima + shadow_align(at.maxima_count * sizeof(struct topk_entry));
    at.next = at.chosen + shadow_align(k * sizeof(struct topk_entry));
    at.lists = at.next + shadow_align(k * sizeof(struct topk_entry));
    at.end = at.lists + shadow_align(row_count * sizeof(struct topk_entry));
    return at;
}

extern "C" bool cuda_shadow_suits(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    if (k < 1 || k > TOPK_K_MAX || row_count < SHADOW_ROWS_MIN || row_count >= UINT32_MAX)
        return false;
    if (query_count != 1) return query_count && shadow_batch_suits(query_count, k, row_count);
    return row_count / SHADOW_LEAST >= (uint64_t)SHADOW_MAXIMA_A_PLACE * k;
}

extern "C" uint64_t cuda_shadow_scratch(uint64_t query_count, uint32_t k, uint64_t row_count,
                                        uint32_t dimension)
{
    const uint64_t few = query_count < SHADOW_FEW_MAX ? query_count : (uint64_t)SHADOW_FEW_MAX;
    uint64_t bytes = query_count > 1
                         ? shadow_batch_scratch(query_count, k, row_count, dimension)
                         : shadow_layout_of(k, row_count, dimension, shadow_processors()).end;
    /* The last of many may be a few. */
    if (shadow_few_suits(few, k, row_count, dimension)) {
        const uint64_t its = shadow_few_scratch(few, row_count);
        if (its > bytes) bytes = its;
    }
    return bytes;
}

struct shadow_call shadow_call_of(enum metric metric, const struct cuda_queries *queries,
                                  const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                                  uint32_t k, void *scratch)
{
    struct shadow_call call = {};
    call.metric = metric;
    call.queries = queries;
    call.rows = rows;
    call.shadow = shadow;
    call.processors = shadow_processors();
    call.at = shadow_layout_of(k, rows->count, rows->dimension, call.processors);
    call.scratch = (char *)scratch;
    uint32_t *counts = (uint32_t *)(call.scratch + call.at.counts);
    struct topk_bound *bounds = (struct topk_bound *)(call.scratch + call.at.bounds);
    call.chosen.k = k;
    call.chosen.list_stride = call.at.maxima_count;
    call.chosen.lists = (struct topk_entry *)(call.scratch + call.at.maxima);
    call.chosen.list_counts = counts;
    call.chosen.best_counts = counts + 1; /* 0, and stays so */
    call.chosen.best = (struct topk_entry *)(call.scratch + call.at.next);
    call.chosen.next = (struct topk_entry *)(call.scratch + call.at.chosen);
    call.chosen.next_counts = counts + 2;
    call.chosen.bounds = bounds + 1; /* of estimates: not read */
    call.round.k = k;
    call.round.sort = k <= SELECT_SORT_MAX;
    call.round.list_stride = rows->count;
    call.round.lists = (struct topk_entry *)(call.scratch + call.at.lists);
    call.round.list_counts = counts + 3;
    call.round.best = call.chosen.best;
    call.round.best_counts = counts + 1;
    call.round.next = (struct topk_entry *)(call.scratch + call.at.next);
    call.round.bounds = bounds;
    return call;
}

int shadow_scan_enqueue(const struct shadow_call *call, const struct cuda_filter *filter,
                        float *above, struct topk_entry *maxima, cudaStream_t stream)
{
    const struct cuda_rows *rows = call->rows;
    const uint32_t code_stride = (uint32_t)shadow_stride(rows->dimension);
    int8_t *planes = (int8_t *)(call->scratch + call->at.planes);
    struct shadow_query *query = (struct shadow_query *)(call->scratch + call->at.query);
    shadow_query_kernel<<<1, 32, 0, stream>>>(
        call->queries->rows, call->queries->norms, call->shadow->centre,
        (uint32_t)vector_stride(rows->dimension), code_stride, planes, query, call->chosen,
        (uint32_t)call->at.maxima_count, call->round);
    int error = cudaGetLastError();
    if (error) return error;
    struct shadow_scan scan = {};
    scan.query = query;
    scan.planes = planes;
    scan.rows = shadow_rows_of(call->shadow, rows->count);
    scan.norms = rows->norms;
    scan.filter = *filter;
    scan.metric = call->metric;
    scan.code_stride = code_stride;
    scan.above = above;
    scan.maxima = maxima;
    scan.segment = call->at.segment;
    return shadow_scan_launch(&scan, call->processors, stream);
}

/* k above SCAN_TOPK_K_MAX. */
template <bool EUCLIDEAN, bool COMPENSATED>
static int choose_many(const struct shadow_call *call, const struct best_job *job,
                       cudaStream_t stream)
{
    struct topk_entry *chosen = call->chosen.next;
    int error = select_launch(&call->chosen, 1, stream);
    if (error) return error;
    choose_many_kernel<EUCLIDEAN, COMPENSATED>
        <<<blocks_for(job->k, SUMS_THREADS / 8), SUMS_THREADS, 0, stream>>>(
            *job, chosen, call->chosen.next_counts);
    return shadow_bound_launch(job, chosen, call->chosen.next_counts, stream);
}

template <bool EUCLIDEAN, bool COMPENSATED>
static int shadow_finish(const struct shadow_call *call, const struct best_job *job,
                         cudaStream_t stream)
{
    const uint64_t count = call->rows->count;
    const uint32_t share = count >= PASS_MANY ? PASS_ROWS : PASS_ROWS_FEW;
    int error = job->k > SCAN_TOPK_K_MAX
                    ? choose_many<EUCLIDEAN, COMPENSATED>(call, job, stream)
                    : shadow_choose_launch(job, call->chosen.lists, (uint32_t)call->at.maxima_count,
                                           1, COMPENSATED, stream);
    if (error) return error;
    pass_kernel<EUCLIDEAN, COMPENSATED><<<blocks_for(count, share), PASS_THREADS, 0, stream>>>(
        *job, (float *)(call->scratch + call->at.above), count, share);
    error = cudaGetLastError();
    if (!error) error = select_launch(&call->round, 1, stream);
    if (!error && !call->round.sort) error = select_sort_launch(&call->round, 1, stream);
    return error;
}

/* No row is scored, so none is listed as a candidate. */
extern "C" uint64_t cuda_shadow_list_scratch(uint64_t query_count, uint32_t k, uint64_t row_count,
                                             uint32_t dimension)
{
    if (query_count > 1) return shadow_batch_scratch(query_count, k, row_count, dimension);
    return shadow_layout_of(k, row_count, dimension, shadow_processors()).lists;
}

extern "C" int cuda_shadow_topk(enum metric metric, const struct cuda_queries *queries,
                                const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                                const struct cuda_topk *topk, struct CUstream_st *stream)
{
    if (!cuda_shadow_suits(queries->count, topk->k, rows->count)) return cudaErrorInvalidValue;
    if (shadow_few_suits(queries->count, topk->k, rows->count, rows->dimension))
        return shadow_few_topk(metric, queries, rows, shadow, topk, stream);
    if (queries->count > 1) return shadow_batch_topk(metric, queries, rows, shadow, topk, stream);
    struct shadow_call call = shadow_call_of(metric, queries, rows, shadow, topk->k, topk->scratch);
    if (topk->scratch_bytes < call.at.end) return cudaErrorInvalidValue;
    call.round.next_counts = topk->out_counts;
    call.round.out_ids = topk->out_ids;
    call.round.out_scores = topk->out_scores;
    int error = shadow_scan_enqueue(&call, &topk->filter, (float *)(call.scratch + call.at.above),
                                    (struct topk_entry *)(call.scratch + call.at.maxima), stream);
    if (error) return error;
    struct best_job job = best_job_of(metric, queries, rows, topk);
    job.bounds = call.round.bounds;
    job.sink.lists = call.round.lists;
    job.sink.counts = call.round.list_counts;
    job.sink.bounds = call.round.bounds;
    job.sink.list_stride = call.round.list_stride;
    const bool compensated = canonical_is_compensated(rows->dimension);
    if (job.lower_is_better)
        return compensated ? shadow_finish<true, true>(&call, &job, stream)
                           : shadow_finish<true, false>(&call, &job, stream);
    return compensated ? shadow_finish<false, true>(&call, &job, stream)
                       : shadow_finish<false, false>(&call, &job, stream);
}

/* ---- for tests ---- */

extern "C" int cuda_shadow_bounds(const struct cuda_queries *queries, const struct cuda_rows *rows,
                                  const struct cuda_shadow *shadow, void *scratch, float *above,
                                  struct CUstream_st *stream)
{
    if (queries->count == 0 || rows->count == 0) return cudaSuccess;
    const struct cuda_filter all = {};
    struct shadow_call call = shadow_call_of(METRIC_DOT, queries, rows, shadow, 1, scratch);
    return shadow_scan_enqueue(&call, &all, above, NULL, stream);
}

extern "C" int cuda_shadow_outside(enum metric metric, const struct cuda_queries *query,
                                   const struct cuda_rows *rows, const float *above,
                                   unsigned long long *outside, struct CUstream_st *stream)
{
    if (query->count == 0 || rows->count == 0) return cudaSuccess;
    const struct cuda_topk none = {};
    const struct best_job job = best_job_of(metric, query, rows, &none);
    const unsigned blocks = blocks_for(rows->count, SUMS_THREADS / 8);
    const bool compensated = canonical_is_compensated(rows->dimension);
    if (job.lower_is_better && compensated)
        outside_kernel<true, true>
            <<<blocks, SUMS_THREADS, 0, stream>>>(job, above, rows->count, outside);
    else if (job.lower_is_better)
        outside_kernel<true, false>
            <<<blocks, SUMS_THREADS, 0, stream>>>(job, above, rows->count, outside);
    else if (compensated)
        outside_kernel<false, true>
            <<<blocks, SUMS_THREADS, 0, stream>>>(job, above, rows->count, outside);
    else
        outside_kernel<false, false>
            <<<blocks, SUMS_THREADS, 0, stream>>>(job, above, rows->count, outside);
    return cudaGetLastError();
}
