/* sim_recall: the simulated device's seeds and best of recalls, in the plainest way.
 * Owner:  device_sim, through sim_work.
 * Thread: the device thread only.
 * Errors: as sim_work's. Lists for which the host has no memory say that they are undone. */
#ifndef ENGRAM_GPU_SIM_RECALL_H
#define ENGRAM_GPU_SIM_RECALL_H

#include "daemon/base/clock.h"
#include "daemon/gpu/device_call.h"
#include "daemon/gpu/sim_memory.h"

void sim_recall_check(const struct device_call *call, const struct sim_memory *m);
void sim_recall_run(const struct device_call *call, const struct vector_kernels *kernels,
                    const struct clock *clock);

#endif
