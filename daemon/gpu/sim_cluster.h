/* sim_cluster: the simulated device's clusterings: the CPU's kernels over device memory.
 * Owner:  device_sim, through sim_work.
 * Thread: the device thread only.
 * Errors: as sim_work's. */
#ifndef ENGRAM_GPU_SIM_CLUSTER_H
#define ENGRAM_GPU_SIM_CLUSTER_H

#include "daemon/gpu/device_call.h"
#include "daemon/gpu/sim_memory.h"

void sim_cluster_check(const struct device_call *call, const struct sim_memory *m);
void sim_cluster_run(const struct device_call *call, const struct vector_kernels *kernels);

/* ---- sim_cluster_average.c: PAIRS and ADD ---- */

void sim_cluster_pairs(const struct cuda_cluster *w, const struct cluster_kernels *kernels);
void sim_cluster_add(const struct cuda_cluster *w, const struct cluster_kernels *kernels);

#endif
