/* shadow_direct: one query that travels with the launch, through the shadow of all rows, in one
 * cooperative launch, whose results are stored straight into host memory (direct.cuh).
 *
 * Each block codes the query for itself, and scans its share of the codes. It scores its few best
 * rows by estimate: canonical scores of rows, of which the k best of all blocks prove a bound,
 * whichever rows they are. When all blocks have left theirs, each holds its rows against that
 * bound, scores what may reach it, and lists what does; the last block selects the k best. */
#include "kernels/cuda/direct.cuh"
#include "kernels/cuda/shadow_grid.cuh"

#include <string.h>

enum {
    FAST_CHUNK = 8 * GRID_TURN, /* rows that a block holds against the bound at a time */
    FAST_COUNTS = 64,           /* where in scratch these are, */
    FAST_PICKS = 256, /* the picks, and behind them what the estimates allow, and the list */
    FAST_ABOVE = FAST_PICKS + SCAN_TOPK_SURVIVORS * (int)sizeof(struct topk_entry)
};

/* As direct.cu's, with room for what a shadow has besides. */
#if CUDART_VERSION >= 13000
enum { FAST_DIMENSION = 1024 };
#else
enum { FAST_DIMENSION = 896 };
#endif

/* Of a launch; 0 before its blocks meet. */
struct fast_counts {
    uint32_t found;  /* listed rows */
    uint32_t scored; /* rows that the bound did not rule out */
    uint32_t done;   /* blocks that have listed theirs */
};

struct fast_job {
    struct shadow_rows shadow;
    const float *centre;
    const float *rows, *norms;
    const uint64_t *ids;
    unsigned long long mark;
    unsigned long long *ticket;
    struct fast_counts *counts;
    struct topk_entry *picks; /* `picked` of each block; entry_worst: none */
    float *above;             /* of each row */
    struct topk_entry *list;  /* with a place for each row */
    unsigned long long *cells;
    struct screen screen;
    struct screen_terms terms;
    uint32_t dimension, code_stride;
    uint32_t k, picked;
    uint32_t limit_key; /* the threshold's */
    uint32_t tag;
    float query_norm;
    enum metric metric;
    bool lower_is_better, looks_ahead;
    float query[FAST_DIMENSION];
};

#if CUDART_VERSION < 13000
static_assert(sizeof(struct fast_job) <= 4096, "every driver takes so many bytes of parameters");
#endif
static_assert((int)FAST_DIMENSION <= (int)VECTOR_COMPENSATED_ABOVE, "no sum is compensated");

struct fast_shared {
    float query[FAST_DIMENSION], centre[FAST_DIMENSION];
    int4 planes[2 * FAST_DIMENSION / 16];
    struct best_shared best;
    struct topk_entry bests[GRID_WARPS]; /* id: a row; key: less for a better estimate */
    struct shadow_query coded;
    struct screen_line line;
    struct topk_bound bound;
    uint32_t listed[FAST_CHUNK], count;
    bool is_last;
};

__device__ __forceinline__ uint32_t fast_stride(const struct fast_job &job)
{
    return (job.dimension + 31) / 32 * 32;
}

/* ---- the query ---- */

__device__ __forceinline__ void fast_code(const struct fast_job &job, struct fast_shared *shared)
{
    const uint32_t stride = fast_stride(job), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (uint32_t i = threadIdx.x; i < stride; i += GRID_THREADS) {
        shared->query[i] = i < job.dimension ? job.query[i] : 0.0f;
        shared->centre[i] = __ldg(&job.centre[i]);
    }
    __syncthreads();
    float centred = 0.0f;
    if (warp == 0) {
        struct shadow_query coded =
            shadow_query_warp(stride, job.code_stride, shared->query, job.query_norm, NULL, 2,
                              (int8_t *)shared->planes);
        if (lane == 0) shared->coded = coded;
    } else if (warp == 1) {
        centred = shadow_centred_warp(stride, shared->query, shared->centre);
    }
    __syncthreads();
    if (warp == 1 && lane == 0) shared->coded.centred = centred;
    __syncthreads();
}

/* ---- the codes ---- */

