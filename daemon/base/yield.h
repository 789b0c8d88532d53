/* yield: work that lasts is done in pieces, between which its thread does what others wait for.
 * Loops that may last call yield_check every few hundred microseconds of work at most, whatever
 * thread they run on; threads that have nothing better to do make it cost a load.
 * Owner:  the thread, which sets yield_now while it runs what may be interrupted.
 * Thread: each has its own.
 * Errors: none. */
#ifndef ENGRAM_BASE_YIELD_H
#define ENGRAM_BASE_YIELD_H

#include <stddef.h>
#include <stdint.h>

struct yielder {
    /* Called by yield_check: the caller holds no lock and nothing of the thread's own. */
    void (*check)(struct yielder *p);
    uint64_t lent_ns; /* the thread's own time that check has spent on others, in all */
};

extern _Thread_local struct yielder *yield_now; /* NULL: nobody waits for this thread */

static inline void yield_check(void)
{
    struct yielder *p = yield_now;
    if (p) p->check(p);
}

/* Sets bytes to zero, in pieces. */
void yield_clear(void *data, size_t bytes);

#endif
