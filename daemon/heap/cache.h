/* cache: blocks given back whose pages are kept for the next take, and what returns them to the
 * system.
 * Owner:  the heap.
 * Thread: one at a time (the heap's lock, which the caller holds).
 * Errors: cache_take: NONE; cache_release_any: false. */
#ifndef ENGRAM_HEAP_CACHE_H
#define ENGRAM_HEAP_CACHE_H

#include "daemon/heap/releaser.h"

/* Keeps a block that was given back. */
void cache_push(struct heap *h, uint32_t unit);
/* Takes a block of an area out of the cache for this owner, or returns NONE. *clear: the block's
 * bytes may be another owner's. That is always so for owner 0, which stands for every client that
 * has not said its space yet. */
uint32_t cache_take(struct heap *h, const struct heap_area *area, uint32_t order, uint32_t owner,
                    bool *clear);
/* Hands the blocks that were given back first to the releaser until at most keep_bytes are
 * cached. */
void cache_trim(struct heap *h, uint64_t keep_bytes);
/* Frees cached blocks, of `bytes` together if there are as many, or waits for a piece of one that
 * is being freed. False: there is neither, or the take is put off. */
bool cache_release_any(struct heap *h, uint64_t bytes, struct patience *p);

#endif