/* Scans the warp's rows, and returns the best of those of this lane by their estimates. */
template <int FLIGHT>
__device__ __forceinline__ struct topk_entry fast_scan(const struct fast_job &job,
                                                       const struct fast_shared *shared)
{
    const uint32_t lane = threadIdx.x % 32, in_unit = lane / 16 * SCAN_ROWS;
    const struct shadow_query query = shared->coded;
    struct topk_entry best = entry_worst();
    for (uint32_t turn = 0;; turn++) {
        const uint64_t first = grid_turn(turn) + threadIdx.x / 32 * GRID_UNIT;
        if (first >= job.shadow.count) break; /* the whole warp */
        const uint64_t row = first + in_unit + lane % 16;
        const bool owns = lane % 16 < SCAN_ROWS && row < job.shadow.count;
        float scale = 0.0f, lost = 0.0f, length = 0.0f, norm = 0.0f;
        if (owns) {
            scale = __ldg(&job.shadow.scales[row]);
            lost = __ldg(&job.shadow.losts[row]);
            length = __ldg(&job.shadow.lengths[row]);
            norm = __ldg(&job.norms[row]);
        }
        if (job.looks_ahead) grid_ahead(job.shadow, job.code_stride, turn + 1);
        int high = 0, low = 0;
        scan_rows<FLIGHT>(job.shadow, job.code_stride, shared->planes, first + in_unit, 0, &high,
                          &low);
        if (owns) {
            const float estimate = shadow_estimate(&query, scale, high, low);
            struct topk_entry entry = entry_worst();
            entry.id = row;
            entry.key = sink_key(scan_rank(job.metric, estimate, norm), false);
            if (entry_before(entry, best)) best = entry;
            job.above[row] = shadow_above(&query, estimate, lost, length);
        }
        __syncwarp();
    }
    return best;
}

template <int GROUP, bool EUCLIDEAN>
__device__ __forceinline__ struct topk_entry fast_score(const struct fast_job &job,
                                                        const struct fast_shared *shared,
                                                        uint64_t row)
{
    const uint32_t stride = fast_stride(job);
    struct topk_entry entry;
    entry.score =
        sum_rows<GROUP, EUCLIDEAN, false, true>(shared->query, job.rows + row * stride, stride);
    if (job.metric == METRIC_COSINE)
        entry.score = canonical_cosine(entry.score, job.query_norm, __ldg(&job.norms[row]));
    entry.id = job.ids ? __ldg(&job.ids[row]) : row;
    entry.key = sink_key(entry.score, job.lower_is_better);
    return entry;
}

/* Scores the best of the warps' best rows, and leaves them for all blocks. */
template <bool EUCLIDEAN>
__device__ __forceinline__ void fast_pick(const struct fast_job &job, struct topk_entry best,
                                          struct fast_shared *shared)
{
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    scan_best(&best, 32);
    if (lane == 0) entry_write(&shared->bests[warp], best);
    __syncthreads();
    struct topk_entry other = entry_worst();
    if (lane < GRID_WARPS) other = entry_read(&shared->bests[lane]);
    /* warps without a row are alike, and rank by their place */
    const bool before =
        entry_before(other, best) || (best.key == ~0u && other.key == ~0u && lane < warp);
    const uint32_t place = (uint32_t)__popc(__ballot_sync(WARP, before));
    if (place >= job.picked) return; /* the whole warp */
    struct topk_entry entry = entry_worst();
    if (best.key != ~0u) entry = fast_score<32, EUCLIDEAN>(job, shared, best.id);
    if (entry.key > job.limit_key) entry = entry_worst();
    if (lane == 0) entry_write(&job.picks[blockIdx.x * job.picked + place], entry);
}

/* ---- the bound ---- */

/* The k-th best of the picks is the bound, if there are so many. */
__device__ __forceinline__ void fast_bound(const struct fast_job &job, struct fast_shared *shared)
{
    grid_rank(job.picks, gridDim.x * job.picked, job.k, &shared->best);
    if (threadIdx.x == 0) {
        const struct topk_entry worst = entry_read(&shared->best.best[job.k - 1]);
        struct topk_bound bound = {~0ull, job.limit_key};
        if (worst.key < bound.key) {
            bound.id = worst.id;
            bound.key = worst.key;
        }
        const float score = sink_score(bound.key, job.lower_is_better);
        struct screen_line line = {0.0f, -INFINITY};
        if (!isnan(score)) line = screen_line(&job.screen, job.query_norm, score);
        shared->bound = bound;
        shared->line = line;
    }
    __syncthreads();
}

/* ---- what may reach it ---- */

