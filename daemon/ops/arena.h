/* arena: memory of the heap for what nobody knows the size of beforehand, in pieces that are given
 * back all at once.
 * Owner:  the operation whose scratch holds it.
 * Thread: one at a time.
 * Errors: arena_take: NULL, and `refused` says why (heap_take's, for heap_refuse). */
#ifndef ENGRAM_OPS_ARENA_H
#define ENGRAM_OPS_ARENA_H

#include "daemon/heap/heap.h"

struct arena {
    struct heap *heap;
    uint32_t owner;
    enum status refused;
    struct arena_block *newest;
    char *at, *end; /* what is left of it */
};

void arena_init(struct arena *a, struct heap *heap, uint32_t owner);
/* 64-byte aligned, contents undefined. */
void *arena_take(struct arena *a, uint64_t bytes);
/* All pieces are given back; the largest block stays for the next. */
void arena_clear(struct arena *a);
void arena_finish(struct arena *a);

#endif
