/* shadow_few: the k best rows of up to eight queries through the shadow of all rows, in one
 * cooperative launch. As shadow_direct.cu does for a query that travels with the launch, but codes
 * that a warp has loaded are held against each query in turn, and of several queries one whose rows
 * the shadow does not tell apart is given up. */
#include "kernels/cuda/shadow_best.cuh"
#include "kernels/cuda/shadow_grid.cuh"
#include "kernels/cuda/shadow_kth.cuh"

enum {
    FEW_QUERIES = SHADOW_FEW_MAX,
    FEW_K_MAX = 64,
    FEW_DIMENSION = 1024,
    FEW_LISTED = 2048, /* pairs that a block holds against their bounds at a time */
    FEW_LIST = 4096,   /* of one of several queries: rows that may be scored */
    FEW_COUNTS = 64    /* where in scratch these are */
};

/* Of a launch; 0 before its blocks meet. */
struct few_counts {
    uint32_t found[FEW_QUERIES];  /* listed rows */
    uint32_t scored[FEW_QUERIES]; /* rows that the bound did not rule out */
    uint32_t done;                /* blocks that have listed theirs */
};

struct few_job {
    struct best_job best; /* without the bounds and lists of its sink */
    struct shadow_rows shadow;
    const float *centre;
    unsigned long long mark;
    unsigned long long *ticket;
    struct few_counts *counts;
    struct topk_entry *picks; /* `picked` of each block for each query; entry_worst: none */
    float *above;             /* of each row for each query */
    struct topk_entry *lists; /* list_stride for each query */
    uint64_t *out_ids;
    float *out_scores;
    uint32_t *out_counts;
    uint64_t list_stride;
    enum metric metric;
    uint32_t code_stride, query_count, picked;
    uint32_t scored_max; /* of one that is not given up */
};

/* Of a query, the best row by estimate among those of one lane. */
struct few_best {
    uint32_t key, row; /* key: less for a better estimate; ~0: none */
};

struct few_pair {
    uint32_t query, row;
};

enum { FEW_OWNERS = GRID_WARPS * GRID_UNIT /* lanes that end with rows */ };

struct few_shared {
    float queries[FEW_QUERIES][FEW_DIMENSION];
    float centre[FEW_DIMENSION];
    int4 planes[FEW_QUERIES][2 * FEW_DIMENSION / 16];
    struct best_shared best;
    struct few_best bests[FEW_QUERIES][FEW_OWNERS];
    struct few_pair listed[FEW_LISTED];
    struct shadow_query coded[FEW_QUERIES];
    float norms[FEW_QUERIES];
    struct screen_line lines[FEW_QUERIES];
    struct topk_bound bounds[FEW_QUERIES];
    uint32_t passed[FEW_QUERIES]; /* pairs listed at a time */
    bool lost[FEW_QUERIES];
    uint32_t count;
    bool is_last;
};

/* ---- the queries ---- */

__device__ __forceinline__ void few_code(const struct few_job &job, struct few_shared *shared)
{
    const uint32_t stride = job.best.stride, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t count = job.query_count, query = warp % FEW_QUERIES;
    for (uint32_t i = threadIdx.x; i < count * stride; i += GRID_THREADS)
        shared->queries[i / stride][i % stride] = __ldg(&job.best.queries[i]);
    for (uint32_t i = threadIdx.x; i < stride; i += GRID_THREADS)
        shared->centre[i] = __ldg(&job.centre[i]);
    if (threadIdx.x < count) shared->norms[threadIdx.x] = __ldg(&job.best.query_norms[threadIdx.x]);
    for (uint32_t i = threadIdx.x; i < count * FEW_OWNERS; i += GRID_THREADS) {
        const struct few_best none = {~0u, ~0u};
        shared->bests[i / FEW_OWNERS][i % FEW_OWNERS] = none;
    }
    __syncthreads();
    float centred = 0.0f;
    const bool has_query = query < count, codes = warp < FEW_QUERIES;
    if (has_query && codes) {
        struct shadow_query coded =
            shadow_query_warp(stride, job.code_stride, shared->queries[query], shared->norms[query],
                              NULL, 2, (int8_t *)shared->planes[query]);
        if (lane == 0) shared->coded[query] = coded;
    } else if (has_query) {
        centred = shadow_centred_warp(stride, shared->queries[query], shared->centre);
    }
    __syncthreads();
    if (has_query && !codes && lane == 0) shared->coded[query].centred = centred;
    __syncthreads();
}

