/* shadow_list: the rows that may be among the k best, told by a shadow alone: no row is read. The
 * way is that of shadow_topk.cu and shadow_batch.cu, but what proves a bound are not the canonical
 * scores of rows but what these are at least (kernels/shadow_list.h), and what reaches it is
 * listed. */
#include "kernels/cuda/shadow_best.cuh"

enum { LIST_THREADS = 256, LIST_ROWS = 1024 /* of a block */ };

/* What the canonical score of a row is at least, by GROUP lanes; all of a warp's call it. */
template <int GROUP>
__device__ __forceinline__ float list_least(const struct list_job &job, uint64_t query,
                                            uint64_t row)
{
    const uint32_t words = job.code_stride / 4;
    const int *codes = (const int *)(job.rows.codes + row * job.code_stride);
    const int *one = (const int *)(job.planes + query * job.plane_stride);
    int first = 0, second = 0;
    for (uint32_t i = threadIdx.x % GROUP; i < words; i += GROUP) {
        const int four = codes[i];
        first = dot_4(four, one[i], first);
        if (job.two) second = dot_4(four, one[words + i], second);
    }
    for (int partner = GROUP / 2; partner > 0; partner /= 2) {
        first += __shfl_xor_sync(WARP, first, partner);
        second += __shfl_xor_sync(WARP, second, partner);
    }
    const struct shadow_query coded = job.coded[query];
    const int high = job.two ? first : 0, low = job.two ? second : first;
    const float estimate = shadow_estimate(&coded, job.rows.scales[row], high, low);
    const float below = shadow_below(&coded, estimate, job.rows.losts[row], job.rows.lengths[row]);
    return shadow_least(&job.best.screen, job.best.query_norms[query], job.best.norms[row], below);
}

template <int GROUP>
__device__ __forceinline__ struct topk_entry list_entry(const struct list_job &job, uint64_t query,
                                                        uint64_t row)
{
    struct topk_entry entry;
    entry.score = list_least<GROUP>(job, query, row);
    entry.id = job.best.sink.ids ? job.best.sink.ids[row] : job.best.sink.first_id + row;
    entry.key = sink_key(entry.score, job.best.lower_is_better);
    return entry;
}

/* ---- the bound ---- */

__global__ void __launch_bounds__(BEST_THREADS)
    list_choose_kernel(const struct list_job job, const struct topk_entry *maxima, uint32_t count)
{
    __shared__ struct best_shared shared;
    const uint64_t query = blockIdx.x;
    const struct best_source from = {maxima + query * count, count, 1};
    const struct topk_bound limit = {~0ull, job.best.limit_key};
    best_choose_by(job.best, query, from, limit, &shared,
                   [&](uint64_t row) { return list_entry<32>(job, query, row); });
}

int list_choose_launch(const struct list_job *job, const struct topk_entry *maxima,
                       uint32_t maxima_count, uint64_t query_count, cudaStream_t stream)
{
    list_choose_kernel<<<(unsigned)query_count, BEST_THREADS, 0, stream>>>(*job, maxima,
                                                                           maxima_count);
    return cudaGetLastError();
}

/* Any k, one query: what select_kernel chose, in place. */
__global__ void __launch_bounds__(LIST_THREADS)
    list_choose_many_kernel(const struct list_job job, struct topk_entry *chosen,
                            const uint32_t *chosen_count)
{
    const uint32_t count = *chosen_count, group = LIST_THREADS / 8;
    const uint32_t i = blockIdx.x * group + threadIdx.x / 8;
    if (blockIdx.x * group >= count) return;
    const struct topk_entry mine = chosen[i < count ? i : count - 1];
    const bool is_row = mine.key != ~0u; /* else fewer rows than k may enter */
    __syncthreads();                     /* groups past the end have read the last one, too */
    const struct topk_entry entry = list_entry<8>(job, 0, is_row ? mine.id : 0);
    if (i < count && is_row && threadIdx.x % 8 == 0) chosen[i] = entry;
}

/* ---- what reaches it ---- */

__device__ __forceinline__ void list_write(const struct list_job &job, uint32_t at, uint64_t row)
{
    if (at >= job.out.out_max) return;
    struct shadow_survivor one;
    one.id = job.best.sink.ids ? job.best.sink.ids[row] : job.best.sink.first_id + row;
    one.row = (uint32_t)row;
    one.norm = job.best.norms[row];
    job.out.out[at] = one;
}

/* One query, of which a scan has left what each row's dot product is at most. */
__global__ void __launch_bounds__(LIST_THREADS)
    list_pass_kernel(const struct list_job job, const float *above, uint64_t row_count)
{
    __shared__ uint32_t listed[LIST_ROWS], count, place;
    __shared__ struct screen_line line;
    const uint64_t first = (uint64_t)blockIdx.x * LIST_ROWS;
    if (threadIdx.x == 0) {
        line = best_line(job.best, 0);
        count = 0;
    }
    __syncthreads();
#pragma unroll 4
    for (uint32_t n = threadIdx.x; n < LIST_ROWS; n += LIST_THREADS) {
        const uint64_t row = first + n;
        if (row >= row_count) break;
        const float floor = screen_floor(&job.best.terms, job.best.norms[row]);
        if (above[row] < fmaf(line.scale, floor, line.offset)) continue;
        if (job.best.sink.filter.allowed && !filter_passes(job.best.sink.filter, 0, row)) continue;
        listed[atomicAdd(&count, 1u)] = n;
    }
    __syncthreads();
    if (count == 0) return;
    if (threadIdx.x == 0) place = atomicAdd(job.out.counts, count);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += LIST_THREADS)
        list_write(job, place + i, first + listed[i]);
}

