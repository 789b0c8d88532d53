/* buddy: an allocator of runs of units; a run's length is a power of two, and it is aligned to it.
 * It computes with numbers only: its tables lie outside the memory that it divides.
 * Owner:  the heap.
 * Thread: one at a time (the heap's lock).
 * Errors: BUDDY_NONE when no run fits; nothing changes then. */
#ifndef ENGRAM_HEAP_BUDDY_H
#define ENGRAM_HEAP_BUDDY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/status.h"

#define BUDDY_NONE UINT32_MAX
enum { BUDDY_ORDERS = 31 };

struct buddy_link {
    uint32_t next, previous; /* in the free list of its order */
};

struct buddy {
    uint32_t units;
    uint32_t free_runs[BUDDY_ORDERS]; /* heads of the free lists, by order */
    struct buddy_link *links;         /* by first unit of a free run */
    uint8_t *tags;                    /* by first unit: 1 + order of a free run, 0 otherwise */
    uint64_t table_bytes;
};

/* units: 1 .. 2^30, all free. The tables are lazily allocated pages: unused ones cost nothing. */
enum status buddy_init(struct buddy *b, uint32_t units);
void buddy_finish(struct buddy *b);

/* Returns the first unit of a run of 2^order units. O(log n). */
uint32_t buddy_take(struct buddy *b, uint32_t order);
/* Takes the run of 2^order units that begins at unit, a multiple of that. False: it is not free, or
 * passes the end. */
bool buddy_take_at(struct buddy *b, uint32_t unit, uint32_t order);
void buddy_give(struct buddy *b, uint32_t unit, uint32_t order);

#endif
