/* scan_topk: the few best rows of one query in one launch. Every warp keeps the best of its rows
 * in shared memory, every block writes the best of its warps to scratch, and the last block to
 * finish selects the best of the blocks.
 *
 * The blocks count themselves on a ticket in scratch, which nobody has zeroed. So a ticket is
 * valid only if its upper bits are this launch's mark, a number that memory does not hold by
 * chance. Each block, before it scans, exchanges a ticket without the mark for one with the mark
 * and count 0; the first one succeeds, and the others find the mark. The last block removes the
 * mark, so that a launch replayed from a graph starts again. */
#include "kernels/cuda/launch.cuh"

#include <unistd.h>

enum {
    SCAN_TOPK_THREADS = 1024,      /* most threads of a block */
    SCAN_TOPK_LISTS_BYTES = 32768, /* shared memory for the warps' lists */
    SCAN_TOPK_SURVIVORS = 512,     /* a multiple of 4 */
    SCAN_TOPK_BUCKETS = 256,       /* also the least threads of a block */
    SCAN_TOPK_BUCKET_BITS = 8,
    SCAN_TOPK_FEW = 16, /* up to this k fewer buckets suffice */
    SCAN_TOPK_FEW_BUCKET_BITS = 6,
    SCAN_TOPK_BLOCKS = 384, /* most blocks: two for each multiprocessor of any card so far */
    SCAN_TOPK_ALIGN = 256,  /* bytes from the ticket to the lists */
    SCAN_TOPK_COUNT_BITS = 10
};

static_assert(SCAN_TOPK_BLOCKS < 1 << SCAN_TOPK_COUNT_BITS, "the count would reach the mark");

struct scan_topk_job {
    const float *query;
    const float *query_norm; /* NULL unless the metric is cosine */
    const float *rows;
    const float *norms;
    const uint64_t *ids;
    uint64_t first_id;
    struct cuda_filter filter;
    uint64_t count;
    unsigned long long mark; /* the count's bits are 0 */
    unsigned long long *ticket;
    struct topk_entry *lists; /* `kept` for each block */
    uint64_t *out_ids;
    float *out_scores;
    uint32_t *out_count;
    uint32_t stride;
    uint32_t k;
    uint32_t kept;      /* of a block's rows: k, or all where there are fewer */
    uint32_t limit_key; /* the threshold's */
    bool lower_is_better;
};

/* The shape of a launch. */
struct scan_topk_shape {
    unsigned group, threads, blocks;
};

struct __align__(16) best_shared
{
    struct topk_entry minima[SCAN_TOPK_BUCKETS];
    struct topk_entry survivors[SCAN_TOPK_SURVIVORS];
    struct topk_entry best[SCAN_TOPK_K_MAX]; /* result: sorted; entry_worst behind the last */
    struct topk_entry bound;
    uint32_t taken;
    uint32_t next_tile;
    bool is_last;
};

/* `count` lists of `length` entries, in shared memory or not; entry_worst fills missing entries. */
struct best_source {
    const struct topk_entry *lists;
    uint32_t count;
    uint32_t length;
};

/* Reads an entry in one load, although the type asks for 8-byte alignment only. */
__device__ __forceinline__ struct topk_entry entry_read(const struct topk_entry *at)
{
    uint4 words = *(const uint4 *)at;
    struct topk_entry entry;
    entry.id = words.x | (uint64_t)words.y << 32;
    entry.key = words.z;
    entry.score = __uint_as_float(words.w);
    return entry;
}

__device__ __forceinline__ void entry_write(struct topk_entry *at, const struct topk_entry &entry)
{
    *(uint4 *)at = make_uint4((uint32_t)entry.id, (uint32_t)(entry.id >> 32), entry.key,
                              __float_as_uint(entry.score));
}

__device__ __forceinline__ uint32_t bits_below(uint32_t value)
{
    return 32 - __clz(value - 1); /* the least b with 2^b >= value >= 1 */
}

/* Calls take(entry) for this thread's share: neighbouring threads read one list, a place each. The
 * best entries come first in a list, so places rotate: otherwise a few threads would have all of
 * them. */
template <typename Take>
__device__ __forceinline__ void best_each(const struct best_source &from, Take take)
{
    const int FLIGHT = 4; /* loads before the first use */
    const uint32_t bits = bits_below(from.length), width = 1u << bits;
    const uint32_t skew = (width * 5 / 8) | 1, groups = blockDim.x >> bits;
    uint32_t place = threadIdx.x;
    for (uint32_t list = threadIdx.x >> bits; list < from.count; list += FLIGHT * groups) {
        struct topk_entry entries[FLIGHT];
#pragma unroll
        for (int n = 0; n < FLIGHT; n++, place += skew) {
            uint32_t at = place & (width - 1), its = list + n * groups;
            entries[n] = entry_worst();
            if (at < from.length && its < from.count)
                entries[n] = entry_read(&from.lists[its * from.length + at]);
        }
#pragma unroll
        for (int n = 0; n < FLIGHT; n++)
            take(entries[n]);
    }
}

