/* sim_cells: what a direct launch of the simulated device stores (device_cells.h).
 * Owner:  sim_work.
 * Thread: the device thread only.
 * Errors: none. */
#ifndef ENGRAM_GPU_SIM_CELLS_H
#define ENGRAM_GPU_SIM_CELLS_H

#include <string.h>

#include "daemon/gpu/device_call.h"

static inline void sim_cells_put(const struct cuda_direct *to, uint64_t cell, uint32_t value)
{
    to->cells[cell] = (uint64_t)to->tag << 32 | value;
}

static inline uint32_t sim_cells_bits(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits;
}

static inline void sim_cells_put_best(const struct cuda_direct *to, uint32_t count,
                                      const uint64_t *ids, const float *scores)
{
    uint32_t k = to->k;
    for (uint32_t i = 0; i < k; i++) {
        sim_cells_put(to, 1 + i, i < count ? (uint32_t)ids[i] : 0);
        sim_cells_put(to, 1 + k + i, i < count ? (uint32_t)(ids[i] >> 32) : 0);
        sim_cells_put(to, 1 + 2 * k + i, i < count ? sim_cells_bits(scores[i]) : 0);
    }
    sim_cells_put(to, 0, count);
}

#endif
