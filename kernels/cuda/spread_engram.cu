/* spread_engram: the kernel of mode engram. */
#include "kernels/cuda/spread_engram.cuh"
#include "kernels/cuda/spread_launch.cuh"

/* Lays out the arrays for this many places and contributions in a level. nodes: the grid's, else
 * 0. */
__host__ __device__ static struct engram_slot engram_carve(struct spread_carver *c, uint64_t nodes,
                                                           uint32_t room, uint64_t contributions)
{
    struct engram_slot s = {};
    const uint64_t places = nodes ? nodes : room;
    const uint64_t gains = 3 * places < contributions ? 3 * places : contributions;
    s.records = spread_carve<struct spread_record>(c, places);
    s.counts = spread_carve<uint32_t>(c, places);
    s.ends = spread_carve<uint32_t>(c, places);
    s.touched = spread_carve<uint32_t>(c, places);
    s.targets = spread_carve<uint32_t>(c, places);
    s.gains = spread_carve<struct engram_gain>(c, gains);
    s.contributions[0] = spread_carve<unsigned long long>(c, contributions);
    s.contributions[1] = spread_carve<unsigned long long>(c, contributions);
    s.contributions_room = (uint32_t)contributions;
    s.bigs = spread_carve<uint32_t>(c, contributions / SPREAD_SMALL + 1);
    s.runs = spread_carve<struct spread_run_of>(c, contributions / SPREAD_SMALL +
                                                       contributions / SPREAD_RUN + 1);
    s.chunks = spread_carve<struct spread_chunk>(c, contributions / (SPREAD_EDGES_LONG / 2) + 1);
    s.bins = spread_carve<unsigned>(c, SPREAD_BIN_BYTES / sizeof(unsigned));
    if (!nodes) s.hash = spread_carve_hash(c, room);
    return s;
}

template <class Hash, class Dense> struct engram_mode {
    typedef struct engram_slot slot;

    __device__ static struct engram_slot carve(struct spread_carver *c, uint64_t nodes,
                                               uint32_t room, uint64_t contributions)
    {
        return engram_carve(c, nodes, room, contributions);
    }

    __device__ static void run_block(const struct engram_job &job, struct spread_shared *shared,
                                     const struct engram_slot &slot, uint32_t set,
                                     uint64_t started_ns)
    {
        struct engram_run<spread_block_group, Hash> r = {
        };
        __syncthreads();
        if (threadIdx.x == 0) shared->places = 0;
        r.base = &job.base;
        r.slot = &slot;
        r.shared = shared;
        r.tallies = shared->tallies;
        r.places.hash = slot.hash;
        r.places.count = &shared->places;
        r.set = set;
        r.started_ns = started_ns;
        if (!engram_run_through(&r) && threadIdx.x == 0)
            job.base.out_sets[set].no_memory = SPREAD_DEFERRED;
    }

    __device__ static void run_grid(const struct engram_job &job, struct spread_shared *shared,
                                    uint32_t set, uint64_t started_ns, unsigned *cleared)
    {
        struct engram_run<spread_grid_group, Dense> r = {
        };
        const struct engram_slot *s = &job.grid;
        r.base = &job.base;
        r.slot = s;
        r.shared = shared;
        r.tallies = job.base.tallies;
        r.set = set;
        r.started_ns = started_ns;
        if (!*cleared) {
            spread_clear<spread_grid_group>(s->records,
                                            (uint64_t)job.base.graph.nodes * sizeof *s->records);
            spread_clear<spread_grid_group>(s->counts, (uint64_t)job.base.graph.nodes * 4);
        }
        *cleared = 1;
        engram_run_through(&r);
        struct spread_record none = {};
        for (uint32_t i = spread_thread<spread_grid_group>();
             i < r.touched && job.base.set_count > 1; i += spread_threads<spread_grid_group>())
            s->records[s->touched[i]] = none;
    }
};

__global__ void __launch_bounds__(SPREAD_THREADS, SPREAD_BLOCKS)
    spread_engram_kernel(const struct engram_job job)
{
    __shared__ struct spread_shared shared;
    __shared__ struct engram_slot slot;
    spread_sets<engram_mode<spread_hash_places, spread_dense_places>>(job, &shared, &slot);
}

/* The same with embeddings. */
__global__ void __launch_bounds__(SPREAD_THREADS, SPREAD_BLOCKS)
    spread_similar_kernel(const struct engram_job job)
{
    __shared__ struct spread_shared shared;
    __shared__ struct engram_slot slot;
    spread_sets<engram_mode<similar_hash_places, similar_dense_places>>(job, &shared, &slot);
}

uint64_t spread_engram_grid_bytes(uint32_t nodes, uint64_t contributions)
{
    struct spread_carver c = {NULL};
    engram_carve(&c, nodes ? nodes : 1, 0, contributions);
    return (uint64_t)(uintptr_t)c.at;
}

uint64_t spread_engram_slot_bytes(uint32_t room)
{
    struct spread_carver c = {NULL};
    engram_carve(&c, 0, room, room);
    return (uint64_t)(uintptr_t)c.at;
}

/* As many contributions as there is room for, beside at least one slot. */
static uint64_t engram_contributions(const struct cuda_spread *s)
{
    const uint64_t least = spread_contributions_least(s->graph.nodes, s->graph.edges);
    for (uint64_t times = 3; times > 1; times--) {
        const uint64_t most = times * least < UINT32_MAX ? times * least : UINT32_MAX;
        const uint64_t bytes = SPREAD_HEAD_BYTES + spread_engram_grid_bytes(s->graph.nodes, most) +
                               spread_engram_slot_bytes(SPREAD_ROOM_LEAST);
        if (bytes <= s->scratch_bytes) return most;
    }
    return least;
}

int spread_engram_launch(const struct cuda_spread *s, cudaStream_t stream)
{
    auto lay_out = [s](struct spread_carver *c) {
        return engram_carve(c, s->graph.nodes, 0, engram_contributions(s));
    };
    const void *kernel = s->embeddings.rows ? (const void *)spread_similar_kernel
                                            : (const void *)spread_engram_kernel;
    return spread_launch<struct engram_job>(s, kernel, lay_out, spread_engram_slot_bytes, stream);
}
