/* tile: many queries against many rows, as tile.cuh explains. */
#include "kernels/cuda/tile.cuh"

/* A level of the tree in which the two halves of v go to the two threads that differ in bit s. */
template <int HALF> __device__ __forceinline__ void tile_fold_select(float *v, int s)
{
    bool upper = threadIdx.x & s;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float sent = upper ? v[i] : v[i + HALF], kept = upper ? v[i + HALF] : v[i];
        v[i] = canonical_add(kept, __shfl_xor_sync(WARP, sent, s));
    }
}

template <int HALF> __device__ __forceinline__ void tile_fold_swapped(float *v, int s)
{
#pragma unroll
    for (int i = 0; i < HALF; i++)
        v[i] = canonical_add(v[i], __shfl_xor_sync(WARP, v[i + HALF], s));
}

/* Folds the warp's 32 partials of MQ x MR pairs; each thread keeps v[0 .. MQ MR / 32 - 1]. */
template <int PAIRS> __device__ __forceinline__ void tile_tree(float *v)
{
    tile_fold_swapped<PAIRS / 2>(v, 16);
    tile_fold_swapped<PAIRS / 4>(v, 8);
    tile_fold_swapped<PAIRS / 8>(v, 4);
    tile_fold_select<PAIRS / 16>(v, 2);
    tile_fold_select<PAIRS / 32>(v, 1);
}

/* Stores or offers the results of tile_tree: each thread has one query and MQ MR / 32 neighbouring
 * rows. */
template <class S>
__device__ __forceinline__ void tile_give(const struct cuda_tile_job &job,
                                          const struct tile_place &place, const float *side,
                                          const float *sums)
{
    const int count = S::MQ * S::MR / 32;
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t query_in = warp % S::QW * S::MQ + lane / 4 * (S::MQ / 8);
    uint32_t row_in = warp / S::QW * S::MR + (lane & 1) * count;
    if (S::MQ == 16)
        query_in += lane >> 1 & 1;
    else
        row_in += (lane >> 1 & 1) * 2 * count;
    uint64_t query = place.pass * S::QUERIES + query_in;
    uint64_t row = place.tile * S::ROWS + row_in;
    side += place.pass_seq % TILE_SLOTS * S::SIDE;
    uint32_t bound_key = __float_as_uint(side[S::QUERIES + query_in]);
#pragma unroll
    for (int i = 0; i < count; i++) {
        if (query >= job.query_count || row + i >= job.span.count) continue;
        float score = sums[i];
        if (job.query_norms)
            score = canonical_cosine(score, side[query_in], side[2 * S::QUERIES + row_in + i]);
        if (job.span.sink.lists)
            sink_offer(&job.span.sink, S::LISTED ? job.listed[query] : query,
                       job.span.first + row + i, score, job.lower_is_better, bound_key);
        else
            job.span.scores[query * job.span.scores_stride + row + i] = score;
    }
}

/* Adds one chunk of one pass to a thread's partials. */
template <int MQ, int MR, bool EUCLIDEAN, bool COMPENSATED>
__device__ __forceinline__ void tile_take(const float *queries, const float *rows, uint32_t steps,
                                          uint32_t query_step, uint32_t row_step, float *p,
                                          float *c)
{
#pragma unroll 1
    for (uint32_t step = 0; step < steps; step++) {
        float x[MQ];
#pragma unroll
        for (int q = 0; q < MQ; q++)
            x[q] = queries[q * 32];
#pragma unroll
        for (int r = 0; r < MR; r++) {
            float y = rows[r * 32];
#pragma unroll
            for (int q = 0; q < MQ; q++)
                sum_take<EUCLIDEAN, COMPENSATED>(&p[q * MR + r], &c[COMPENSATED ? q * MR + r : 0],
                                                 x[q], y);
        }
        queries += query_step;
        rows += row_step;
    }
}

/* Starts the copies of the chunk at `ahead`, if there is one, and advances `ahead`. */
template <class S>
__device__ __forceinline__ void tile_copy_next(const struct cuda_tile_job &job,
                                               struct tile_place *ahead, float *shared, float *side)
{
    if (ahead->tile < job.tiles) {
        tile_copy_chunk<S>(job, *ahead, shared);
        if (ahead->chunk == 0) tile_copy_side<S>(job, *ahead, side);
    }
    copies_commit();
    tile_advance(job, ahead);
}