/* ---- the codes ---- */

__device__ __forceinline__ bool few_open(const struct few_job &job, uint32_t query, uint64_t row)
{
    return !job.best.sink.filter.allowed || filter_passes(job.best.sink.filter, query, row);
}

/* What stands beside the codes of a row. */
struct few_row {
    float scale, lost, length, norm;
};

/* Takes the sums of a lane's row for one query. */
__device__ __forceinline__ void few_take(const struct few_job &job, struct few_shared *shared,
                                         uint32_t query, uint64_t row, const struct few_row &beside,
                                         int high, int low)
{
    float *above = &job.above[query * job.shadow.count + row];
    if (!few_open(job, query, row)) {
        *above = -INFINITY;
        return;
    }
    const struct shadow_query coded = shared->coded[query];
    const float estimate = shadow_estimate(&coded, beside.scale, high, low);
    const uint32_t key = sink_key(scan_rank(job.metric, estimate, beside.norm), false);
    const uint32_t owner =
        threadIdx.x / 32 * GRID_UNIT + threadIdx.x % 32 / 16 * SCAN_ROWS + threadIdx.x % 16;
    struct few_best *best = &shared->bests[query][owner];
    if (key < best->key) { /* rows rise, so that ties stay with the lesser */
        best->key = key;
        best->row = (uint32_t)row;
    }
    *above = shadow_above(&coded, estimate, beside.lost, beside.length);
}

template <int FLIGHT>
__device__ __forceinline__ void few_scan(const struct few_job &job, struct few_shared *shared)
{
    const uint32_t lane = threadIdx.x % 32, in_unit = lane / 16 * SCAN_ROWS, at = lane % 16;
    for (uint32_t turn = 0;; turn++) {
        const uint64_t first = grid_turn(turn) + threadIdx.x / 32 * GRID_UNIT;
        if (first >= job.shadow.count) break; /* the whole warp */
        const uint64_t row = first + in_unit + at;
        const bool owns = at < SCAN_ROWS && row < job.shadow.count;
        struct few_row beside = {0.0f, 0.0f, 0.0f, 0.0f};
        struct scan_held<FLIGHT> held;
        if (owns) {
            beside.scale = __ldg(&job.shadow.scales[row]);
            beside.lost = __ldg(&job.shadow.losts[row]);
            beside.length = __ldg(&job.shadow.lengths[row]);
            beside.norm = __ldg(&job.best.norms[row]);
        }
        grid_ahead(job.shadow, job.code_stride, turn + 1);
        scan_load<FLIGHT>(job.shadow, job.code_stride, first + in_unit, at, &held);
#pragma unroll 1
        for (uint32_t query = 0; query < job.query_count; query++) {
            struct scan_sums sums = {};
            int high = 0, low = 0;
            scan_multiply<FLIGHT>(held, job.code_stride, shared->planes[query], at, &sums);
            scan_give(sums, 0, &high, &low);
            if (owns) few_take(job, shared, query, row, beside, high, low);
            __syncwarp();
        }
    }
}

template <int GROUP, bool EUCLIDEAN>
__device__ __forceinline__ struct topk_entry few_score(const struct few_job &job,
                                                       const struct few_shared *shared,
                                                       uint32_t query, uint64_t row)
{
    struct topk_entry entry;
    entry.score = sum_rows<GROUP, EUCLIDEAN, false, true>(
        shared->queries[query], job.best.rows + row * job.best.stride, job.best.stride);
    if (job.best.is_cosine)
        entry.score =
            canonical_cosine(entry.score, shared->norms[query], __ldg(&job.best.norms[row]));
    entry.id = job.best.sink.ids ? __ldg(&job.best.sink.ids[row]) : job.best.sink.first_id + row;
    entry.key = sink_key(entry.score, job.best.lower_is_better);
    return entry;
}

