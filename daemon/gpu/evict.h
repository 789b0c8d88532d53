/* evict: evicts replicas to make room for others, and tells the front about it.
 * Owner:  the GPU process.
 * Thread: the device thread.
 * Errors: none. */
#ifndef ENGRAM_GPU_EVICT_H
#define ENGRAM_GPU_EVICT_H

#include "daemon/gpu/replica_list.h"

struct gpu;

/* Drops a shadow that no task uses, or else the least recently used replica that no task holds, and
 * that is not `but`. False: there is none, or too many evictions have not been told to the front
 * yet. */
bool evict_oldest(struct gpu *g, const struct replica *but);

/* Tells the front about evictions, as far as the ring has room; true if it told any. */
bool evict_tell(struct gpu *g);

#endif