template <class S, bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(TILE_THREADS, S::BLOCKS)
    tile_kernel(const struct cuda_tile_job asked)
{
    struct cuda_tile_job found;
    if (S::LISTED) {
        found = asked;
        found.query_count = *asked.listed_count;
        found.passes = (found.query_count + S::QUERIES - 1) / S::QUERIES;
        if (found.passes == 0) return;
    }
    const struct cuda_tile_job &job = S::LISTED ? found : asked;
    extern __shared__ float4 shared_memory[];
    const int PAIRS = S::MQ * S::MR;
    float *shared = (float *)shared_memory;
    float *side = shared + tile_side_at<S>(job.steps, job.chunks, job.resident);
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool copies = warp < TILE_COPY_WARPS;
    const float *my_queries = shared + warp % S::QW * S::MQ * 32 + lane;
    const float *my_rows = shared + tile_rows_at<S>(job.steps) + warp / S::QW * S::MR * 32 + lane;
    struct tile_place now = {blockIdx.x, 0, 0, 0, 0}, ahead = now;
    for (int n = 0; copies && n < TILE_AHEAD; n++)
        tile_copy_next<S>(job, &ahead, shared, side);
    for (; now.tile < job.tiles; now.tile += gridDim.x) {
        for (now.pass = 0; now.pass < job.passes; now.pass++) {
            float p[PAIRS], c[COMPENSATED ? PAIRS : 1];
#pragma unroll
            for (int i = 0; i < PAIRS; i++)
                p[i] = c[COMPENSATED ? i : 0] = 0.0f;
            for (now.chunk = 0; now.chunk < job.chunks; now.chunk++) {
                /* This chunk has arrived, and all threads are done with the one before it, whose
                 * slot is filled again. */
                if (copies) copies_wait<TILE_AHEAD - 1>();
                __syncthreads();
                if (copies) tile_copy_next<S>(job, &ahead, shared, side);
                uint32_t slot = now.stage % TILE_SLOTS, row_slot = job.resident ? now.chunk : slot;
                tile_take<S::MQ, S::MR, EUCLIDEAN, COMPENSATED>(
                    my_queries + slot * (S::QUERIES * 32 * job.steps),
                    my_rows + row_slot * (S::ROWS * 32 * job.steps), tile_steps(job, now.chunk),
                    S::QUERIES * 32, S::ROWS * 32, p, c);
                now.stage++;
            }
            tile_tree<PAIRS>(p);
            if (COMPENSATED) {
                tile_tree<PAIRS>(c);
#pragma unroll
                for (int i = 0; i < PAIRS / 32; i++)
                    p[i] = canonical_corrected(p[i], c[i]);
            }
            tile_give<S>(job, now, side, p);
            now.pass_seq++;
        }
    }
}

template <class S> static size_t tile_shared_bytes(const struct cuda_tile_job *job)
{
    return (tile_side_at<S>(job->steps, job->chunks, job->resident) + TILE_SLOTS * S::SIDE) *
           sizeof(float);
}

/* Resident rows and chunks of many steps, as far as the device's shared memory allows. One step
 * and rows that are not resident fit every device. */
template <class S> static size_t tile_fit(struct cuda_tile_job *job, size_t most)
{
    bool stay = job->passes > 1 && S::BLOCKS == 1;
    size_t bytes = 0;
    for (int attempt = stay ? 0 : 3; attempt < 6; attempt++) {
        job->steps = 4u >> attempt % 3;
        job->chunks = (job->stride / 32 + job->steps - 1) / job->steps;
        job->resident = attempt < 3;
        bytes = tile_shared_bytes<S>(job);
        /* A resident chunk must be out of use before its successor is copied. */
        bool sound = !job->resident || job->chunks > TILE_AHEAD;
        if (sound && bytes <= most / S::BLOCKS) break;
    }
    return bytes;
}