__device__ __forceinline__ void keep_better(struct topk_entry *mine, uint32_t key, uint64_t id)
{
    if (key < mine->key || (key == mine->key && id < mine->id)) {
        mine->key = key;
        mine->id = id;
    }
}

/* Computes a bound that at least the k best pass, and few others: the k-th best among the best of
 * each of many buckets; entry_worst if fewer buckets have an entry. own: this thread's best. */
__device__ __forceinline__ void best_bound(struct topk_entry own, uint32_t k,
                                           struct best_shared *shared)
{
    const uint32_t bits = k <= SCAN_TOPK_FEW ? SCAN_TOPK_FEW_BUCKET_BITS : SCAN_TOPK_BUCKET_BITS;
    const uint32_t sharing_bits = bits_below(blockDim.x) - bits;
    const uint32_t sharing = 1u << sharing_bits; /* neighbouring threads: 1..16 */
    const bool speaks = (threadIdx.x & (sharing - 1)) == 0;
    for (uint32_t partner = sharing / 2; partner > 0; partner /= 2) {
        uint64_t id = __shfl_xor_sync(WARP, own.id, partner);
        keep_better(&own, __shfl_xor_sync(WARP, own.key, partner), id);
    }
    if (speaks) entry_write(&shared->minima[threadIdx.x >> sharing_bits], own);
    if (threadIdx.x < k) shared->best[threadIdx.x] = entry_worst();
    if (threadIdx.x == 0) {
        shared->bound = entry_worst();
        shared->taken = 0;
    }
    __syncthreads();
    uint32_t before = 0, i = threadIdx.x & (sharing - 1);
    for (uint32_t left = 1u << (bits - sharing_bits); left > 0; left -= 4) { /* 4, 8, .. 256 */
#pragma unroll
        for (int n = 0; n < 4; n++, i += sharing)
            before += entry_before(entry_read(&shared->minima[i]), own);
    }
    for (uint32_t partner = sharing / 2; partner > 0; partner /= 2)
        before += __shfl_xor_sync(WARP, before, partner);
    if (speaks && before == k - 1 && own.key != ~0u) shared->bound = own;
    __syncthreads();
}

/* Selects one entry after the other; used if the order of the lists lets too many pass the
 * bound. */
__device__ __forceinline__ void best_one_by_one(const struct best_source &from, uint32_t k,
                                                struct best_shared *shared)
{
    for (uint32_t n = 0; n < k; n++) {
        struct topk_entry mine = entry_worst(), last = n > 0 ? shared->best[n - 1] : mine;
        best_each(from, [&](struct topk_entry e) {
            if (n > 0 && !entry_before(last, e)) return;
            if (entry_before(e, mine)) mine = e;
        });
        struct topk_entry least = mine;
        for (int partner = 16; partner > 0; partner /= 2) {
            uint64_t id = __shfl_xor_sync(WARP, least.id, partner);
            keep_better(&least, __shfl_xor_sync(WARP, least.key, partner), id);
        }
        if (threadIdx.x % 32 == 0) shared->minima[threadIdx.x / 32] = least;
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = 0; i < blockDim.x / 32; i++)
            keep_better(&least, shared->minima[i].key, shared->minima[i].id);
        if (least.key == ~0u) return; /* the same for all threads */
        if (mine.key == least.key && mine.id == least.id) shared->best[n] = mine;
        __syncthreads();
    }
}

/* Selects the k best of the lists, sorted, into shared->best. All threads of the block call it. */
__device__ __forceinline__ void best_of(const struct best_source &from, uint32_t k,
                                        struct best_shared *shared)
{
    struct topk_entry own = entry_worst();
    best_each(from, [&](struct topk_entry e) {
        if (entry_before(e, own)) own = e;
    });
    best_bound(own, k, shared);
    struct topk_entry bound = entry_read(&shared->bound);
    if (own.key != ~0u && !entry_before(bound, own)) {
        best_each(from, [&](struct topk_entry e) {
            if (e.key == ~0u || entry_before(bound, e)) return;
            uint32_t at = atomicAdd(&shared->taken, 1u);
            if (at < SCAN_TOPK_SURVIVORS) entry_write(&shared->survivors[at], e);
        });
    }
    __syncthreads();
    uint32_t taken = shared->taken;
    if (taken > SCAN_TOPK_SURVIVORS) {
        best_one_by_one(from, k, shared);
    } else {
        for (uint32_t i = threadIdx.x; i < taken; i += blockDim.x) {
            struct topk_entry entry = entry_read(&shared->survivors[i]);
            uint32_t place = 0;
            for (uint32_t j = 0; j < taken; j += 4) {
#pragma unroll
                for (int n = 0; n < 4; n++)
                    place += (j + n < taken) &
                             entry_before(entry_read(&shared->survivors[j + n]), entry);
            }
            if (place < k) entry_write(&shared->best[place], entry);
        }
    }
    __syncthreads();
}

