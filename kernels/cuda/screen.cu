/* screen: many queries against a span of rows, with canonical scores only for pairs that a product
 * on the tensor cores does not rule out (kernels/screen.h). Pairs that pass are listed for each
 * query, scored by `rescore`, and offered to the selection like any others. If a list overflows,
 * because scores differ by less than the error of the product, its query goes to the redo list:
 * this span and all later ones are scored exactly for it, so that no pair is ever dropped. */
#include "kernels/cuda/screen.cuh"

/* Runs before a span, as one block: empties the lists, except of queries that overflowed before. */
__global__ void __launch_bounds__(SUMS_THREADS)
    screen_begin_kernel(const struct screen_room room, uint64_t query_count)
{
    if (threadIdx.x == 0) *room.redo_count = 0;
    __syncthreads();
    for (uint64_t query = threadIdx.x; query < query_count; query += SUMS_THREADS) {
        if (room.counts[query] <= room.most)
            room.counts[query] = 0;
        else
            room.redo[atomicAdd(room.redo_count, 1u)] = (uint32_t)query;
    }
}

/* Reads the lines and floors of a tile, one a thread. */
template <class S>
__device__ __forceinline__ void screen_sides(const struct screen_job &job,
                                             const struct screen_terms &terms, uint64_t tile,
                                             float *floors, struct screen_line *lines)
{
    for (uint32_t n = threadIdx.x; n < S::ROWS; n += S::THREADS) {
        uint64_t row = tile / job.query_tiles * S::ROWS + n;
        floors[n] = screen_floor(&terms, row < job.row_count ? job.norms[row] : 0.0f);
    }
    for (uint32_t n = threadIdx.x; n < S::QUERIES; n += S::THREADS) {
        uint64_t query = tile % job.query_tiles * S::QUERIES + n;
        struct screen_line line = {0.0f, INFINITY}; /* lets nothing pass */
        if (query < job.query_count && job.room.counts[query] <= job.room.most) {
            float bound = sink_score(job.bounds[query].key, job.lower_is_better);
            line.offset = -INFINITY;
            if (!isnan(bound)) line = screen_line(&job.screen, job.query_norms[query], bound);
        }
        lines[n] = line;
    }
}

/* Lists a pair that the product does not rule out. */
__device__ __noinline__ void screen_pass(const struct screen_job &job, uint64_t query, uint64_t row)
{
    if (query >= job.query_count || row >= job.row_count) return;
    uint64_t at = job.first + row;
    if (job.filter.allowed && !filter_passes(job.filter, query, at)) return;
    uint32_t place = atomicAdd(&job.room.counts[query], 1u);
    if (place < job.room.most)
        job.room.passed[query * job.room.most + place] = (uint32_t)row;
    else if (place == job.room.most) /* exactly one of the pairs beyond the list */
        job.room.redo[atomicAdd(job.room.redo_count, 1u)] = (uint32_t)query;
}

/* Sum i of fragment [r][q] belongs to row lane / 4 + i / 2 * 8 of 16 and query lane % 4 * 2 + i %
 * 2 of 8. A thread checks its sums of 8 queries at a time, and then only the bits that are set. */
template <class S>
__device__ __forceinline__ void screen_give(const struct screen_job &job, uint64_t tile,
                                            const float *floors, const struct screen_line *lines,
                                            const float (*sums)[S::WQ / 8][4])
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t row_in = warp / S::QW * S::WR + lane / 4;
    const uint32_t query_in = warp % S::QW * S::WQ + lane % 4 * 2;
    float floor[S::WR / 8];
#pragma unroll
    for (int r = 0; r < S::WR / 8; r++)
        floor[r] = floors[row_in + r * 8];
