/* outside: memory that is not the heap's own, of malloc or mappings, and holds what is stored: ids,
 * norms, indexes, names, the structs of empty collections and spaces. It counts towards the heap's
 * bound and its owner's quota as large blocks that stay do, those of owner 0 as small ones.
 * Owner:  who holds the memory; the count lies beside it.
 * Thread: any; one short lock inside, and no wait.
 * Errors: outside_count: as heap_take_fresh, but never UNAVAILABLE: what is on its way back to the
 *         system counts as gone. */
#ifndef ENGRAM_HEAP_OUTSIDE_H
#define ENGRAM_HEAP_OUTSIDE_H

#include "daemon/heap/heap.h"

/* All zero: nothing is counted. heap NULL: nothing ever is. */
struct outside {
    struct heap *heap;
    uint32_t owner;
    uint64_t bytes;
};

/* From now on so many bytes are there. To have fewer never fails. Errors: the count is as
 * before. */
enum status outside_count(struct outside *o, uint64_t bytes);
void outside_end(struct outside *o);

#endif
