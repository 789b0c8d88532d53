/* spread_launch: launches the kernel of either mode on the whole device. Host code. Blocks wait
 * for each other, so all of them must run at once: a cooperative launch, with as many as fit. A
 * device that cannot do that gets one block. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_LAUNCH_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_LAUNCH_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/spread_job.cuh"

int spread_linear_launch(const struct cuda_spread *s, cudaStream_t stream);
int spread_engram_launch(const struct cuda_spread *s, cudaStream_t stream);
/* Looks up the rows of nodes (spread_similar.cu), if the spread has embeddings. */
int spread_similar_launch(const struct cuda_spread *s, cudaStream_t stream);
struct spread_similar spread_similar_of(const struct cuda_spread *s);
uint64_t spread_linear_grid_bytes(uint32_t nodes, uint64_t edges);
uint64_t spread_linear_slot_bytes(uint32_t room);
/* contributions: how many of a level fit. */
uint64_t spread_engram_grid_bytes(uint32_t nodes, uint64_t contributions);
uint64_t spread_engram_slot_bytes(uint32_t room);
static inline uint64_t spread_contributions_least(uint32_t nodes, uint64_t edges)
{
    const uint64_t most = edges > nodes ? edges : nodes;
    return most < 1024 ? 1024 : most < UINT32_MAX ? most : UINT32_MAX;
}

/* The tallies, and behind them the count of records that sets have reserved, which starts at 0, and
 * whether the call has run for as long as it may. */
static const uint64_t SPREAD_HEAD_BYTES = 1024, SPREAD_GIVEN_AT = 768, SPREAD_OVER_AT = 776;
static_assert(3 * sizeof(struct spread_tally) <= 768, "tallies fit");
static inline unsigned long long *spread_records_given(const struct cuda_spread *s)
{
    return (unsigned long long *)((char *)s->scratch + SPREAD_GIVEN_AT);
}

/* Cuts the rest of the scratch into slots: large ones if there are then enough for all sets or
 * blocks. */
static inline void spread_share_scratch(struct spread_base *b, char *at, uint64_t left,
                                        uint32_t blocks, uint64_t (*slot_bytes)(uint32_t room))
{
    const uint32_t wanted = b->set_count < blocks ? b->set_count : blocks;
    uint32_t room = SPREAD_ROOM_MOST;
    while (room > SPREAD_ROOM_LEAST &&
           (room / 2 >= b->graph.nodes || left / slot_bytes(room) < wanted))
        room /= 2;
    const uint64_t fit = left / slot_bytes(room);
    b->slots = at;
    b->slot_room = room;
    b->slot_bytes = slot_bytes(room);
    b->slot_count = fit < wanted ? (uint32_t)fit : wanted;
    b->slot_edges = (uint64_t)SPREAD_EDGES_OF_BLOCK * b->set_count;
}

static inline struct spread_base spread_base_of(const struct cuda_spread *s)
{
    struct spread_base b = {};
    b.graph = s->graph;
    b.question = s->question;
    b.similar = spread_similar_of(s);
    b.time_ns = s->time_ns;
    b.began_ns = s->began_ns;
    b.set_offsets = s->set_offsets;
    b.set_ends = s->set_ends ? s->set_ends : s->set_offsets + 1;
    b.set_count = s->set_count;
    b.record_room = s->record_room;
    b.out_records = s->out_records;
    b.out_sets = s->out_sets;
    b.tallies = (struct spread_tally *)s->scratch;
    b.records_given = spread_records_given(s);
    b.pass_ns = s->pass_ns;
    b.over = (uint32_t *)((char *)s->scratch + SPREAD_OVER_AT);
    b.again = s->again;
    return b;
}

/* A single set whose seeds, or what they lead to, will likely be too much for a block is not tried
 * there: the time would be lost. */
static inline bool spread_outgrows_block(const struct spread_base *b)
{
    const uint64_t degree = b->graph.nodes ? b->graph.edges / b->graph.nodes : 0;
    return b->question.hops > 1 && b->question.seed_count * degree > b->slot_edges / 4;
}

/* Computes how many blocks can run at once. */
static inline int spread_blocks(const void *kernel, uint32_t *blocks, bool *together)
{
    int multiprocessors = 1, cooperative = 0, each = 0;
    int error = device_attribute(cudaDevAttrMultiProcessorCount, &multiprocessors);
    if (!error) error = device_attribute(cudaDevAttrCooperativeLaunch, &cooperative);
    if (!error)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, SPREAD_THREADS, 0);
    if (error) return error;
    *together = cooperative && each > 0;
    *blocks =
        *together ? (uint32_t)(multiprocessors * (each < SPREAD_BLOCKS ? each : SPREAD_BLOCKS)) : 1;
    return cudaSuccess;
}

static inline int spread_enqueue(const void *kernel, void *job, uint32_t blocks, bool together,
                                 cudaStream_t stream)
{
    void *parameters[] = {job};
    int error =
        together ? cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(SPREAD_THREADS),
                                               parameters, 0, stream)
                 : cudaLaunchKernel(kernel, dim3(1), dim3(SPREAD_THREADS), parameters, 0, stream);
    return error ? error : cudaGetLastError();
}

/* Launches a mode's kernel. lay_out(&carver) lays out the grid's arrays; slot_bytes returns the
 * size of a slot with this many places. */
template <class Job, class LayOut>
static inline int spread_launch(const struct cuda_spread *s, const void *kernel, LayOut lay_out,
                                uint64_t (*slot_bytes)(uint32_t room), cudaStream_t stream)
{
    Job job = {};
    uint32_t blocks = 0;
    bool together = false;
    int error = spread_blocks(kernel, &blocks, &together);
    if (error) return error;
    job.base = spread_base_of(s);
    struct spread_carver c = {(char *)s->scratch + SPREAD_HEAD_BYTES};
    job.grid = lay_out(&c);
    spread_share_scratch(&job.base, c.at, s->scratch_bytes - (uint64_t)(c.at - (char *)s->scratch),
                         blocks, slot_bytes);
    if (job.base.set_count == 1 && spread_outgrows_block(&job.base)) job.base.slot_count = 0;
    return spread_enqueue(kernel, &job, blocks, together, stream);
}

#endif
