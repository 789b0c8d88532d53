/* clock: the one source of time. Functions that decide take now_ns as a parameter; code that reads
 * the time more than once is given a clock, so that tests/sim can run it on a virtual one.
 * Owner:  base. Thread: any; no state. Errors: none. */
#ifndef ENGRAM_BASE_CLOCK_H
#define ENGRAM_BASE_CLOCK_H

#include <stdint.h>

struct clock {
    uint64_t (*now_ns)(void *owner);
    void *owner;
};

/* CLOCK_MONOTONIC. */
extern const struct clock clock_real;

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t clock_now_ns(void);

/* Nanoseconds that the calling thread has had a processor; some 0.3 us to read. */
uint64_t clock_thread_ns(void);

/* Returns the nanoseconds of that clock; NULL: the real one. */
static inline uint64_t clock_read_ns(const struct clock *c)
{
    return c ? c->now_ns(c->owner) : clock_now_ns();
}

#endif
