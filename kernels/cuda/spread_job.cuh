/* spread_job: the parameters of both modes' kernels, and what they have in common: taking sets in
 * turn, dropping the highest ids, writing records. Scratch holds three tallies, the count of
 * records that sets have reserved, whether the call is over, the grid's arrays over all nodes
 * (spread_push.cuh, spread_engram.cuh), and then as many slots for blocks as there is room for. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_JOB_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_JOB_CUH

#include "kernels/cuda/spread_cuda.h"
#include "kernels/cuda/spread_decay.cuh"
#include "kernels/cuda/spread_edges.cuh"
#include "kernels/cuda/spread_places.cuh"

enum {
    SPREAD_ROOM_LEAST = 4096, /* places of a slot */
    SPREAD_ROOM_MOST = 65536,
    SPREAD_SLOTS_MOST = 512, /* slots that cuda_spread_scratch_best asks for */
    /* a hop of at most this many edges times set_count is run by a block */
    SPREAD_EDGES_OF_BLOCK = 1024,
    SPREAD_BIN_BYTES = 8 * 256 * sizeof(unsigned)
};

/* Values of cuda_spread_set's no_memory: a set that is left to the grid, and one that no block has
 * begun in this call. */
static const uint32_t SPREAD_DEFERRED = CUDA_SPREAD_LEFT, SPREAD_LATER = CUDA_SPREAD_LEFT + 1;

static const uint64_t SPREAD_NO_ROOM = UINT64_MAX;

/* The embeddings of nodes; rows NULL: there are none. */
struct spread_similar {
    const float *rows, *norms;
    uint32_t dimension;
    uint32_t *node_rows; /* by node; SPREAD_NO_NODE: it has none */
    uint8_t *replaced;   /* by node, of those that send in the level: similarity counts */
};

struct spread_base {
    struct spread_graph graph;
    struct spread_question question;
    struct spread_similar similar;
    uint64_t time_ns;
    const uint64_t *began_ns; /* NULL: time counts from the kernel's start */
    const uint64_t *set_offsets, *set_ends;
    uint32_t set_count;
    uint64_t record_room;
    struct spread_record *out_records;
    struct cuda_spread_set *out_sets;
    struct spread_tally *tallies; /* three of them */
    unsigned long long *records_given;
    uint64_t pass_ns;
    uint32_t *over; /* what the grid's first thread says when it has looked at the time */
    bool again;
    char *slots;
    uint64_t slot_bytes;
    uint32_t slot_count, slot_room;
    uint64_t slot_edges; /* edges that a block takes on in a hop */
};

/* Cuts a block of memory into arrays, one after the other. */
struct spread_carver {
    char *at;
};

template <class T>
__host__ __device__ inline T *spread_carve(struct spread_carver *c, uint64_t count)
{
    T *part = (T *)c->at;
    c->at += (count * sizeof(T) + 255) / 256 * 256;
    return part;
}

__host__ __device__ inline struct spread_hash spread_carve_hash(struct spread_carver *c,
                                                                uint32_t room)
{
    struct spread_hash hash;
    hash.table = spread_carve<unsigned long long>(c, 2 * (uint64_t)room);
    hash.nodes = spread_carve<uint32_t>(c, room);
    hash.room = room;
    return hash;
}

__device__ __forceinline__ bool spread_allows(const uint64_t *allowed, uint32_t node)
{
    return !allowed || (__ldg((const unsigned long long *)&allowed[node / 64]) >> (node & 63) & 1);
}

__device__ __forceinline__ float spread_factor_of(const struct spread_graph *g, uint32_t node)
{
    return g->factors ? __ldg(&g->factors[node]) : 1.0f;
}

/* Returns the keep-th lowest id of count items; id(i, &id) says whether item i counts, and its id;
 * 1 <= keep <= how many count. bins: SPREAD_BIN_BYTES. Ends with a sync. */
template <class Group, class Id>
__device__ uint64_t spread_lowest(unsigned *bins, uint64_t keep, uint32_t count, Id id)
{
    spread_clear<Group>(bins, SPREAD_BIN_BYTES);
    Group::sync();
    uint64_t prefix = 0;
    for (int byte = 7; byte >= 0; byte--) {
        unsigned *own = bins + byte * 256;
        for (uint32_t i = spread_thread<Group>(); i < count; i += spread_threads<Group>()) {
            uint64_t value;
            if (!id(i, &value)) continue;
            if (byte < 7 && (value ^ prefix) >> (8 * byte + 8) != 0) continue;
            atomicAdd(&own[value >> 8 * byte & 255], 1u);
        }
        Group::sync();
        uint32_t digit = 0;
        while (digit < 255 && own[digit] < keep)
            keep -= own[digit++];
        prefix |= (uint64_t)digit << 8 * byte;
    }
    Group::sync();
    return prefix;
}

