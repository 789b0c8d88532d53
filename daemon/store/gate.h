/* gate: who sees an edition: readers go through it and leave, and a writer that finds nobody closes
 * it, changes the edition in place and opens it again.
 * Owner:  the edition.
 * Thread: any; readers go through it on the loop.
 * Errors: gate_enter, gate_close: false. */
#ifndef ENGRAM_STORE_GATE_H
#define ENGRAM_STORE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GATE_CLOSED UINT32_MAX /* a writer changes it in place, or nobody may see it any more */

struct gate {
    atomic_uint readers; /* or GATE_CLOSED */
};

static inline bool gate_enter(struct gate *g)
{
    unsigned readers = atomic_load_explicit(&g->readers, memory_order_relaxed);
    do {
        if (readers == GATE_CLOSED) return false;
    } while (!atomic_compare_exchange_weak_explicit(&g->readers, &readers, readers + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

/* True if the last reader left. */
static inline bool gate_leave(struct gate *g)
{
    return atomic_fetch_sub_explicit(&g->readers, 1, memory_order_release) == 1;
}

/* True if no reader is behind it; none will be until it is opened. */
static inline bool gate_close(struct gate *g)
{
    unsigned none = 0;
    return atomic_compare_exchange_strong_explicit(&g->readers, &none, GATE_CLOSED,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void gate_open(struct gate *g)
{
    atomic_store_explicit(&g->readers, 0, memory_order_release);
}

/* True if a reader is behind it. */
static inline bool gate_has_readers(const struct gate *g)
{
    unsigned readers = atomic_load_explicit(&g->readers, memory_order_acquire);
    return readers && readers != GATE_CLOSED;
}

#endif
