/* arena: memory of the heap for data whose size is not known beforehand, taken in pieces that are
 * all freed at once.
 * Owner:  the operation whose scratch holds it.
 * Thread: one at a time.
 * Errors: arena_take: NULL, and `refused` says why (heap_take's error, for heap_refuse). */
#ifndef ENGRAM_OPS_ARENA_H
#define ENGRAM_OPS_ARENA_H

#include "daemon/heap/heap.h"

struct arena {
    struct heap *heap;
    uint32_t owner;
    enum status refused;
    struct arena_block *newest;
    char *at, *end; /* what is left of the newest block */
};

void arena_init(struct arena *a, struct heap *heap, uint32_t owner);
/* Returns 64-byte aligned, uninitialised memory. */
void *arena_take(struct arena *a, uint64_t bytes);
/* Frees all pieces; the largest block is kept for later ones. */
void arena_clear(struct arena *a);
void arena_finish(struct arena *a);
/* Why one of two gave nothing. */
static inline enum status arena_refusal(const struct arena *a, const struct arena *b)
{
    return a->refused ? a->refused : b->refused ? b->refused : STATUS_RESOURCE_EXHAUSTED;
}

#endif