/* Inserts an entry into a sorted list of k; a whole warp calls it. */
__device__ __forceinline__ void list_insert(struct topk_entry *list, uint32_t k,
                                            const struct topk_entry &entry, unsigned lane)
{
    uint32_t end = (k - 1) / 32 * 32;
    for (uint32_t first = end;; first -= 32) { /* from the end, whose entries move first */
        uint32_t place = first + lane;
        struct topk_entry held = entry_worst();
        if (place < k) held = entry_read(&list[place]);
        bool after = place < k && entry_before(entry, held);
        unsigned moved = __ballot_sync(WARP, after);
        __syncwarp(); /* all lanes have read */
        if (after && place + 1 < k) entry_write(&list[place + 1], held);
        /* The first entry that moves leaves its place; the last of the next 32 may move into it. */
        if (moved != 0 && lane == (unsigned)__ffs(moved) - 1) entry_write(&list[place], entry);
        __syncwarp();
        if (first == 0 || (moved & 1) == 0) return;
    }
}

/* Scans the rows of a block as its warps take them: the warp's best go to `list`. */
template <int GROUP, bool EUCLIDEAN, bool COMPENSATED>
__device__ __forceinline__ void scan_into(const struct scan_topk_job &job, struct topk_entry *list,
                                          uint32_t *next_tile)
{
    const unsigned lane = threadIdx.x % 32, rows = 32 / GROUP;
    const uint32_t warps = blockDim.x / 32, bits = bits_below(warps);
    uint32_t bound_key = job.limit_key;
    for (uint32_t tile = threadIdx.x / 32;;) {
        /* Consecutive tiles go to the warps of a block; the next tiles belong to the next block. */
        uint64_t side = (uint64_t)(tile >> bits) * gridDim.x + blockIdx.x;
        uint64_t first = ((side << bits) + (tile & (warps - 1))) * rows;
        if (first >= job.count) return;
        if (lane == 0) tile = atomicAdd(next_tile, 1u);
        tile = __shfl_sync(WARP, tile, 0);
        uint64_t row = first + lane / GROUP;
        bool open = lane % GROUP == 0 && row < job.count;
        if (row >= job.count) row = job.count - 1; /* a warp's shuffles need all its threads */
        if (job.filter.allowed) {
            open = open && filter_passes(job.filter, 0, row);
            if (!__any_sync(WARP, open)) continue;
        }
        float norm = job.query_norm ? __ldg(&job.norms[row]) : 0.0f;
        float score = sum_rows<GROUP, EUCLIDEAN, COMPENSATED>(
            job.query, job.rows + row * job.stride, job.stride);
        if (job.query_norm) score = canonical_cosine(score, __ldg(job.query_norm), norm);
        uint32_t key = sink_key(score, job.lower_is_better);
        unsigned waiting = __ballot_sync(WARP, open && key <= bound_key);
        for (; waiting != 0; waiting &= waiting - 1) {
            int from = __ffs(waiting) - 1;
            uint64_t its_row = first + (unsigned)from / GROUP;
            struct topk_entry entry;
            entry.id = job.ids ? job.ids[its_row] : job.first_id + its_row;
            entry.key = __shfl_sync(WARP, key, from);
            entry.score = __shfl_sync(WARP, score, from);
            if (entry.key > bound_key) continue;
            list_insert(list, job.k, entry, lane);
            uint32_t last = list[job.k - 1].key;
            bound_key = last < job.limit_key ? last : job.limit_key;
        }
    }
}

/* Orders what this thread has seen written before its later writes, for threads that see those. */
__device__ __forceinline__ void fence_device(void)
{
#if __CUDA_ARCH__ >= 700
    /* __threadfence orders more and waits longer. */
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
    __threadfence();
#endif
}

/* True for the thread that counts for its block. */
__device__ __forceinline__ bool is_clerk(void)
{
    return threadIdx.x == blockDim.x - 1;
}

