/* sim_covariance: the simulated device's covariances: the CPU's kernels over device memory.
 * Owner:  device_sim, through sim_work.
 * Thread: the device thread only.
 * Errors: as sim_work's. */
#ifndef ENGRAM_GPU_SIM_COVARIANCE_H
#define ENGRAM_GPU_SIM_COVARIANCE_H

#include "daemon/gpu/device_call.h"
#include "daemon/gpu/sim_memory.h"

/* Of host memory that a run takes. */
uint64_t sim_covariance_scratch_bytes(void);
void sim_covariance_check(const struct device_call *call, const struct sim_memory *m);
void sim_covariance_run(const struct device_call *call, const struct vector_kernels *kernels,
                        void *scratch);

#endif
