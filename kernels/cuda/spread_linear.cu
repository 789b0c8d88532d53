/* spread_linear: the kernel of mode linear. */
#include "kernels/cuda/spread_launch.cuh"
#include "kernels/cuda/spread_pull.cuh"

typedef struct linear_run<spread_block_group, spread_hash_places> block_run;

__device__ inline bool linear_hop(block_run *r)
{
    return linear_hop_by_push(r);
}

/* Lays out the arrays for this many places and edges in a hop. nodes: the grid's, else 0. */
__host__ __device__ static struct linear_slot linear_carve(struct spread_carver *c, uint64_t nodes,
                                                           uint32_t room, uint64_t edges)
{
    struct linear_slot s = {};
    const uint64_t places = nodes ? nodes : room;
    s.sums = spread_carve<struct spread_sum>(c, places);
    s.sent[0] = spread_carve<float>(c, places);
    s.sent[1] = spread_carve<float>(c, places);
    s.activation = spread_carve<float>(c, places);
    s.seen = spread_carve<uint16_t>(c, places);
    s.marks = spread_carve<unsigned>(c, places / 32 + 1);
    s.parents = spread_carve<uint32_t>(c, places);
    s.touched = spread_carve<uint32_t>(c, places);
    s.lists[0] = spread_carve<uint32_t>(c, places);
    s.lists[1] = spread_carve<uint32_t>(c, places);
    s.candidates = spread_carve<uint32_t>(c, places);
    s.chunks = spread_carve<struct spread_chunk>(c, edges / (SPREAD_EDGES_LONG / 2) + 1);
    s.bins = spread_carve<unsigned>(c, SPREAD_BIN_BYTES / sizeof(unsigned));
    if (nodes) {
        s.hubs = spread_carve<struct spread_hub>(c, edges / SPREAD_PULL_PIECE + 1);
        s.pieces = spread_carve<uint32_t>(c, edges / (SPREAD_PULL_PIECE / 2) + 1);
        s.partials = spread_carve<struct spread_sum>(c, edges / (SPREAD_PULL_PIECE / 2) + 1);
    } else {
        s.hash = spread_carve_hash(c, room);
    }
    return s;
}

/* Which of the grid's arrays are cleared; that is done once for all sets. */
enum { LINEAR_CLEARED = 1, LINEAR_SUMS_CLEARED = 2 };

__device__ static void linear_clear(const struct linear_slot *s, uint32_t nodes)
{
    spread_clear<spread_grid_group>(s->sent[0], (uint64_t)nodes * sizeof(float));
    spread_clear<spread_grid_group>(s->sent[1], (uint64_t)nodes * sizeof(float));
    spread_clear<spread_grid_group>(s->seen, ((uint64_t)nodes + 1) / 2 * 4);
}

__device__ static void linear_clean(pull_run *r)
{
    const struct linear_slot *s = r->slot;
    const uint32_t thread = spread_thread<spread_grid_group>();
    const uint32_t threads = spread_threads<spread_grid_group>();
    if (!r->all_listed) {
        linear_clear(s, r->base->graph.nodes);
        return;
    }
    for (uint32_t i = thread; i < r->touched; i += threads)
        s->seen[s->touched[i]] = 0;
    for (uint32_t i = thread; i < r->listed; i += threads)
        r->sent()[s->lists[r->hop & 1][i]] = 0.0f;
    for (uint32_t i = thread; i < r->old_listed; i += threads)
        r->sent_before()[s->lists[~r->hop & 1][i]] = 0.0f;
}

struct linear_mode {
    typedef struct linear_slot slot;

    __device__ static struct linear_slot carve(struct spread_carver *c, uint64_t nodes,
                                               uint32_t room, uint64_t edges)
    {
        return linear_carve(c, nodes, room, edges);
    }

    __device__ static void run_block(const struct linear_job &job, struct spread_shared *shared,
                                     const struct linear_slot &slot, uint32_t set,
                                     uint64_t started_ns)
    {
        block_run r = {};
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
        if (!linear_run_through(&r) && threadIdx.x == 0)
            job.base.out_sets[set].no_memory = SPREAD_DEFERRED;
    }

    __device__ static void run_grid(const struct linear_job &job, struct spread_shared *shared,
                                    uint32_t set, uint64_t started_ns, unsigned *state)
    {
        pull_run r = {};
        r.base = &job.base;
        r.slot = &job.grid;
        r.shared = shared;
        r.tallies = job.base.tallies;
        r.set = set;
        r.started_ns = started_ns;
        r.sums_clear = *state & LINEAR_SUMS_CLEARED;
        if (!(*state & LINEAR_CLEARED)) {
            linear_clear(&job.grid, job.base.graph.nodes);
            spread_clear<spread_grid_group>(job.grid.marks,
                                            (uint64_t)(job.base.graph.nodes / 32 + 1) * 4);
        }
        linear_run_through(&r);
        if (job.base.set_count > 1) linear_clean(&r);
        *state = LINEAR_CLEARED | (r.sums_clear ? LINEAR_SUMS_CLEARED : 0);
    }
};

__global__ void __launch_bounds__(SPREAD_THREADS, SPREAD_BLOCKS)
    spread_linear_kernel(const struct linear_job job)
{
    __shared__ struct spread_shared shared;
    __shared__ struct linear_slot slot;
    spread_sets<linear_mode>(job, &shared, &slot);
}

uint64_t spread_linear_grid_bytes(uint32_t nodes, uint64_t edges)
{
    struct spread_carver c = {NULL};
    linear_carve(&c, nodes ? nodes : 1, 0, edges);
    return (uint64_t)(uintptr_t)c.at;
}

uint64_t spread_linear_slot_bytes(uint32_t room)
{
    struct spread_carver c = {NULL};
    linear_carve(&c, 0, room, room);
    return (uint64_t)(uintptr_t)c.at;
}

int spread_linear_launch(const struct cuda_spread *s, cudaStream_t stream)
{
    auto lay_out = [s](struct spread_carver *c) {
        return linear_carve(c, s->graph.nodes, 0, s->graph.edges);
    };
    return spread_launch<struct linear_job>(s, (const void *)spread_linear_kernel, lay_out,
                                            spread_linear_slot_bytes, stream);
}