/* A warp for each query scores the best of the lanes' best rows, and leaves them for all blocks. */
template <bool EUCLIDEAN>
__device__ __forceinline__ void few_pick(const struct few_job &job, const struct few_shared *shared)
{
    const uint32_t query = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (query >= job.query_count) return; /* the whole warp */
    struct topk_entry *picks = job.picks + ((uint64_t)query * gridDim.x + blockIdx.x) * job.picked;
    struct topk_entry last = {0, 0, 0.0f};
    for (uint32_t place = 0; place < job.picked; place++) {
        struct topk_entry best = entry_worst();
        for (uint32_t i = lane; i < FEW_OWNERS; i += 32) {
            const struct few_best its = shared->bests[query][i];
            const struct topk_entry entry = {its.row, its.key, 0.0f};
            if (its.key == ~0u || (place && !entry_before(last, entry))) continue;
            if (entry_before(entry, best)) best = entry;
        }
        __syncwarp();
        scan_best(&best, 32);
        last = best;
        struct topk_entry entry = entry_worst();
        if (best.key != ~0u) entry = few_score<32, EUCLIDEAN>(job, shared, query, best.id);
        if (entry.key > job.best.limit_key) entry = entry_worst();
        if (lane == 0) entry_write(&picks[place], entry);
    }
}

/* ---- the bounds ---- */

/* A warp for each query proves its bound. */
__device__ __forceinline__ void few_bound(const struct few_job &job, struct few_shared *shared)
{
    const uint32_t query = threadIdx.x / 32, count = gridDim.x * job.picked;
    if (query < job.query_count) {
        const struct topk_bound bound =
            warp_kth(job.picks + (uint64_t)query * count, count, job.best.k, job.best.limit_key);
        const float score = sink_score(bound.key, job.best.lower_is_better);
        struct screen_line line = {0.0f, -INFINITY};
        if (!isnan(score)) line = screen_line(&job.best.screen, shared->norms[query], score);
        if (threadIdx.x % 32 == 0) {
            shared->bounds[query] = bound;
            shared->lines[query] = line;
        }
    }
    __syncthreads();
}

/* ---- what may reach them ---- */

/* Scores the listed pairs, and lists for all blocks what reaches its bound. */
template <int GROUP, bool EUCLIDEAN>
__device__ __forceinline__ void few_offer(const struct few_job &job,
                                          const struct few_shared *shared, uint32_t count)
{
    const uint32_t groups = GRID_THREADS / GROUP, a_warp = 32 / GROUP;
    for (uint32_t n = 0; n + threadIdx.x / 32 * a_warp < count; n += groups) {
        /* Groups past the end repeat the last pair: a warp's shuffles need all its threads. */
        const uint32_t i = n + threadIdx.x / GROUP;
        const struct few_pair pair = shared->listed[i < count ? i : count - 1];
        const struct topk_entry entry =
            few_score<GROUP, EUCLIDEAN>(job, shared, pair.query, pair.row);
        if (i >= count || threadIdx.x % GROUP != 0) continue;
        const struct topk_bound bound = shared->bounds[pair.query];
        if (entry.key > bound.key || (entry.key == bound.key && entry.id > bound.id)) continue;
        const uint32_t place = atomicAdd(&job.counts->found[pair.query], 1u);
        if (place < job.list_stride)
            entry_write(&job.lists[pair.query * job.list_stride + place], entry);
    }
}

/* Turns whose pairs can all be listed. */
__device__ __forceinline__ uint32_t few_turns(const struct few_job &job)
{
    return FEW_LISTED / (GRID_TURN * job.query_count);
}

__device__ __forceinline__ void few_list(const struct few_job &job, struct few_shared *shared,
                                         uint32_t turn)
{
    const uint32_t rows = few_turns(job) * GRID_TURN;
#pragma unroll 4
    for (uint32_t n = threadIdx.x; n < rows * job.query_count; n += GRID_THREADS) {
        const uint32_t query = n / rows, at = n % rows;
        const uint64_t row = grid_turn(turn + at / GRID_TURN) + at % GRID_TURN;
        if (row >= job.shadow.count || shared->lost[query]) continue;
        const struct screen_line line = shared->lines[query];
        const float floor = screen_floor(&job.best.terms, __ldg(&job.best.norms[row]));
        if (job.above[query * job.shadow.count + row] < fmaf(line.scale, floor, line.offset))
            continue;
        if (!few_open(job, query, row)) continue;
        atomicAdd(&shared->passed[query], 1u);
        const struct few_pair pair = {query, (uint32_t)row};
        shared->listed[atomicAdd(&shared->count, 1u)] = pair;
    }
}

