/* told: a block in use, as one process tells it another (adopt.h).
 * Owner:  nobody.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_HEAP_TOLD_H
#define ENGRAM_HEAP_TOLD_H

#include "daemon/heap/heap.h"

struct heap_told {
    uint64_t offset, bytes;
    uint64_t charged; /* to its owner */
    uint64_t cut;     /* bytes of pages that are gone already (shared_block.h) */
    uint64_t order;   /* it has HEAP_UNIT << order bytes of addresses */
};

void heap_tell(struct heap *h, const struct heap_block *b, struct heap_told *out);

#endif
