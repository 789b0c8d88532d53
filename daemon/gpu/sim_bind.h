/* sim_bind: the simulated device's binding, and its norms of 1: the CPU's kernels over device
 * memory.
 * Owner:  device_sim, through sim_work.
 * Thread: the device thread only.
 * Errors: as sim_work's. */
#ifndef ENGRAM_GPU_SIM_BIND_H
#define ENGRAM_GPU_SIM_BIND_H

#include "daemon/gpu/device_call.h"
#include "daemon/gpu/sim_memory.h"

void sim_bind_check(const struct cuda_hrr *work, const struct sim_memory *m);

/* Of host memory, for binds of any dimension; a multiple of 64. */
uint64_t sim_bind_scratch_bytes(void);
struct cuda_hrr_scratch sim_bind_scratch(const struct hrr_plan *plan, uint64_t count);
/* Binds, after checking that the tables, which are complete now, are the plan's and that each
 * position is inside of device memory. */
void sim_bind_run(const struct cuda_hrr *work, const struct sim_memory *m, void *scratch);

void sim_normalize_check(const struct device_call *call, const struct sim_memory *m);
void sim_normalize_run(const struct device_call *call, const struct vector_kernels *kernels);

#endif