template <bool EUCLIDEAN>
__device__ __forceinline__ void few_pass(const struct few_job &job, struct few_shared *shared)
{
    const uint32_t own = threadIdx.x;
    for (uint32_t turn = 0; grid_turn(turn) < job.shadow.count; turn += few_turns(job)) {
        if (own == 0) shared->count = 0;
        if (own < job.query_count) {
            shared->passed[own] = 0;
            shared->lost[own] = __ldcg(&job.counts->scored[own]) > job.scored_max;
        }
        __syncthreads();
        few_list(job, shared, turn);
        __syncthreads();
        const uint32_t count = shared->count;
        if (own < job.query_count && shared->passed[own])
            atomicAdd(&job.counts->scored[own], shared->passed[own]);
        if (count <= 2 * GRID_WARPS)
            few_offer<32, EUCLIDEAN>(job, shared, count);
        else
            few_offer<8, EUCLIDEAN>(job, shared, count);
        __syncthreads(); /* all have read the list */
    }
}

/* ---- the best ---- */

__device__ __forceinline__ void few_write(const struct few_job &job,
                                          const struct best_shared *shared, uint32_t query)
{
    const uint32_t i = threadIdx.x, k = job.best.k;
    if (i >= k) return;
    const struct topk_entry entry = entry_read(&shared->best[i]);
    const bool is_there = entry.key != ~0u;
    if (is_there) {
        job.out_ids[(uint64_t)query * k + i] = entry.id;
        job.out_scores[(uint64_t)query * k + i] = entry.score;
    }
    if (is_there && (i + 1 == k || shared->best[i + 1].key == ~0u)) job.out_counts[query] = i + 1;
    if (!is_there && i == 0) job.out_counts[query] = 0;
}

/* By the last block. */
__device__ __forceinline__ void few_finish(const struct few_job &job, struct few_shared *shared)
{
    for (uint32_t query = 0; query < job.query_count; query++) {
        const uint32_t scored = __ldcg(&job.counts->scored[query]);
        const bool lost = scored > job.scored_max;
        if (!lost) {
            grid_best(job.lists + query * job.list_stride, __ldcg(&job.counts->found[query]),
                      job.best.k, &shared->best);
            few_write(job, &shared->best, query);
        }
        if (threadIdx.x == 0) {
            if (lost) job.out_counts[query] = CUDA_SHADOW_REDO;
            struct cuda_topk_work *work = job.best.work;
            if (work && lost) atomicAdd(&work->redone, 1ull);
            if (work && !lost) atomicAdd(&work->passed, (unsigned long long)scored);
        }
        __syncthreads(); /* all have read the best */
    }
}

template <int FLIGHT, bool EUCLIDEAN>
__global__ void __launch_bounds__(GRID_THREADS, 1) shadow_few_kernel(const struct few_job job)
{
    extern __shared__ __align__(16) char few_room[];
    struct few_shared *shared = (struct few_shared *)few_room;
    if (is_clerk()) ticket_prepare(job.ticket, job.mark);
    if (blockIdx.x == 0 && threadIdx.x < FEW_QUERIES) {
        job.counts->found[threadIdx.x] = job.counts->scored[threadIdx.x] = 0;
        if (threadIdx.x == 0) job.counts->done = 0;
    }
    grid_ahead(job.shadow, job.code_stride, 0); /* while the queries are coded */
    few_code(job, shared);
    few_scan<FLIGHT>(job, shared);
    __syncthreads(); /* the lanes' best are there */
    few_pick<EUCLIDEAN>(job, shared);
    grid_meet(job.ticket, job.mark);
    few_bound(job, shared);
    few_pass<EUCLIDEAN>(job, shared);
    if (grid_last(&job.counts->done, &shared->is_last)) few_finish(job, shared);
}

/* ---- launching ---- */

static_assert(FEW_QUERIES * 2 <= GRID_WARPS, "two warps for each query");
static_assert(FEW_LISTED >= GRID_TURN * FEW_QUERIES, "the pairs of a turn can be listed");
static_assert(GRID_SPREAD * FEW_K_MAX + SCAN_TOPK_BLOCKS <= 32 * KTH_KEYS,
              "a warp has the keys of all picks");
static_assert((int)FEW_DIMENSION <= (int)VECTOR_COMPENSATED_ABOVE, "no sum is compensated");

struct few_layout {
    uint64_t picks, above, lists, end, list_stride;
};