__device__ __forceinline__ void ticket_prepare(const struct scan_topk_job &job)
{
    const unsigned long long count = (1u << SCAN_TOPK_COUNT_BITS) - 1;
    unsigned long long found = *(volatile unsigned long long *)job.ticket;
    if ((found & ~count) != job.mark) atomicCAS(job.ticket, found, job.mark);
}

/* Writes the block's best to scratch and tells all threads whether all blocks have done so. */
__device__ __forceinline__ bool block_leave(const struct scan_topk_job &job,
                                            struct best_shared *shared)
{
    if (threadIdx.x < job.kept)
        entry_write(&job.lists[(uint64_t)blockIdx.x * job.kept + threadIdx.x],
                    entry_read(&shared->best[threadIdx.x]));
    __syncthreads();
    if (is_clerk()) {
        fence_device(); /* the block's entries become visible before its count */
        shared->is_last = atomicAdd(job.ticket, 1ull) == (job.mark | (gridDim.x - 1));
        if (shared->is_last) {
            fence_device(); /* the counts are read before the others' entries */
            *job.ticket = ~job.mark;
        }
    }
    __syncthreads();
    return shared->is_last;
}

template <int GROUP, bool EUCLIDEAN, bool COMPENSATED>
__global__ void __launch_bounds__(SCAN_TOPK_THREADS, 1)
    scan_topk_kernel(const struct scan_topk_job job)
{
    extern __shared__ __align__(16) struct topk_entry warp_lists[];
    __shared__ struct best_shared shared;
    struct topk_entry *list = warp_lists + threadIdx.x / 32 * job.k;
    for (uint32_t place = threadIdx.x % 32; place < job.k; place += 32)
        entry_write(&list[place], entry_worst());
    if (is_clerk()) ticket_prepare(job);
    /* each warp has a first tile already */
    if (threadIdx.x == 0) shared.next_tile = blockDim.x / 32;
    __syncthreads();
    scan_into<GROUP, EUCLIDEAN, COMPENSATED>(job, list, &shared.next_tile);
    __syncthreads();

    struct best_source from = {warp_lists, blockDim.x / 32, job.k};
    uint32_t k = job.kept;
#pragma unroll 1 /* without unrolling, the second pass finds its instructions in the cache */
    for (bool first = true;; first = false) {
        best_of(from, k, &shared);
        if (!first) break;
        if (!block_leave(job, &shared)) return;
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
static uint64_t fresh_mark(void)
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
    return z ^ z >> 31;
}

uint64_t scan_topk_scratch(uint32_t k)
{
    return SCAN_TOPK_ALIGN + (uint64_t)SCAN_TOPK_BLOCKS * k * sizeof(struct topk_entry);
}

/* Small blocks spread a few rows over all multiprocessors; large ones leave fewer lists. */
static struct scan_topk_shape scan_topk_shape_of(uint64_t count, uint32_t k, unsigned processors)
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
    uint64_t left = topk->scratch_bytes, blocks = shape.blocks;
    left = left > SCAN_TOPK_ALIGN ? left - SCAN_TOPK_ALIGN : 0;
    left /= topk->k * sizeof(struct topk_entry);
    if (blocks > SCAN_TOPK_BLOCKS) blocks = SCAN_TOPK_BLOCKS;
    if (blocks > left) blocks = left; /* less scratch means fewer blocks */
    if (blocks == 0) return cudaErrorInvalidValue;
    shape.blocks = (unsigned)blocks;

    struct scan_topk_job job = {};
    job.query = query->rows;
    job.query_norm = metric == METRIC_COSINE ? query->norms : NULL;
    job.rows = rows->rows;
    job.norms = rows->norms;
    job.ids = topk->ids;
    job.first_id = topk->first_id;
    job.filter = topk->filter;
    job.count = rows->count;
    job.mark = fresh_mark() << SCAN_TOPK_COUNT_BITS;
    job.ticket = (unsigned long long *)topk->scratch;
    job.lists = (struct topk_entry *)((char *)topk->scratch + SCAN_TOPK_ALIGN);
    job.out_ids = topk->out_ids;
    job.out_scores = topk->out_scores;
    job.out_count = topk->out_counts;
    job.stride = (uint32_t)vector_stride(rows->dimension);
    job.k = topk->k;
    uint64_t a_round = shape.threads / shape.group * blocks;
    uint64_t rounds = (rows->count + a_round - 1) / a_round;
    uint64_t of_a_block = (rounds ? rounds : 1) * (shape.threads / shape.group);
    job.kept = of_a_block < topk->k ? (uint32_t)of_a_block : topk->k;
    job.lower_is_better = metric_lower_is_better(metric);
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