/* One among several queries: of its list what reaches the bound that the list's best prove. */
__global__ void __launch_bounds__(BEST_THREADS)
    list_finish_kernel(const struct list_job job, const uint32_t *passed)
{
    __shared__ struct best_shared shared;
    __shared__ struct screen_line line;
    __shared__ uint32_t listed[BATCH_LIST], count, place;
    const uint64_t query = blockIdx.x;
    const uint32_t length = passed[query];
    if (length > BATCH_LIST) { /* it is not whole */
        if (threadIdx.x == 0) job.out.counts[query] = CUDA_SHADOW_REDO;
        return;
    }
    const struct topk_entry *list = job.best.sink.lists + query * job.best.sink.list_stride;
    const struct topk_bound limit = job.best.bounds[query];
    const struct best_source from = {list, length, 1};
    if (length >= job.best.k)
        best_choose_by(job.best, query, from, limit, &shared,
                       [&](uint64_t row) { return list_entry<32>(job, query, row); });
    __syncthreads();
    if (threadIdx.x == 0) {
        line = best_line(job.best, query);
        count = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < length; i += BEST_THREADS) {
        const struct topk_entry entry = entry_read(&list[i]);
        const float floor = screen_floor(&job.best.terms, job.best.norms[entry.id]);
        if (entry.score < fmaf(line.scale, floor, line.offset)) continue;
        listed[atomicAdd(&count, 1u)] = (uint32_t)entry.id;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        place = atomicAdd(job.out.total, count);
        const bool fits = place + count <= job.out.out_max;
        job.out.firsts[query] = fits ? place : 0;
        job.out.counts[query] = fits ? count : CUDA_SHADOW_REDO;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += BEST_THREADS)
        list_write(job, place + i, listed[i]);
}

int list_finish_launch(const struct list_job *job, const uint32_t *passed, uint64_t query_count,
                       cudaStream_t stream)
{
    list_finish_kernel<<<(unsigned)query_count, BEST_THREADS, 0, stream>>>(*job, passed);
    return cudaGetLastError();
}

/* ---- launching ---- */

static int list_choose_one(const struct shadow_call *call, const struct list_job *job,
                           cudaStream_t stream)
{
    if (job->best.k <= SCAN_TOPK_K_MAX)
        return list_choose_launch(job, call->chosen.lists, (uint32_t)call->at.maxima_count, 1,
                                  stream);
    struct topk_entry *chosen = call->chosen.next;
    int error = select_launch(&call->chosen, 1, stream);
    if (error) return error;
    list_choose_many_kernel<<<blocks_for(job->best.k, LIST_THREADS / 8), LIST_THREADS, 0, stream>>>(
        *job, chosen, call->chosen.next_counts);
    error = cudaGetLastError();
    return error ? error
                 : shadow_bound_launch(&job->best, chosen, call->chosen.next_counts, stream);
}

extern "C" int cuda_shadow_list(enum metric metric, const struct cuda_queries *queries,
                                const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                                const struct cuda_topk *topk, const struct cuda_shadow_list *list,
                                struct CUstream_st *stream)
{
    if (!cuda_shadow_suits(queries->count, topk->k, rows->count)) return cudaErrorInvalidValue;
    if (queries->count > 1)
        return shadow_batch_list(metric, queries, rows, shadow, topk, list, stream);
    struct shadow_call call = shadow_call_of(metric, queries, rows, shadow, topk->k, topk->scratch);
    if (topk->scratch_bytes < call.at.lists) return cudaErrorInvalidValue;
    float *above = (float *)(call.scratch + call.at.above);
    int error = shadow_scan_enqueue(&call, &topk->filter, above,
                                    (struct topk_entry *)(call.scratch + call.at.maxima), stream);
    if (error) return error;
    struct list_job job = {};
    job.best = best_job_of(metric, queries, rows, topk);
    job.best.bounds = call.round.bounds;
    job.planes = (int8_t *)(call.scratch + call.at.planes);
    job.code_stride = (uint32_t)shadow_stride(rows->dimension);
    job.plane_stride = 2 * job.code_stride;
    job.two = true;
    job.coded = (struct shadow_query *)(call.scratch + call.at.query);
    job.rows = shadow_rows_of(shadow, rows->count);
    job.out = *list;
    error = list_choose_one(&call, &job, stream);
    if (error) return error;
    list_pass_kernel<<<blocks_for(rows->count, LIST_ROWS), LIST_THREADS, 0, stream>>>(job, above,
                                                                                      rows->count);
    return cudaGetLastError();
}
