/* scan_topk: device code for the few best rows of one query in one launch: the selection of the
 * best of many lists, and the ticket on which blocks count themselves. Device code only.
 *
 * The blocks count themselves on a ticket in scratch, which nobody has zeroed. So a ticket is
 * valid only if its upper bits are this launch's mark, a number that memory does not hold by
 * chance. Each block, before it scans, exchanges a ticket without the mark for one with the mark
 * and count 0; the first one succeeds, and the others find the mark. The last block removes the
 * mark, so that a launch replayed from a graph starts again. */
#ifndef ENGRAM_KERNELS_CUDA_SCAN_TOPK_CUH
#define ENGRAM_KERNELS_CUDA_SCAN_TOPK_CUH

#include "kernels/cuda/launch.cuh"

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
    bool sparse; /* there may be few entries, under a threshold */
};

/* The shape of a launch. */
struct scan_topk_shape {
    unsigned group, threads, blocks;
};

/* Small blocks spread a few rows over all multiprocessors; large ones leave fewer lists. */
struct scan_topk_shape scan_topk_shape_of(uint64_t count, uint32_t k, unsigned processors);
/* Limits the blocks of a shape to the lists that the scratch holds, and returns how many entries
 * each block keeps; 0: the scratch is too small. */
uint32_t scan_topk_kept(struct scan_topk_shape *shape, uint64_t count, uint32_t k,
                        uint64_t scratch_bytes);
/* Returns a mark that no launch had before. */
unsigned long long scan_topk_mark(void);

/* The query of a scan: in shared memory, or not. */
struct scan_query {
    const float *row;
    float norm;
    bool is_cosine;
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

/* Sorts so many survivors, and puts the k best into shared->best. */
__device__ __forceinline__ void best_rank(uint32_t taken, uint32_t k, struct best_shared *shared)
{
    for (uint32_t i = threadIdx.x; i < taken; i += blockDim.x) {
        struct topk_entry entry = entry_read(&shared->survivors[i]);
        uint32_t place = 0;
        for (uint32_t j = 0; j < taken; j += 4) {
#pragma unroll
            for (int n = 0; n < 4; n++)
                place +=
                    (j + n < taken) & entry_before(entry_read(&shared->survivors[j + n]), entry);
        }
        if (place < k) entry_write(&shared->best[place], entry);
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
        best_rank(taken, k, shared);
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
template <int GROUP, bool EUCLIDEAN, bool COMPENSATED, bool SHARED>
__device__ __forceinline__ void scan_into(const struct scan_topk_job &job,
                                          const struct scan_query &query, struct topk_entry *list,
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
        float norm = query.is_cosine ? __ldg(&job.norms[row]) : 0.0f;
        float score = sum_rows<GROUP, EUCLIDEAN, COMPENSATED, SHARED>(
            query.row, job.rows + row * job.stride, job.stride);
        if (query.is_cosine) score = canonical_cosine(score, query.norm, norm);
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

__device__ __forceinline__ void ticket_prepare(unsigned long long *ticket, unsigned long long mark)
{
    const unsigned long long count = (1u << SCAN_TOPK_COUNT_BITS) - 1;
    unsigned long long found = *(volatile unsigned long long *)ticket;
    if ((found & ~count) != mark) atomicCAS(ticket, found, mark);
}

/* Writes the block's best to scratch, `kept` for each block. Where there are fewer, the last entry,
 * which is none, has their number as its id. */
__device__ __forceinline__ void block_leave(struct topk_entry *lists, uint32_t kept,
                                            const struct best_shared *shared)
{
    struct topk_entry entry = entry_worst();
    if (threadIdx.x < kept) entry = entry_read(&shared->best[threadIdx.x]);
    const uint32_t count = (uint32_t)__syncthreads_count(entry.key != ~0u);
    if (threadIdx.x >= kept) return;
    if (entry.key == ~0u) entry.id = count;
    entry_write(&lists[(uint64_t)blockIdx.x * kept + threadIdx.x], entry);
}

/* As best_of, of the lists that all blocks left: if few entries are there at all, as under a
 * threshold, only those are read. */
__device__ __forceinline__ void best_of_blocks(const struct best_source &from, uint32_t k,
                                               struct best_shared *shared)
{
    if (threadIdx.x < k) shared->best[threadIdx.x] = entry_worst();
    if (threadIdx.x == 0) shared->taken = 0;
    __syncthreads();
    for (uint32_t list = threadIdx.x; list < from.count; list += blockDim.x) {
        const struct topk_entry last = entry_read(&from.lists[(list + 1) * from.length - 1]);
        const uint32_t count = last.key == ~0u ? (uint32_t)last.id : from.length;
        if (!count) continue;
        const uint32_t at = atomicAdd(&shared->taken, count);
        for (uint32_t i = 0; i < count && at + i < SCAN_TOPK_SURVIVORS; i++)
            shared->survivors[at + i].id = list * from.length + i; /* where it lies */
    }
    __syncthreads();
    const uint32_t taken = shared->taken;
    if (taken > SCAN_TOPK_SURVIVORS) {
        __syncthreads(); /* all have read it */
        best_of(from, k, shared);
        return;
    }
    for (uint32_t i = threadIdx.x; i < taken; i += blockDim.x)
        entry_write(&shared->survivors[i], entry_read(&from.lists[shared->survivors[i].id]));
    __syncthreads();
    best_rank(taken, k, shared);
    __syncthreads();
}

/* Counts the block, whose threads have written their entries, and tells all threads whether all
 * blocks have been counted. replayed: the launch may be replayed from a graph. */
__device__ __forceinline__ bool block_count(unsigned long long *ticket, unsigned long long mark,
                                            bool replayed, struct best_shared *shared)
{
    __syncthreads();
    if (is_clerk()) {
        fence_device(); /* the block's entries become visible before its count */
        shared->is_last = atomicAdd(ticket, 1ull) == (mark | (gridDim.x - 1));
        if (shared->is_last) {
            fence_device(); /* the counts are read before the others' entries */
            if (replayed) *ticket = ~mark;
        }
    }
    __syncthreads();
    return shared->is_last;
}

#endif
