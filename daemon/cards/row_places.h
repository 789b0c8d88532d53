/* row_places: where the rows of one edition lie in the heap, as a table there, for a card that has
 * only the codes of the rows: it scores the few that may be among the best from the heap.
 * Owner:  the replica of the collection, and every job whose order names it: each holds it.
 * Thread: the loop.
 * Errors: row_places_make: NULL, if there is no memory. */
#ifndef ENGRAM_CARDS_ROW_PLACES_H
#define ENGRAM_CARDS_ROW_PLACES_H

#include "daemon/heap/heap.h"
#include "daemon/store/edition.h"

struct row_places {
    uint32_t holders;
    uint64_t version; /* of the edition */
    uint64_t segment_rows;
    struct heap_block block; /* the place of each segment's rows */
};

/* Held once. e is pinned, or the newest. */
struct row_places *row_places_make(struct heap *heap, const struct edition *e, uint32_t space);
static inline void row_places_hold(struct row_places *p)
{
    p->holders++;
}
/* NULL is fine. */
void row_places_give(struct heap *heap, struct row_places *p);

#endif
