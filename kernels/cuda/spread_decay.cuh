/* spread_decay: how activation fades with the distance, on the device. The host fills a table once
 * for all sets of a spread (daemon/ops/spread_ask.c: exponential, power, linear, constant or the
 * client's own), so that no kernel computes an exponential. A hop reads its factor here and
 * multiplies by it in spread_received (mode linear) or spread_contribution (mode engram) of
 * kernels/spread.h. Device code only. */
#ifndef ENGRAM_KERNELS_CUDA_SPREAD_DECAY_CUH
#define ENGRAM_KERNELS_CUDA_SPREAD_DECAY_CUH

#include "kernels/spread.h"

/* f(hop), of 1 .. hops. */
__device__ __forceinline__ float spread_decay_at(const struct spread_question *q, uint32_t hop)
{
    return q->decay[hop];
}

#endif
