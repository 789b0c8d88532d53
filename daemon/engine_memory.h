/* engine_memory: the heap, and the store in it, as the settings want them.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: RESOURCE_EXHAUSTED, with text; what was made is the caller's to destroy. */
#ifndef ENGRAM_ENGINE_MEMORY_H
#define ENGRAM_ENGINE_MEMORY_H

#include "daemon/base/config.h"
#include "daemon/heap/heap.h"
#include "daemon/store/space.h"

enum status engine_memory_build(const struct config *c, const struct vector_kernels *kernels,
                                struct heap **heap, struct store **store, struct failure *f);

#endif
