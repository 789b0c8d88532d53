/* clock: the one source of time. Rooms that decide take now_ns as a parameter.
 * Owner:  base. Thread: any; no state. Errors: none. */
#ifndef ENGRAM_BASE_CLOCK_H
#define ENGRAM_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t clock_now_ns(void);

#endif
