/* copiers: threads that copy bytes between the heap and pinned memory, because one core alone
 * copies at a fraction of the bus's rate.
 * Owner:  the GPU process.
 * Thread: start, poll and destroy: the device thread.
 * Errors: copiers_create: RESOURCE_EXHAUSTED when a thread cannot be started. */
#ifndef ENGRAM_GPU_COPIERS_H
#define ENGRAM_GPU_COPIERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/status.h"

struct copiers;

/* Work that is cut into parts, which run at once. The caller's memory; it must stay until done. */
struct copy_work {
    void (*run)(void *owner, uint32_t part); /* called by any thread, once for each part */
    void *owner;
    uint32_t parts;
    /* private to the copiers */
    atomic_uint next, left;
    struct copy_work *after;
};

/* count 0: no threads; copiers_help does everything. */
enum status copiers_create(uint32_t count, struct copiers **out);
void copiers_destroy(struct copiers *c); /* NULL is fine; no work may be unfinished */
void copiers_start(struct copiers *c, struct copy_work *w); /* parts >= 1 */
/* True if all parts have run and their writes are visible. */
static inline bool copy_work_done(struct copy_work *w)
{
    return atomic_load_explicit(&w->left, memory_order_acquire) == 0;
}
/* Without threads: runs the next part on the calling thread. True: there was one. */
bool copiers_help(struct copiers *c);
/* Runs the unclaimed parts and waits for the others. */
void copiers_finish(struct copiers *c, struct copy_work *w);

#endif
