/* sim_sums: the simulated device's weighted averages, and sums of lists: the CPU's kernels over
 * device memory.
 * Owner:  device_sim, through sim_work.
 * Thread: the device thread only.
 * Errors: as sim_work's. */
#ifndef ENGRAM_GPU_SIM_SUMS_H
#define ENGRAM_GPU_SIM_SUMS_H

#include "daemon/gpu/device_call.h"
#include "daemon/gpu/sim_memory.h"

void sim_average_check(const struct device_call *call, const struct sim_memory *m);
void sim_average_run(const struct device_call *call);

void sim_superpose_check(const struct device_call *call, const struct sim_memory *m);
/* If the host has no memory, every norm says overflow. */
void sim_superpose_run(const struct device_call *call, const struct vector_kernels *kernels);

#endif