/* Scores the listed rows, and lists for all blocks what reaches the bound. */
template <int GROUP, bool EUCLIDEAN>
__device__ __forceinline__ void fast_offer(const struct fast_job &job,
                                           const struct fast_shared *shared, uint32_t count)
{
    const struct topk_bound bound = shared->bound;
    const uint32_t groups = GRID_THREADS / GROUP, a_warp = 32 / GROUP;
    for (uint32_t n = 0; n + threadIdx.x / 32 * a_warp < count; n += groups) {
        /* Groups past the end repeat the last row: a warp's shuffles need all its threads. */
        const uint32_t i = n + threadIdx.x / GROUP;
        const uint64_t row = shared->listed[i < count ? i : count - 1];
        const struct topk_entry entry = fast_score<GROUP, EUCLIDEAN>(job, shared, row);
        if (i >= count || threadIdx.x % GROUP != 0) continue;
        if (entry.key > bound.key || (entry.key == bound.key && entry.id > bound.id)) continue;
        entry_write(&job.list[atomicAdd(&job.counts->found, 1u)], entry);
    }
}

template <bool EUCLIDEAN>
__device__ __forceinline__ void fast_pass(const struct fast_job &job, struct fast_shared *shared)
{
    const struct screen_line line = shared->line;
    for (uint32_t turn = 0; grid_turn(turn) < job.shadow.count; turn += FAST_CHUNK / GRID_TURN) {
        if (threadIdx.x == 0) shared->count = 0;
        __syncthreads();
#pragma unroll
        for (uint32_t n = threadIdx.x; n < FAST_CHUNK; n += GRID_THREADS) {
            const uint64_t row = grid_turn(turn + n / GRID_TURN) + n % GRID_TURN;
            if (row >= job.shadow.count) continue;
            const float floor = screen_floor(&job.terms, __ldg(&job.norms[row]));
            if (job.above[row] < fmaf(line.scale, floor, line.offset)) continue;
            shared->listed[atomicAdd(&shared->count, 1u)] = (uint32_t)row;
        }
        __syncthreads();
        const uint32_t count = shared->count;
        if (count && threadIdx.x == 0) atomicAdd(&job.counts->scored, count);
        if (count <= 2 * GRID_WARPS)
            fast_offer<32, EUCLIDEAN>(job, shared, count);
        else
            fast_offer<8, EUCLIDEAN>(job, shared, count);
        __syncthreads(); /* all have read the list */
    }
}

/* ---- the best ---- */

template <int FLIGHT, bool EUCLIDEAN>
__global__ void __launch_bounds__(GRID_THREADS, 1) shadow_direct_kernel(const struct fast_job job)
{
    __shared__ struct fast_shared shared;
    if (is_clerk()) ticket_prepare(job.ticket, job.mark);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const struct fast_counts none = {0, 0, 0};
        *job.counts = none;
    }
    grid_ahead(job.shadow, job.code_stride, 0); /* while the query is coded */
    fast_code(job, &shared);
    fast_pick<EUCLIDEAN>(job, fast_scan<FLIGHT>(job, &shared), &shared);
    grid_meet(job.ticket, job.mark);
    fast_bound(job, &shared);
    fast_pass<EUCLIDEAN>(job, &shared);
    if (!grid_last(&job.counts->done, &shared.is_last)) return;
    const uint32_t found = __ldcg(&job.counts->found);
    grid_best(job.list, found, job.k, &shared.best);
    cells_store_best(job.cells, job.tag, job.k, &shared.best);
    if (threadIdx.x == job.k)
        cell_store(job.cells, job.tag, 1 + 3 * (uint64_t)job.k, __ldcg(&job.counts->scored));
}

/* ---- launching ---- */

static_assert(GRID_TURN % 32 == 0 && FAST_CHUNK % GRID_THREADS == 0, "all threads have rows");
static_assert((int)GRID_THREADS > (int)CUDA_DIRECT_K_MAX, "one thread for each of the best");
static_assert((int)CUDA_DIRECT_K_MAX <= (int)SCAN_TOPK_K_MAX, "the best fit");
static_assert(GRID_SPREAD * CUDA_DIRECT_K_MAX + SCAN_TOPK_BLOCKS <= SCAN_TOPK_SURVIVORS,
              "all picks are ranked at once");

/* More rows come as fast by themselves (docs/performance-gpu.md). */
enum { FAST_AHEAD_ROWS_MAX = 1 << 17 };
static bool looks_ahead = true;

