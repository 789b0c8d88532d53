/* releaser: returns the pages of blocks to the system, a MiB at a time: in the caller, or in a
 * thread of its own, so that the loop does not wait 25 ms for those of a body of 64 MiB.
 * Owner:  the heap.
 * Thread: one at a time (the heap's lock, which the caller holds).
 * Errors: none. Where the system refuses, the bytes are cleared and keep their pages. */
#ifndef ENGRAM_HEAP_RELEASER_H
#define ENGRAM_HEAP_RELEASER_H

#include "daemon/heap/heap_inside.h"

/* Returns the pages of a block that is in no list, then frees its addresses. Until then they count
 * in bytes_releasing. Drops the lock meanwhile, or leaves the block to the thread if `together`,
 * the bytes of all that the caller returns now, is worth a wake-up. */
void releaser_take(struct heap *h, uint32_t unit, uint64_t together);

/* Returns the pages of a part of a block in use, which reads as zeros from then on; without the
 * lock, and nothing is counted. */
void releaser_return(struct heap *h, uint64_t offset, uint64_t bytes);

/* Ends the thread, if it runs; blocks still in its line keep their pages. The caller does not hold
 * the lock. */
void releaser_stop(struct heap *h);

/* ---- takes that are put off: by the one thread that must not wait for what is on its way, the
 * loop; it waits for a MiB or two. Under the heap's lock. ---- */

/* One take, as far as it has come. Zeroed: it begins. */
struct patience {
    uint32_t waits; /* so many times it has waited */
    bool ended;     /* it was put off */
};

/* True if a take for which `over` bytes have yet to go back may wait for a piece of them.
 * Otherwise it is put off, and the thread will be told. */
bool releaser_may_wait(struct heap *h, uint64_t over, struct patience *p);

#endif
