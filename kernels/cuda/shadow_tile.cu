/* shadow_tile: many queries against the shadow of rows, by tensor cores: products of int8 codes,
 * which int32 sums up exactly. The shape of a tile and the way of its data are those of screen.cuh:
 * a fragment of m16n8k32 in int8 has its bytes where one of m16n8k8 in TF32 has them. */
#include "kernels/cuda/screen.cuh"
#include "kernels/cuda/shadow_pair.cuh"

/* Pairs of a tile are queued, because to list one takes two trips to memory, and listed while the
 * next tile is multiplied, a thread each. A queue is filled in one tile, emptied in the second and
 * cleared in the third; barriers lie between. */
struct tile_queue {
    struct tile_found *found; /* TILE_QUEUE */
    uint32_t *count;
};
enum { TILE_QUEUE = 256, TILE_QUEUES = 3 };

template <class S> struct tile_room {
    enum {
        SLOT = (S::ROWS + S::QUERIES) * 128, /* bytes */
        SIDE = S::ROWS * (int)sizeof(struct tile_row) + S::QUERIES * (int)sizeof(struct tile_query),
        QUEUES = S::SLOTS * SLOT + 2 * SIDE,
        COUNTS = QUEUES + TILE_QUEUES * TILE_QUEUE * (int)sizeof(struct tile_found),
        SHARED = COUNTS + TILE_QUEUES * (int)sizeof(uint32_t)
    };
};

template <int COUNT, int THREADS>
__device__ __forceinline__ void tile_copy_codes(char *to, const int8_t *codes, uint64_t first,
                                                uint64_t count, uint32_t stride, uint32_t column,
                                                uint32_t end)
{
    const uint32_t row = threadIdx.x / 8, piece = threadIdx.x % 8;
    if (column + piece * 16 >= end) return; /* the queries' codes are 0 there */
    const uint32_t last = count - first < COUNT ? (uint32_t)(count - first) - 1 : COUNT - 1u;
    const int8_t *from = codes + first * stride + column + piece * 16;
    to += row * 128 + (piece ^ (row & 7)) * 16;
#pragma unroll
    for (uint32_t n = 0; n < COUNT; n += THREADS / 8) {
        uint32_t at = n + row < last ? n + row : last;
        copy_16((float *)(to + n * 128), (const float *)(from + (uint64_t)at * stride));
    }
}

__device__ __forceinline__ uint64_t tile_first_row(const struct shadow_tile &job, uint64_t tile,
                                                   uint32_t rows)
{
    return tile / job.query_tiles * job.step * rows;
}

template <class S>
__device__ __forceinline__ void tile_copy_next(const struct shadow_tile &job,
                                               struct screen_place *ahead, char *shared)
{
    if (ahead->tile < job.tiles) {
        char *to = shared + ahead->stage % S::SLOTS * tile_room<S>::SLOT;
        const uint32_t column = ahead->chunk * 128;
        tile_copy_codes<S::ROWS, S::THREADS>(
            to, job.rows.codes, tile_first_row(job, ahead->tile, S::ROWS), job.rows.count,
            job.code_stride, column, job.code_stride);
        tile_copy_codes<S::QUERIES, S::THREADS>(
            to + S::ROWS * 128, job.planes, ahead->tile % job.query_tiles * S::QUERIES,
            job.query_count, job.plane_stride, column, job.plane_stride);
    }
    copies_commit();
    ahead->stage++;
    if (++ahead->chunk < job.chunks) return;
    ahead->chunk = 0;
    ahead->tile += gridDim.x;
}

/* 16 rows x 8 queries: sums += rows . queries over 32 codes. */
__device__ __forceinline__ void tile_multiply(int *sums, const uint32_t *rows,
                                              const uint32_t *queries)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(queries[0]),
                   "r"(queries[1]));
#endif
}

template <class S>
__device__ __forceinline__ void tile_take_step(const struct screen_step<S> &step,
                                               int (*sums)[S::WQ / 8][4])
{
#pragma unroll
    for (int r = 0; r < S::WR / 16; r++)
#pragma unroll
        for (int q = 0; q < S::WQ / 8; q++)
            tile_multiply(sums[r][q], step.rows[r], &step.queries[q / 2][q % 2 * 2]);
}