extern "C" void cuda_shadow_direct_ahead(bool ahead)
{
    looks_ahead = ahead;
}

extern "C" bool cuda_shadow_direct_suits(uint32_t dimension, uint32_t k, uint64_t row_count)
{
    if (dimension > FAST_DIMENSION || k < 1 || k > CUDA_DIRECT_K_MAX) return false;
    if (row_count < GRID_ROWS_MIN || row_count >= UINT32_MAX) return false;
    return grid_runs();
}

extern "C" uint64_t cuda_shadow_direct_scratch(uint64_t row_count)
{
    return FAST_ABOVE + grid_align(row_count * sizeof(float)) +
           row_count * sizeof(struct topk_entry);
}

static struct fast_job fast_job_of(enum metric metric, const struct cuda_rows *rows,
                                   const struct cuda_shadow *shadow,
                                   const struct cuda_direct *direct)
{
    struct fast_job job;
    char *scratch = (char *)direct->scratch;
    job.shadow.codes = shadow->codes;
    job.shadow.scales = shadow->scales;
    job.shadow.losts = shadow->losts;
    job.shadow.lengths = shadow->lengths;
    job.shadow.count = rows->count;
    job.centre = shadow->centre;
    job.rows = rows->rows;
    job.norms = rows->norms;
    job.ids = direct->ids;
    job.mark = scan_topk_mark();
    job.ticket = (unsigned long long *)scratch;
    job.counts = (struct fast_counts *)(scratch + FAST_COUNTS);
    job.picks = (struct topk_entry *)(scratch + FAST_PICKS);
    job.above = (float *)(scratch + FAST_ABOVE);
    job.list =
        (struct topk_entry *)(scratch + FAST_ABOVE + grid_align(rows->count * sizeof(float)));
    job.cells = (unsigned long long *)direct->cells;
    job.screen = screen_of_shadow(metric, rows->dimension);
    job.terms = screen_terms(&job.screen);
    job.dimension = rows->dimension;
    job.code_stride = (uint32_t)shadow_stride(rows->dimension);
    job.k = direct->k;
    job.picked = 0;
    job.metric = metric;
    job.lower_is_better = metric_lower_is_better(metric);
    job.limit_key = direct->threshold ? topk_key(*direct->threshold, job.lower_is_better) : ~0u;
    job.looks_ahead = looks_ahead && rows->count <= FAST_AHEAD_ROWS_MAX;
    job.tag = direct->tag;
    job.query_norm = direct->query_norm;
    memcpy(job.query, direct->query, rows->dimension * sizeof *job.query);
    memset(job.query + rows->dimension, 0, sizeof job.query - rows->dimension * sizeof *job.query);
    return job;
}

static const void *fast_kernel(uint32_t code_stride, bool euclidean)
{
    if (code_stride <= 256)
        return euclidean ? (const void *)shadow_direct_kernel<1, true>
                         : (const void *)shadow_direct_kernel<1, false>;
    if (code_stride <= 512)
        return euclidean ? (const void *)shadow_direct_kernel<2, true>
                         : (const void *)shadow_direct_kernel<2, false>;
    if (code_stride <= 768)
        return euclidean ? (const void *)shadow_direct_kernel<3, true>
                         : (const void *)shadow_direct_kernel<3, false>;
    return euclidean ? (const void *)shadow_direct_kernel<4, true>
                     : (const void *)shadow_direct_kernel<4, false>;
}

extern "C" int cuda_shadow_direct(enum metric metric, const struct cuda_rows *rows,
                                  const struct cuda_shadow *shadow,
                                  const struct cuda_direct *direct, struct CUstream_st *stream)
{
    unsigned blocks = 1;
    if (!cuda_shadow_direct_suits(rows->dimension, direct->k, rows->count) || direct->tag == 0 ||
        direct->scratch_bytes < cuda_shadow_direct_scratch(rows->count))
        return cudaErrorInvalidValue;
    struct fast_job job = fast_job_of(metric, rows, shadow, direct);
    int error = grid_shape(rows->count, job.k, &blocks, &job.picked);
    if (error) return error;
    void *parameters[] = {&job};
    error = cudaLaunchCooperativeKernel(fast_kernel(job.code_stride, job.lower_is_better),
                                        dim3(blocks), dim3(GRID_THREADS), parameters, 0, stream);
    return error ? error : cudaGetLastError();
}
