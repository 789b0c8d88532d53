/* sim_complete: the simulated device's rounds of completion: the CPU's kernels over device memory.
 * Owner:  device_sim, through sim_work.
 * Thread: the device thread only.
 * Errors: as sim_work's. */
#ifndef ENGRAM_GPU_SIM_COMPLETE_H
#define ENGRAM_GPU_SIM_COMPLETE_H

#include "daemon/gpu/device_call.h"
#include "daemon/gpu/sim_memory.h"

void sim_complete_check(const struct device_call *call, const struct sim_memory *m);
void sim_complete_run(const struct device_call *call, const struct vector_kernels *kernels);

#endif