static_assert(4 * SPREAD_WARPS == 64, "two a lane");
/* Turns 64 counts into the places where each begins, behind what *counter has counted. */
__device__ __forceinline__ void spread_give_places(unsigned *counts, unsigned *counter)
{
    const unsigned lane = spread_lane(), a = counts[2 * lane], b = counts[2 * lane + 1];
    unsigned end = a + b, base = 0;
    for (int o = 1; o < 32; o *= 2) {
        const unsigned before = __shfl_up_sync(SPREAD_ALL, end, o);
        if (lane >= (unsigned)o) end += before;
    }
    if (lane == 31 && end) base = atomicAdd(counter, end);
    base = __shfl_sync(SPREAD_ALL, base, 31);
    counts[2 * lane] = base + end - a - b;
    counts[2 * lane + 1] = base + end - b;
}

/* Reserves places for the records of a set, at most this many; SPREAD_NO_ROOM: other sets took
 * them. All threads of the group call it and sync before they read the result. */
template <class Group>
__device__ uint64_t spread_take_room(const struct spread_base *b, uint32_t set, uint64_t most)
{
    uint64_t *first = &b->out_sets[set].first_record;
    if (spread_is_first<Group>()) {
        unsigned long long given = *(volatile unsigned long long *)b->records_given, before;
        do {
            before = given;
            if (most > b->record_room - before) break;
            given = atomicCAS(b->records_given, before, before + most);
        } while (given != before);
        *(volatile uint64_t *)first = most <= b->record_room - before ? before : SPREAD_NO_ROOM;
    }
    Group::sync();
    return *(volatile uint64_t *)first;
}

/* As spread_write_records, in tiles of DEEP items a thread. */
template <class Group, int DEEP, class Is, class Record>
__device__ void spread_write_tiles(struct spread_shared *shared, struct spread_record *out,
                                   unsigned *counter, uint32_t count, Is is, Record record)
{
    enum { TILE = DEEP * SPREAD_THREADS, WORDS = sizeof(struct spread_record) / 8 };
    const unsigned lane = spread_lane(), warp = threadIdx.x / 32;
    if (warp == 0) shared->bases[lane] = shared->bases[lane + 32] = 0;
    __syncthreads();
    for (uint64_t tile = (uint64_t)Group::block() * TILE; tile < count;
         tile += (uint64_t)Group::blocks() * TILE) {
        bool has[DEEP];
        unsigned who[DEEP];
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            const uint64_t i = tile + d * SPREAD_THREADS + threadIdx.x;
            has[d] = i < count && is((uint32_t)i);
        }
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            who[d] = __ballot_sync(SPREAD_ALL, has[d]);
            if (lane == 0) shared->bases[d * SPREAD_WARPS + warp] = (unsigned)__popc(who[d]);
        }
        __syncthreads();
        if (warp == 0) spread_give_places(shared->bases, counter);
        __syncthreads();
#pragma unroll
        /* through shared memory, so that they are written sequentially */
        for (int d = 0; d < DEEP; d++) {
            unsigned long long *words = shared->words[warp];
            if (who[d] >> lane & 1) {
                const struct spread_record r =
                    record((uint32_t)(tile + d * SPREAD_THREADS + threadIdx.x));
                const unsigned at = __popc(who[d] & ((1u << lane) - 1)) * WORDS;
                words[at] = (unsigned long long)r.parent << 32 | r.node;
                words[at + 1] = (unsigned long long)__float_as_uint(r.confidence) << 32 |
                                __float_as_uint(r.activation);
                words[at + 2] =
                    (unsigned long long)((unsigned)r.tier << 8 | r.depth) << 32 | r.visits;
            }
            __syncwarp();
            unsigned long long *to =
                (unsigned long long *)(out + shared->bases[d * SPREAD_WARPS + warp]);
            for (unsigned w = lane; w < __popc(who[d]) * WORDS; w += 32)
                to[w] = words[w];
            __syncwarp();
        }
        __syncthreads();
        if (DEEP < 4 && warp == 0) shared->bases[lane] = shared->bases[lane + 32] = 0;
        __syncthreads();
    }
}

/* Writes record(i) for each of count items for which is(i) is true. Does not end with a sync.
 * counter: 0 before, then how many records there are. Few items are shared by more blocks. */
template <class Group, class Is, class Record>
__device__ void spread_write_records(struct spread_shared *shared, struct spread_record *out,
                                     unsigned *counter, uint32_t count, Is is, Record record)
{
    if (count <= Group::blocks() * SPREAD_THREADS)
        spread_write_tiles<Group, 1>(shared, out, counter, count, is, record);
    else
        spread_write_tiles<Group, 4>(shared, out, counter, count, is, record);
}

