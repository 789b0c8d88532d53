/* copiers: threads that move bytes between the heap and pinned memory, so that the device thread
 * never does: one core alone copies at a fraction of what the bus carries.
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

/* One piece of work, cut into parts that run at once. The caller's memory; it stays until done. */
struct copy_work {
    void (*run)(void *owner, uint32_t part); /* any thread, each part once */
    void *owner;
    uint32_t parts;
    /* the copiers' */
    atomic_uint next, left;
    struct copy_work *after;
};

/* count 0: no threads; copiers_help does it all. */
enum status copiers_create(uint32_t count, struct copiers **out);
void copiers_destroy(struct copiers *c); /* NULL is fine; nothing may be under way */
void copiers_start(struct copiers *c, struct copy_work *w); /* parts >= 1 */
/* Whether all parts have run, and what they wrote can be seen. */
static inline bool copy_work_done(struct copy_work *w)
{
    return atomic_load_explicit(&w->left, memory_order_acquire) == 0;
}
/* Without threads of their own: runs the next part here. True: there was one. */
bool copiers_help(struct copiers *c);
/* Runs the parts that nobody has taken yet and waits for the others. */
void copiers_finish(struct copiers *c, struct copy_work *w);

#endif