template <class S, bool SAMPLE>
__device__ __forceinline__ void tile_sides(const struct shadow_tile &job, uint64_t tile,
                                           struct tile_row *rows, struct tile_query *queries)
{
    for (uint32_t n = threadIdx.x; n < S::ROWS; n += S::THREADS)
        rows[n] = tile_row_of<SAMPLE>(job, tile_first_row(job, tile, S::ROWS) + n);
    for (uint32_t n = threadIdx.x; n < S::QUERIES; n += S::THREADS) {
        const uint64_t query = tile % job.query_tiles * S::QUERIES + n;
        queries[n] = tile_query_of<SAMPLE>(job, query);
        if (!SAMPLE && tile_is_lost(job, query)) queries[n].line.offset = INFINITY;
    }
}

/* Apart: its registers are not the tile's. */
__device__ __noinline__ void tile_list_apart(const struct shadow_tile &job,
                                             const struct tile_found &pair)
{
    tile_list(job, pair);
}

__device__ __forceinline__ struct tile_queue tile_queue_at(char *queues, char *counts, uint32_t n)
{
    struct tile_queue queue;
    queue.found = (struct tile_found *)queues + n % TILE_QUEUES * TILE_QUEUE;
    queue.count = (uint32_t *)counts + n % TILE_QUEUES;
    return queue;
}

__device__ __forceinline__ void tile_empty(const struct shadow_tile &job,
                                           const struct tile_queue &queue)
{
    const uint32_t count = *queue.count < TILE_QUEUE ? *queue.count : (uint32_t)TILE_QUEUE;
    for (uint32_t n = threadIdx.x; n < count; n += blockDim.x)
        tile_list_apart(job, queue.found[n]);
}

/* Sum i of fragment [r][q] belongs to row lane / 4 + i / 2 * 8 of 16 and query lane % 4 * 2 + i %
 * 2 of 8. */
template <class S>
__device__ __forceinline__ void tile_give(const struct shadow_tile &job, uint64_t tile,
                                          const struct tile_row *rows,
                                          const struct tile_query *queries,
                                          const struct tile_queue &queue,
                                          const int (*sums)[S::WQ / 8][4])
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t row_in = warp / S::QW * S::WR + lane / 4;
    const uint32_t query_in = warp % S::QW * S::WQ + lane % 4 * 2;
#pragma unroll
    for (int q = 0; q < S::WQ / 8; q++) {
        const struct tile_query two[2] = {queries[query_in + q * 8], queries[query_in + q * 8 + 1]};
        uint32_t passes = 0;
#pragma unroll
        for (int i = 0; i < S::WR / 4; i++) {
            const struct tile_row row = rows[row_in + i / 2 * 8];
            float estimate = tile_estimate(two[i % 2].coded, row.scale, sums[i / 4][q][i % 4]);
            float above = shadow_above(&two[i % 2].coded, estimate, row.lost, row.length);
            float worst = fmaf(two[i % 2].line.scale, row.floor, two[i % 2].line.offset);
            passes |= above < worst ? 0u : 1u << i;
        }
        for (; passes; passes &= passes - 1) {
            const int at = __ffs((int)passes) - 1;
            int sum = 0;
#pragma unroll
            for (int i = 0; i < S::WR / 4; i++)
                if (i == at) sum = sums[i / 4][q][i % 4];
            const uint32_t row_at = row_in + (uint32_t)at / 2 * 8;
            const struct shadow_query &coded = queries[query_in + q * 8 + at % 2].coded;
            const uint64_t query = tile % job.query_tiles * S::QUERIES + query_in + q * 8 + at % 2;
            const uint64_t row = tile_first_row(job, tile, S::ROWS) + row_at;
            if (query >= job.query_count || row >= job.rows.count) continue;
            struct tile_found pair;
            pair.query = (uint32_t)query;
            pair.row = (uint32_t)row;
            pair.estimate = tile_estimate(coded, rows[row_at].scale, sum);
            pair.above =
                shadow_above(&coded, pair.estimate, rows[row_at].lost, rows[row_at].length);
            const uint32_t place = atomicAdd(queue.count, 1u);
            if (place < TILE_QUEUE)
                queue.found[place] = pair;
            else
                tile_list_apart(job, pair);
        }
    }
}

