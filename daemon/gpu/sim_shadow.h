/* sim_shadow: the simulated device's rows in int8, and the k best that they find: the CPU's kernels
 * over device memory. A wrong code gives a wrong answer, as on a device.
 * Owner:  device_sim, through sim_work.
 * Thread: the device thread only.
 * Errors: as sim_work's. */
#ifndef ENGRAM_GPU_SIM_SHADOW_H
#define ENGRAM_GPU_SIM_SHADOW_H

#include "daemon/gpu/device_call.h"
#include "daemon/gpu/sim_memory.h"

struct sim_shadow;
struct sim_shadow *sim_shadow_create(const struct vector_kernels *kernels); /* or NULL */
void sim_shadow_destroy(struct sim_shadow *s);                              /* NULL is fine */

/* Beside what a top-k checks. */
void sim_shadow_check(const struct device_call *call, const struct sim_memory *m);
/* A SHADOW_TOPK is searched; of a SHADOW_DIRECT sim_work makes one. threshold: what
 * call->topk.threshold pointed to, if it did. Of several queries those of which
 * more than some hundreds of rows pass are to be asked again. */
void sim_shadow_run(const struct device_call *call, float threshold, struct sim_shadow *s);

bool sim_shadow_suits(uint64_t query_count, uint32_t k, uint64_t row_count);
uint64_t sim_shadow_scratch(uint64_t query_count, uint32_t k, uint64_t row_count,
                            uint32_t dimension);
uint64_t sim_shadow_direct_scratch(uint64_t row_count);

#endif