/* Writes the result of a set: record(i) for those of count items for which is(i) is true, at most
 * `most` of them, and the rest from outcome. counter: as above. Does not end with a sync. */
template <class Group, class Is, class Record>
__device__ void spread_finish_set(const struct spread_base *b, struct spread_shared *shared,
                                  uint32_t set, unsigned *counter, uint64_t most, uint32_t count,
                                  Is is, Record record, struct cuda_spread_set outcome)
{
    const uint64_t first = spread_take_room<Group>(b, set, most);
    outcome.no_room = first == SPREAD_NO_ROOM;
    outcome.first_record = outcome.no_room ? 0 : first;
    spread_write_records<Group>(shared, b->out_records + outcome.first_record, counter,
                                outcome.no_room ? 0 : count, is, record);
    Group::sync();
    if (!spread_is_first<Group>()) return;
    outcome.record_count = *counter;
    b->out_sets[set] = outcome;
}

__device__ __forceinline__ uint32_t spread_state(const struct spread_base *b, uint32_t set)
{
    return *(volatile uint32_t *)&b->out_sets[set].no_memory;
}

/* True if the call has run for as long as it may, and its thread has begun a set: asked by a thread
 * that decides for others, before each set. */
__device__ __forceinline__ bool spread_time_is_up(const struct spread_base *b,
                                                  struct spread_shared *shared)
{
    const bool up = shared->begun && spread_now_ns() - shared->call_ns >= b->pass_ns;
    shared->begun = true;
    return up;
}

/* True if a set is not for this block now: an earlier call has done or deferred it, or there is no
 * time for it in this one. */
__device__ __forceinline__ bool spread_passes_by(const struct spread_base *b,
                                                 struct spread_shared *shared, uint32_t set)
{
    if (b->again && spread_state(b, set) != SPREAD_LATER) return true;
    if (!b->pass_ns) return false;
    const bool up = __syncthreads_or(threadIdx.x == 0 && spread_time_is_up(b, shared));
    if (up && threadIdx.x == 0) b->out_sets[set].no_memory = SPREAD_LATER;
    return up;
}

/* The same between two sets of the grid. All have read what was said last: a set has syncs. */
__device__ __forceinline__ bool spread_is_over(const struct spread_base *b,
                                               struct spread_shared *shared)
{
    if (!b->pass_ns) return false;
    volatile uint32_t *over = b->over;
    if (spread_is_first<spread_grid_group>()) *over = spread_time_is_up(b, shared);
    spread_grid_group::sync();
    return *over;
}

/* Runs all sets, or as many as the call has time for: blocks with a slot take them in turn; the
 * grid runs those too large for a block, or all where there are no slots. */
template <class Mode, class Job>
__device__ void spread_sets(const Job &job, struct spread_shared *shared, typename Mode::slot *slot)
{
    if (threadIdx.x < 4) shared->sums[threadIdx.x] = 0;
    const uint64_t *began_ns = job.base.began_ns;
    const uint64_t started_ns = began_ns ? *began_ns : spread_now_ns();
    if (threadIdx.x == 0) {
        shared->call_ns = spread_now_ns();
        shared->begun = false;
    }
    if (blockIdx.x < job.base.slot_count) {
        struct spread_carver carver = {job.base.slots + blockIdx.x * job.base.slot_bytes};
        if (threadIdx.x == 0)
            *slot = Mode::carve(&carver, 0, job.base.slot_room, job.base.slot_room);
        __syncthreads();
        for (uint32_t set = blockIdx.x; set < job.base.set_count; set += job.base.slot_count) {
            if (spread_passes_by(&job.base, shared, set)) continue;
            Mode::run_block(job, shared, *slot, set, started_ns);
        }
    }
    if (threadIdx.x == 0) shared->begun = false; /* the grid has not */
    if (job.base.slot_count) spread_grid_group::sync();
    unsigned state = 0; /* how far a mode has cleared the grid's arrays */
    for (uint32_t base = 0; base < job.base.set_count; base += SPREAD_THREADS) {
        uint32_t set = base + threadIdx.x;
        bool left = set < job.base.set_count;
        if (left && job.base.slot_count) left = spread_state(&job.base, set) == SPREAD_DEFERRED;
        unsigned who = __ballot_sync(SPREAD_ALL, left);
        __syncthreads();
        if (spread_lane() == 0) shared->deferred[threadIdx.x / 32] = who;
        __syncthreads();
        for (uint32_t w = 0; w < SPREAD_WARPS; w++)
            for (unsigned lefts = shared->deferred[w]; lefts; lefts &= lefts - 1) {
                if (spread_is_over(&job.base, shared)) return;
                Mode::run_grid(job, shared, base + w * 32 + (uint32_t)__ffs((int)lefts) - 1,
                               started_ns, &state);
            }
    }
}

#endif
