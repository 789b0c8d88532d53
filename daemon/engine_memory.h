/* engine_memory: the heap, and the store in it, as the settings want them.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: RESOURCE_EXHAUSTED, with text; what was made is the caller's to destroy. */
#ifndef ENGRAM_ENGINE_MEMORY_H
#define ENGRAM_ENGINE_MEMORY_H

#include "daemon/base/config.h"
#include "daemon/heap/heap.h"
#include "daemon/store/space.h"

/* from: what another daemon had, which it has from then on (handover/hand_over.h); NULL: nothing.
 * Besides: DATA_LOSS, FAILED_PRECONDITION: that cannot be; ABORTED: somebody else has it. */
struct hand_over;
enum status engine_memory_build(const struct config *c, const struct vector_kernels *kernels,
                                struct hand_over *from, struct heap **heap, struct store **store,
                                struct failure *f);

#endif