/* Each warp's best row by estimate, for each of its queries. */
template <class S>
__device__ __forceinline__ void tile_sample(const struct shadow_tile &job, uint64_t tile,
                                            const struct tile_row *rows,
                                            const struct tile_query *queries,
                                            const int (*sums)[S::WQ / 8][4])
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t row_in = warp / S::QW * S::WR + lane / 4;
    const uint32_t query_in = warp % S::QW * S::WQ + lane % 4 * 2;
    const uint64_t first = tile_first_row(job, tile, S::ROWS);
#pragma unroll
    for (int n = 0; n < S::WQ / 4; n++) { /* its queries: two of each fragment */
        const uint32_t in = query_in + n / 2 * 8 + n % 2;
        const uint64_t query = tile % job.query_tiles * S::QUERIES + in;
        const struct shadow_query coded = queries[in].coded;
        struct topk_entry best = entry_worst();
#pragma unroll
        for (int r = 0; r < S::WR / 8; r++) {
            const uint32_t row_at = row_in + r * 8;
            uint64_t row = first + row_at;
            bool open = query < job.query_count && row < job.rows.count;
            if (job.filter.allowed) open = open && filter_passes(job.filter, query, row);
            if (!open) continue;
            float estimate =
                tile_estimate(coded, rows[row_at].scale, sums[r / 2][n / 2][r % 2 * 2 + n % 2]);
            struct topk_entry own = entry_worst();
            own.id = row;
            own.key = tile_rank_key(job.metric, estimate, rows[row_at].floor);
            if (entry_before(own, best)) best = own;
        }
        for (int partner = 4; partner < 32; partner *= 2) {
            struct topk_entry other = entry_worst();
            other.id = __shfl_xor_sync(WARP, best.id, partner);
            other.key = __shfl_xor_sync(WARP, best.key, partner);
            if (entry_before(other, best)) best = other;
        }
        if (lane < 4 && query < job.query_count)
            job.maxima[query * job.maxima_count + tile / job.query_tiles * S::RW + warp / S::QW] =
                best;
    }
}

template <class S, bool SAMPLE>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    shadow_tile_kernel(const SCREEN_IN_PLACE struct shadow_tile job)
{
    extern __shared__ float4 shared_memory[];
    char *shared = (char *)shared_memory;
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    const struct screen_fragments at = screen_fragments_of<S>();
    struct screen_place now = {blockIdx.x, 0, 0}, ahead = now;
    struct screen_step<S> steps[2];
    char *queues = shared + tile_room<S>::QUEUES, *counts = shared + tile_room<S>::COUNTS;
    uint32_t turn = 0; /* tiles so far */
    if (threadIdx.x < TILE_QUEUES) *tile_queue_at(queues, counts, threadIdx.x).count = 0;
    for (int n = 0; n < S::SLOTS - 1; n++)
        tile_copy_next<S>(job, &ahead, shared);
    copies_wait<S::SLOTS - 2>();
    __syncthreads();
    screen_load_step<S>(at, address, 0, &steps[0]);
    for (; now.tile < job.tiles; now.tile += gridDim.x, turn++) {
        struct tile_row *rows = (struct tile_row *)(shared + S::SLOTS * tile_room<S>::SLOT +
                                                    turn % 2 * tile_room<S>::SIDE);
        struct tile_query *queries = (struct tile_query *)(rows + S::ROWS);
        int sums[S::WR / 16][S::WQ / 8][4] = {};
        for (now.chunk = 0; now.chunk < job.chunks; now.chunk++) {
            uint32_t slot = address + now.stage % S::SLOTS * tile_room<S>::SLOT;
            now.stage++;
#pragma unroll
            for (uint32_t step = 0; step < 4; step++) {
                if (step == 3) {
                    /* The next chunk has arrived, and all threads have read this one, whose slot
                     * is filled again. */
                    copies_wait<S::SLOTS - 2>();
                    __syncthreads();
                    slot = address + now.stage % S::SLOTS * tile_room<S>::SLOT;
                }
                if (!SAMPLE && step == 3 && now.chunk == 0 && turn > 0) {
                    tile_empty(job, tile_queue_at(queues, counts, turn - 1));
                    if (threadIdx.x == 0) *tile_queue_at(queues, counts, turn + 1).count = 0;
                }
                screen_load_step<S>(at, slot, (step + 1) % 4, &steps[(step + 1) % 2]);
                if (step == 0) tile_copy_next<S>(job, &ahead, shared);
                if (step == 0 && now.chunk == 0)
                    tile_sides<S, SAMPLE>(job, now.tile, rows, queries);
                tile_take_step<S>(steps[step % 2], sums);
            }
        }
        if (SAMPLE)
            tile_sample<S>(job, now.tile, rows, queries, sums);
        else
            tile_give<S>(job, now.tile, rows, queries, tile_queue_at(queues, counts, turn), sums);
    }
    if (SAMPLE || turn == 0) return;
    __syncthreads();
    tile_empty(job, tile_queue_at(queues, counts, turn - 1));
}

