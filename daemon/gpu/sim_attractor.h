/* sim_attractor: the simulated device's steps of a completion by an attractor: the CPU's kernels
 * over device memory.
 * Owner:  device_sim, through sim_work.
 * Thread: the device thread only.
 * Errors: as sim_work's. */
#ifndef ENGRAM_GPU_SIM_ATTRACTOR_H
#define ENGRAM_GPU_SIM_ATTRACTOR_H

#include "daemon/gpu/device_call.h"
#include "daemon/gpu/sim_memory.h"

void sim_attractor_check(const struct device_call *call, const struct sim_memory *m);

/* Of host memory, for any dimension; a multiple of 64. */
uint64_t sim_attractor_scratch_bytes(void);
void sim_attractor_run(const struct device_call *call, const struct vector_kernels *kernels,
                       void *scratch);

#endif