#pragma unroll
    for (int q = 0; q < S::WQ / 8; q++) {
        const struct screen_line *line = lines + query_in + q * 8;
        const float4 two = *(const float4 *)line;
        uint32_t passes = 0;
#pragma unroll
        for (int i = 0; i < S::WR / 4; i++) {
            float worst =
                i % 2 ? fmaf(two.z, floor[i / 2], two.w) : fmaf(two.x, floor[i / 2], two.y);
            passes |= sums[i / 4][q][i % 4] < worst ? 0u : 1u << i;
        }
        for (; passes; passes &= passes - 1) {
            uint32_t i = (uint32_t)__ffs(passes) - 1;
            screen_pass(job, tile % job.query_tiles * S::QUERIES + query_in + q * 8 + i % 2,
                        tile / job.query_tiles * S::ROWS + row_in + i / 2 * 8);
        }
    }
}

/* Stores the products themselves, for tests. */
template <class S>
__device__ __forceinline__ void screen_store(const struct screen_job &job, uint64_t tile,
                                             const float (*sums)[S::WQ / 8][4])
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint64_t row = tile / job.query_tiles * S::ROWS + warp / S::QW * S::WR + lane / 4;
    uint64_t query = tile % job.query_tiles * S::QUERIES + warp % S::QW * S::WQ + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < S::WR / 16 * (S::WQ / 8) * 4; n++) {
        uint64_t r = row + n / (S::WQ / 2) * 16 + n % 4 / 2 * 8;
        uint64_t q = query + n / 4 % (S::WQ / 8) * 8 + n % 2;
        if (r < job.row_count && q < job.query_count)
            job.dots[q * job.dots_stride + r] = sums[n / (S::WQ / 2)][n / 4 % (S::WQ / 8)][n % 4];
    }
}

template <class S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    screen_kernel(const SCREEN_IN_PLACE struct screen_job job)
{
    extern __shared__ float4 shared_memory[];
    float *shared = (float *)shared_memory;
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    const struct screen_fragments at = screen_fragments_of<S>();
    const struct screen_terms terms = screen_terms(&job.screen);
    struct screen_place now = {blockIdx.x, 0, 0}, ahead = now;
    struct screen_step<S> steps[2];
    uint32_t side = 0;
    /* Nothing to do if all queries overflowed. (The threads vote, because the count may be
     * rising.) */
    if (!job.dots && __syncthreads_and(*job.room.redo_count >= job.query_count)) return;
    for (int n = 0; n < S::SLOTS - 1; n++)
        screen_copy_next<S>(job, &ahead, shared);
    copies_wait<S::SLOTS - 2>();
    __syncthreads();
    screen_load_step<S>(at, address, 0, &steps[0]);
    for (; now.tile < job.tiles; now.tile += gridDim.x, side ^= 1) {
        struct screen_line *lines =
            (struct screen_line *)(shared + S::SLOTS * S::SLOT + side * S::SIDE);
        float *floors = (float *)(lines + S::QUERIES);
        float sums[S::WR / 16][S::WQ / 8][4] = {};
        for (now.chunk = 0; now.chunk < screen_chunks(job); now.chunk++) {
            uint32_t slot = address + now.stage % S::SLOTS * (S::SLOT * 4);
            now.stage++;
#pragma unroll
            for (uint32_t step = 0; step < 4; step++) {
                if (step == 3) {
                    /* The next chunk has arrived, and all threads have read this one, whose slot
                     * is filled again. */
                    copies_wait<S::SLOTS - 2>();
                    __syncthreads();
                    slot = address + now.stage % S::SLOTS * (S::SLOT * 4);
                }
                screen_load_step<S>(at, slot, (step + 1) % 4, &steps[(step + 1) % 2]);
                if (step == 0) screen_copy_next<S>(job, &ahead, shared);
                if (step == 0 && now.chunk == 0 && !job.dots)
                    screen_sides<S>(job, terms, now.tile, floors, lines);
                screen_take_step<S>(&steps[step % 2], sums);
            }
        }
        if (job.dots)
            screen_store<S>(job, now.tile, sums);
        else
            screen_give<S>(job, now.tile, floors, lines, sums);
    }
}

