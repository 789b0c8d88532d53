/* areas: the two files behind the heap. GPU processes get a descriptor of the first that can only
 * be read, and so can ruin nothing in it: bodies, collections, graphs, scratch. Only blocks of the
 * second, the exchange, may be named as a place where they write, and what the daemon finds there
 * it does not trust. Both lie one behind the other, here and there, so an offset is a place in
 * either.
 * Owner:  the heap.
 * Thread: areas_open and areas_close: one; the rest under the heap's lock.
 * Errors: RESOURCE_EXHAUSTED; INTERNAL: files cannot be sealed. */
#ifndef ENGRAM_HEAP_AREAS_H
#define ENGRAM_HEAP_AREAS_H

#include "daemon/heap/heap_inside.h"

/* Makes and maps the files; areas_close undoes what was done. own_fd >= 0: the first is there
 * already, and is the caller's. */
enum status areas_open(struct heap *h, const uint32_t units[HEAP_AREAS], int own_fd);
void areas_close(struct heap *h);

static inline struct heap_area *area_of(struct heap *h, uint32_t unit)
{
    return &h->areas[unit >= h->areas[HEAP_EXCHANGE].first_unit ? HEAP_EXCHANGE : HEAP_OWN];
}

/* As buddy_take, buddy_give. */
static inline uint32_t area_take(struct heap_area *a, uint32_t order)
{
    uint32_t unit = buddy_take(&a->buddy, order);
    return unit == NONE ? NONE : a->first_unit + unit;
}
static inline void area_give(struct heap *h, uint32_t unit, uint32_t order)
{
    struct heap_area *a = area_of(h, unit);
    buddy_give(&a->buddy, unit - a->first_unit, order);
}

#endif
