/* sim_spread: the simulated device's spread: the CPU's engine over device memory.
 * Owner:  device_sim, through sim_work.
 * Thread: the device thread only.
 * Errors: as sim_work's. */
#ifndef ENGRAM_GPU_SIM_SPREAD_H
#define ENGRAM_GPU_SIM_SPREAD_H

#include "daemon/base/clock.h"
#include "daemon/gpu/sim_memory.h"
#include "kernels/cuda/spread_cuda.h"

void sim_spread_check(const struct cuda_spread *s, const struct sim_memory *m);

/* The engine's workspace, kept from spread to spread; zeroed: none yet. */
struct sim_spread_room {
    const struct clock *clock; /* NULL: the real one */
    uint32_t pass_sets;        /* a call with pass_ns runs so many sets at most; 0: any number */
    struct spread_workspace workspace;
};
void sim_spread_room_finish(struct sim_spread_room *room);

/* Runs the spread, after checking that the arrays, which are complete now, are consistent. If the
 * host has no memory, or an engram level needs more than the scratch would have held, sets say
 * no_memory. */
void sim_spread_run(const struct cuda_spread *s, const struct sim_memory *m,
                    struct sim_spread_room *room);

uint64_t sim_spread_scratch_min(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                uint32_t set_count);
uint64_t sim_spread_scratch_best(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                 uint32_t set_count);

#endif