/* ---- launching ---- */

/* Shapes for many queries and for few, and one for devices with less shared memory. */
typedef screen_shape<64, 64, 4, 2, 4, 1> tile_many;
typedef screen_shape<32, 32, 8, 1, 5, 1> tile_few;
typedef screen_shape<64, 64, 2, 2, 3, 1> tile_small;

static bool tile_is_small(void)
{
    int most = 0;
    return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most) ||
           most < tile_room<tile_many>::SHARED || most < tile_room<tile_few>::SHARED;
}

bool shadow_tile_runs(void)
{
    int major = 0, most = 0;
    return !device_attribute(cudaDevAttrComputeCapabilityMajor, &major) && major >= 8 &&
           !device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most) &&
           most >= tile_room<tile_small>::SHARED;
}

template <class S>
static int tile_enqueue(struct shadow_tile *job, unsigned processors, cudaStream_t stream)
{
    const void *kernel = job->maxima ? (const void *)shadow_tile_kernel<S, true>
                                     : (const void *)shadow_tile_kernel<S, false>;
    const uint64_t row_tiles = shadow_tile_count(job->rows.count, S::ROWS);
    job->query_tiles = (job->query_count + S::QUERIES - 1) / S::QUERIES;
    job->tiles = (row_tiles + job->step - 1) / job->step * job->query_tiles;
    uint64_t blocks = (uint64_t)processors * S::BLOCKS;
    if (blocks > job->tiles) blocks = job->tiles;
    int error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     tile_room<S>::SHARED);
    if (error) return error;
    if (job->maxima)
        shadow_tile_kernel<S, true>
            <<<(unsigned)blocks, S::THREADS, tile_room<S>::SHARED, stream>>>(*job);
    else
        shadow_tile_kernel<S, false>
            <<<(unsigned)blocks, S::THREADS, tile_room<S>::SHARED, stream>>>(*job);
    return cudaGetLastError();
}

template <class S> static uint32_t tile_maxima(uint64_t row_count, uint32_t step)
{
    return (uint32_t)((shadow_tile_count(row_count, S::ROWS) + step - 1) / step) * S::RW;
}

static bool tile_without_wgmma;

extern "C" void cuda_shadow_without_wgmma(bool without)
{
    tile_without_wgmma = without;
}

static bool tile_by_wgmma(void)
{
    return !tile_without_wgmma && shadow_wgmma_runs();
}

uint32_t shadow_tile_maxima(uint64_t query_count, uint64_t row_count, uint32_t step)
{
    if (tile_by_wgmma()) return shadow_wgmma_maxima(row_count, step);
    if (tile_is_small()) return tile_maxima<tile_small>(row_count, step);
    return query_count <= tile_few::QUERIES ? tile_maxima<tile_few>(row_count, step)
                                            : tile_maxima<tile_many>(row_count, step);
}

int shadow_tile_launch(struct shadow_tile *job, unsigned processors, cudaStream_t stream)
{
    if (tile_by_wgmma()) return shadow_wgmma_launch(job, processors, stream);
    if (tile_is_small()) return tile_enqueue<tile_small>(job, processors, stream);
    return job->query_count <= tile_few::QUERIES ? tile_enqueue<tile_few>(job, processors, stream)
                                                 : tile_enqueue<tile_many>(job, processors, stream);
}