struct rescore_job {
    const float *queries;
    const float *query_norms;  /* NULL unless the metric is cosine */
    const float *rows, *norms; /* of the span */
    uint32_t stride;
    bool lower_is_better;
    uint64_t first;
    struct screen_room room;
    struct candidate_sink sink;
    struct cuda_topk_work *work;
};

/* Offers the canonical scores of the pairs that query blockIdx.x lists. */
template <bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(SUMS_THREADS, SUMS_BLOCKS)
    rescore_kernel(const struct rescore_job job)
{
    const uint32_t group = threadIdx.x / 8, groups = SUMS_THREADS / 8;
    const uint64_t query = blockIdx.x;
    const uint32_t passed = job.room.counts[query];
    const uint32_t *list = job.room.passed + query * job.room.most;
    const uint32_t bound_key = job.sink.bounds[query].key;
    const bool overflowed = passed > job.room.most;
    if (job.work && blockIdx.y == 0 && threadIdx.x == 0)
        atomicAdd(overflowed ? &job.work->redone : &job.work->passed,
                  overflowed ? 1ull : (unsigned long long)passed);
    if (overflowed) return;
    for (uint32_t first = blockIdx.y * groups; first < passed; first += gridDim.y * groups) {
        /* Groups past the end repeat the last row, because a warp's shuffles need all its
         * threads. */
        uint32_t i = first + group, row = list[i < passed ? i : passed - 1];
        float score = sum_rows<8, EUCLIDEAN, COMPENSATED>(
            job.queries + query * job.stride, job.rows + (uint64_t)row * job.stride, job.stride);
        if (i >= passed || threadIdx.x % 8 != 0) continue;
        if (job.query_norms)
            score = canonical_cosine(score, job.query_norms[query], job.norms[row]);
        sink_offer(&job.sink, query, job.first + row, score, job.lower_is_better, bound_key);
    }
}

/* The shapes that suit a number of queries, and one for devices with less shared memory. */
typedef screen_shape<64, 64, 4, 2, 4, 1> screen_many;
typedef screen_shape<32, 32, 8, 1, 3, 2> screen_few;
typedef screen_shape<64, 64, 2, 2, 3, 2> screen_small;

template <class S> static int screen_enqueue(struct screen_job *job, cudaStream_t stream)
{
    int processors = 0;
    int error = device_attribute(cudaDevAttrMultiProcessorCount, &processors);
    if (error) return error;
    job->query_tiles = (job->query_count + S::QUERIES - 1) / S::QUERIES;
    job->tiles = (job->row_count + S::ROWS - 1) / S::ROWS * job->query_tiles;
    uint64_t blocks = (uint64_t)processors * S::BLOCKS;
    if (blocks > job->tiles) blocks = job->tiles;
    error = cudaFuncSetAttribute((const void *)screen_kernel<S>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, S::SHARED);
    if (error) return error;
    screen_kernel<S><<<(unsigned)blocks, S::THREADS, S::SHARED, stream>>>(*job);
    return cudaGetLastError();
}

static int screen_product(enum metric metric, const struct cuda_queries *queries,
                          const struct cuda_rows *rows, struct screen_job *job, cudaStream_t stream)
{
    int most = 0;
    int error = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most);
    if (error) return error;
    job->queries = queries->rows;
    job->query_norms = queries->norms;
    job->query_count = queries->count;
    job->stride = (uint32_t)vector_stride(rows->dimension);
    job->lower_is_better = metric_lower_is_better(metric);
    job->screen = screen_of_tf32(metric, rows->dimension);
    if (most < screen_many::SHARED) return screen_enqueue<screen_small>(job, stream);
    return queries->count <= screen_few::QUERIES ? screen_enqueue<screen_few>(job, stream)
                                                 : screen_enqueue<screen_many>(job, stream);
}

bool screen_runs(void)
{
    int major = 0, most = 0;
    return !device_attribute(cudaDevAttrComputeCapabilityMajor, &major) && major >= 8 &&
           !device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most) &&
           most >= screen_small::SHARED;
}

