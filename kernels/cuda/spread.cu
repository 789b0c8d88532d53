/* spread: chooses the kernel and computes the size of scratch. Host code. */
#include "kernels/cuda/spread_launch.cuh"

static uint64_t slot_bytes(enum spread_mode mode, uint32_t room)
{
    return mode == SPREAD_ENGRAM ? spread_engram_slot_bytes(room) : spread_linear_slot_bytes(room);
}

static uint64_t grid_bytes(enum spread_mode mode, uint32_t nodes, uint64_t edges, uint64_t times)
{
    const uint64_t least = spread_contributions_least(nodes, edges);
    const uint64_t most = times * least < UINT32_MAX ? times * least : UINT32_MAX;
    return SPREAD_HEAD_BYTES + (mode == SPREAD_ENGRAM ? spread_engram_grid_bytes(nodes, most)
                                                      : spread_linear_grid_bytes(nodes, edges));
}

extern "C" uint64_t cuda_spread_scratch_min(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                            uint32_t set_count)
{
    (void)set_count;
    return grid_bytes(mode, nodes, edges, 1) + slot_bytes(mode, SPREAD_ROOM_LEAST);
}

extern "C" uint64_t cuda_spread_scratch_best(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                             uint32_t set_count)
{
    const uint32_t slots = set_count < SPREAD_SLOTS_MOST ? set_count : SPREAD_SLOTS_MOST;
    uint32_t room = SPREAD_ROOM_MOST;
    while (room > SPREAD_ROOM_LEAST && room / 2 >= nodes)
        room /= 2;
    /* A node expands at most three times, and at worst all in one level. */
    return grid_bytes(mode, nodes, edges, 3) + (slots ? slots : 1) * slot_bytes(mode, room);
}

extern "C" int cuda_spread(const struct cuda_spread *s, struct CUstream_st *stream)
{
    if (s->set_count == 0) return cudaSuccess;
    int error = s->again ? cudaSuccess
                         : cudaMemsetAsync(spread_records_given(s), 0,
                                           sizeof *spread_records_given(s), stream);
    if (!error && !s->again) error = spread_similar_launch(s, stream);
    if (error) return error;
    return s->question.mode == SPREAD_ENGRAM ? spread_engram_launch(s, stream)
                                             : spread_linear_launch(s, stream);
}