static struct few_layout few_layout_of(uint64_t query_count, uint64_t row_count)
{
    struct few_layout at = {};
    at.list_stride = query_count > 1 ? (uint64_t)FEW_LIST : row_count;
    at.picks = 256;
    at.above = at.picks + query_count * SCAN_TOPK_SURVIVORS * sizeof(struct topk_entry);
    at.lists = at.above + grid_align(query_count * row_count * sizeof(float));
    at.end = at.lists + query_count * at.list_stride * sizeof(struct topk_entry);
    return at;
}

/* Of more rows the several launches are quicker (docs/performance-gpu.md): a batch
 * (shadow_batch.cu) multiplies several queries by tensor cores. */
static uint64_t rows_max(uint64_t query_count)
{
    if (query_count > 4) return 1 << 17;
    if (query_count > 2) return 5 << 16;
    return query_count == 2 ? 1 << 19 : 3 << 16;
}

static bool left_out;

extern "C" void cuda_shadow_without_few(bool without)
{
    left_out = without;
}

static bool few_fits(void)
{
    int most = 0;
    return !device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most) &&
           (size_t)most >= sizeof(struct few_shared);
}

bool shadow_few_suits(uint64_t query_count, uint32_t k, uint64_t row_count, uint32_t dimension)
{
    return query_count >= 1 && query_count <= FEW_QUERIES && k >= 1 && k <= FEW_K_MAX &&
           dimension <= FEW_DIMENSION && row_count >= GRID_ROWS_MIN &&
           row_count <= rows_max(query_count) && !left_out && grid_runs() && few_fits();
}

uint64_t shadow_few_scratch(uint64_t query_count, uint64_t row_count)
{
    return few_layout_of(query_count, row_count).end;
}

static const void *few_kernel(uint32_t code_stride, bool euclidean)
{
    if (code_stride <= 256)
        return euclidean ? (const void *)shadow_few_kernel<1, true>
                         : (const void *)shadow_few_kernel<1, false>;
    if (code_stride <= 512)
        return euclidean ? (const void *)shadow_few_kernel<2, true>
                         : (const void *)shadow_few_kernel<2, false>;
    if (code_stride <= 768)
        return euclidean ? (const void *)shadow_few_kernel<3, true>
                         : (const void *)shadow_few_kernel<3, false>;
    return euclidean ? (const void *)shadow_few_kernel<4, true>
                     : (const void *)shadow_few_kernel<4, false>;
}

static int few_launch(struct few_job *job, unsigned blocks, cudaStream_t stream)
{
    const void *kernel = few_kernel(job->code_stride, job->best.lower_is_better);
    const size_t bytes = sizeof(struct few_shared);
    void *parameters[] = {job};
    int error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (!error)
        error = cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(GRID_THREADS), parameters,
                                            bytes, stream);
    return error ? error : cudaGetLastError();
}

int shadow_few_topk(enum metric metric, const struct cuda_queries *queries,
                    const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                    const struct cuda_topk *topk, cudaStream_t stream)
{
    const struct few_layout at = few_layout_of(queries->count, rows->count);
    char *scratch = (char *)topk->scratch;
    unsigned blocks = 1;
    if (topk->scratch_bytes < at.end) return cudaErrorInvalidValue;
    struct few_job job = {};
    job.best = best_job_of(metric, queries, rows, topk);
    job.shadow = shadow_rows_of(shadow, rows->count);
    job.centre = shadow->centre;
    job.mark = scan_topk_mark();
    job.ticket = (unsigned long long *)scratch;
    job.counts = (struct few_counts *)(scratch + FEW_COUNTS);
    job.picks = (struct topk_entry *)(scratch + at.picks);
    job.above = (float *)(scratch + at.above);
    job.lists = (struct topk_entry *)(scratch + at.lists);
    job.out_ids = topk->out_ids;
    job.out_scores = topk->out_scores;
    job.out_counts = topk->out_counts;
    job.list_stride = at.list_stride;
    job.metric = metric;
    job.code_stride = (uint32_t)shadow_stride(rows->dimension);
    job.query_count = (uint32_t)queries->count;
    job.scored_max = queries->count > 1 ? (uint32_t)FEW_LIST : UINT32_MAX;
    int error = grid_shape(rows->count, job.best.k, &blocks, &job.picked);
    return error ? error : few_launch(&job, blocks, stream);
}