template <class S, bool COMPENSATED>
static int tile_enqueue(struct cuda_tile_job *job, cudaStream_t stream)
{
    int processors = 0, most = 0;
    int error = device_attribute(cudaDevAttrMultiProcessorCount, &processors);
    if (!error) error = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most);
    if (error) return error;
    job->tiles = (job->span.count + S::ROWS - 1) / S::ROWS;
    job->passes = (job->query_count + S::QUERIES - 1) / S::QUERIES;
    size_t shared = tile_fit<S>(job, (size_t)most);
    uint64_t blocks = (uint64_t)processors * S::BLOCKS;
    if (blocks > job->tiles) blocks = job->tiles;
    void (*kernel)(const struct cuda_tile_job) = job->lower_is_better
                                                     ? tile_kernel<S, true, COMPENSATED>
                                                     : tile_kernel<S, false, COMPENSATED>;
    error = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)shared);
    if (error) return error;
    kernel<<<(unsigned)blocks, TILE_THREADS, shared, stream>>>(*job);
    return cudaGetLastError();
}

/* The shapes that suit a number of queries. */
typedef tile_shape<16, 12, 2, 1> tile_many;
typedef tile_shape<16, 12, 1, 1> tile_some;
typedef tile_shape<8, 8, 1, 2> tile_few;
typedef tile_shape<8, 4, 2, 2> tile_many_compensated;
typedef tile_shape<8, 4, 1, 2> tile_few_compensated;

enum { TILE_FEW_MAX = 8, TILE_SOME_MAX = 16 };

static struct cuda_tile_job tile_job_of(enum metric metric, const struct cuda_queries *queries,
                                        const struct cuda_rows *rows, const struct score_span *span)
{
    struct cuda_tile_job job = {};
    job.queries = queries->rows;
    job.query_norms = metric == METRIC_COSINE ? queries->norms : NULL;
    job.rows = span_rows(rows, span);
    job.norms = rows->norms + span->first;
    job.query_count = queries->count;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    job.lower_is_better = metric_lower_is_better(metric);
    job.span = *span;
    return job;
}

int tile_launch(enum metric metric, const struct cuda_queries *queries,
                const struct cuda_rows *rows, const struct score_span *span, cudaStream_t stream)
{
    if (span->count == 0 || queries->count == 0) return cudaSuccess;
    struct cuda_tile_job job = tile_job_of(metric, queries, rows, span);
    bool few = queries->count <= TILE_FEW_MAX;
    if (canonical_is_compensated(rows->dimension))
        return few ? tile_enqueue<tile_few_compensated, true>(&job, stream)
                   : tile_enqueue<tile_many_compensated, true>(&job, stream);
    if (few) return tile_enqueue<tile_few, false>(&job, stream);
    if (queries->count <= TILE_SOME_MAX) return tile_enqueue<tile_some, false>(&job, stream);
    return tile_enqueue<tile_many, false>(&job, stream);
}

int tile_listed_launch(enum metric metric, const struct cuda_queries *queries,
                       const struct cuda_rows *rows, const struct score_span *span,
                       const uint32_t *listed, const uint32_t *listed_count, cudaStream_t stream)
{
    if (span->count == 0 || queries->count == 0) return cudaSuccess;
    struct cuda_tile_job job = tile_job_of(metric, queries, rows, span);
    job.listed = listed;
    job.listed_count = listed_count;
    return canonical_is_compensated(rows->dimension)
               ? tile_enqueue<tile_listed<tile_many_compensated>, true>(&job, stream)
               : tile_enqueue<tile_listed<tile_many>, false>(&job, stream);
}

uint64_t tile_wave_rows(uint32_t dimension, uint64_t query_count)
{
    int processors = 1;
    if (device_attribute(cudaDevAttrMultiProcessorCount, &processors)) processors = 1;
    bool few = query_count <= TILE_FEW_MAX;
    uint64_t rows = query_count <= TILE_SOME_MAX ? (int)tile_some::ROWS : (int)tile_many::ROWS;
    if (few) rows = (int)tile_few::ROWS;
    if (canonical_is_compensated(dimension))
        rows = few ? (int)tile_few_compensated::ROWS : (int)tile_many_compensated::ROWS;
    return rows *
           /* two blocks of a multiprocessor take as long as one with twice the work */
           (uint64_t)processors;
}

extern "C" int cuda_tile(enum metric metric, const struct cuda_queries *queries,
                         const struct cuda_rows *rows, float *scores, uint64_t scores_stride,
                         struct CUstream_st *stream)
{
    struct score_span span = {};
    span.count = rows->count;
    span.scores = scores;
    span.scores_stride = scores_stride;
    return tile_launch(metric, queries, rows, &span, stream);
}
