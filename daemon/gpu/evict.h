/* evict: which replica makes room for others, and telling the front of it.
 * Owner:  the GPU process.
 * Thread: the device thread.
 * Errors: none. */
#ifndef ENGRAM_GPU_EVICT_H
#define ENGRAM_GPU_EVICT_H

#include "daemon/gpu/replica.h"

/* Drops the least recently used replica that no task holds and that is not `but`. False: there is
 * none, or the front has yet to hear of too many. */
bool evict_oldest(struct gpu *g, const struct replica *but);

/* Tells the front of evictions, as far as the ring has room; true if any was told. */
bool evict_tell(struct gpu *g);

#endif