static int rescore_launch(enum metric metric, const struct cuda_queries *queries,
                          const struct cuda_rows *rows, const struct score_span *span,
                          const struct screen_room *room, cudaStream_t stream)
{
    enum { BLOCKS = 4096, BLOCKS_A_QUERY = 64 };
    struct rescore_job job = {};
    job.queries = queries->rows;
    job.query_norms = metric == METRIC_COSINE ? queries->norms : NULL;
    job.rows = span_rows(rows, span);
    job.norms = rows->norms + span->first;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    job.lower_is_better = metric_lower_is_better(metric);
    job.first = span->first;
    job.room = *room;
    job.sink = span->sink;
    job.work = room->work;
    uint64_t each = BLOCKS / queries->count;
    each = each < 2 ? 2 : each > BLOCKS_A_QUERY ? BLOCKS_A_QUERY : each;
    const dim3 grid((unsigned)queries->count, (unsigned)each);
    bool compensated = canonical_is_compensated(rows->dimension);
    if (job.lower_is_better && compensated)
        rescore_kernel<true, true><<<grid, SUMS_THREADS, 0, stream>>>(job);
    else if (job.lower_is_better)
        rescore_kernel<true, false><<<grid, SUMS_THREADS, 0, stream>>>(job);
    else if (compensated)
        rescore_kernel<false, true><<<grid, SUMS_THREADS, 0, stream>>>(job);
    else
        rescore_kernel<false, false><<<grid, SUMS_THREADS, 0, stream>>>(job);
    return cudaGetLastError();
}

/* Scores the span exactly for the queries of the redo list; the best so far are updated in place
 * as often as the length of the lists requires. */
static int redo_launch(enum metric metric, const struct cuda_queries *queries,
                       const struct cuda_rows *rows, const struct score_span *span,
                       const struct screen_room *room, const struct select_round *round,
                       cudaStream_t stream)
{
    struct score_span part = *span;
    struct select_round idle = *round;
    idle.idle = true;
    idle.sort = false;
    idle.next = (struct topk_entry *)round->best;
    idle.next_counts = (uint32_t *)round->best_counts;
    int error = cudaSuccess;
    for (uint64_t done = 0; !error && done < span->count; done += part.count) {
        uint64_t left = span->count - done;
        part.first = span->first + done;
        part.count = left < round->list_stride ? left : round->list_stride;
        error =
            tile_listed_launch(metric, queries, rows, &part, room->redo, room->redo_count, stream);
        if (!error) error = select_launch(&idle, queries->count, stream);
    }
    return error;
}

int screen_launch(enum metric metric, const struct cuda_queries *queries,
                  const struct cuda_rows *rows, const struct score_span *span,
                  const struct screen_room *room, const struct select_round *round,
                  cudaStream_t stream)
{
    struct screen_job job = {};
    job.rows = span_rows(rows, span);
    job.norms = rows->norms + span->first;
    job.row_count = span->count;
    job.first = span->first;
    job.bounds = span->sink.bounds;
    job.filter = span->sink.filter;
    job.room = *room;
    screen_begin_kernel<<<1, SUMS_THREADS, 0, stream>>>(*room, queries->count);
    int error = cudaGetLastError();
    if (!error) error = screen_product(metric, queries, rows, &job, stream);
    if (!error) error = redo_launch(metric, queries, rows, span, room, round, stream);
    if (!error) error = rescore_launch(metric, queries, rows, span, room, stream);
    return error;
}

extern "C" int cuda_screen_dots(const struct cuda_queries *queries, const struct cuda_rows *rows,
                                float *dots, uint64_t dots_stride, struct CUstream_st *stream)
{
    if (queries->count == 0 || rows->count == 0) return cudaSuccess;
    if (!screen_runs()) return cudaErrorNotSupported;
    struct screen_job job = {};
    job.rows = rows->rows;
    job.norms = rows->norms;
    job.row_count = rows->count;
    job.dots = dots;
    job.dots_stride = dots_stride;
    return screen_product(METRIC_DOT, queries, rows, &job, stream);
}
