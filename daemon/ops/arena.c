#include "daemon/ops/arena.h"

/* Blocks grow, so that small results of many sets share one and a large result does not take
 * hundreds. */
enum { HEAD_BYTES = 64, GROWTH_MAX = 8 << 20 };

struct arena_block {
    struct heap_block block;
    struct arena_block *older;
};
_Static_assert(sizeof(struct arena_block) <= HEAD_BYTES, "a block's head fits its place");

void arena_init(struct arena *a, struct heap *heap, uint32_t owner)
{
    *a = (struct arena){.heap = heap, .owner = owner};
}

static void open_block(struct arena *a, struct arena_block *b)
{
    a->at = (char *)b + HEAD_BYTES;
    a->end = (char *)b + b->block.bytes;
}

static bool add_block(struct arena *a, uint64_t bytes)
{
    struct heap_block block;
    uint64_t wanted = a->newest ? 2 * a->newest->block.bytes : 0;
    if (wanted > GROWTH_MAX) wanted = GROWTH_MAX;
    if (wanted < bytes + HEAD_BYTES) wanted = bytes + HEAD_BYTES;
    a->refused = heap_take(a->heap, wanted, a->owner, &block);
    if (a->refused) return false;
    struct arena_block *b = block.data;
    b->block = block;
    b->older = a->newest;
    a->newest = b;
    open_block(a, b);
    return true;
}

void *arena_take(struct arena *a, uint64_t bytes)
{
    if (bytes > UINT64_MAX / 2) {
        a->refused = STATUS_RESOURCE_EXHAUSTED;
        return NULL;
    }
    bytes = (bytes + 63) / 64 * 64;
    if ((!a->newest || bytes > (uint64_t)(a->end - a->at)) && !add_block(a, bytes)) return NULL;
    void *piece = a->at;
    a->at += bytes;
    return piece;
}

static void give_blocks(struct arena *a, const struct arena_block *but)
{
    for (struct arena_block *b = a->newest, *older; b; b = older) {
        older = b->older;
        struct heap_block block = b->block;
        if (b != but) heap_give(a->heap, &block);
    }
}

void arena_clear(struct arena *a)
{
    struct arena_block *largest = a->newest;
    for (struct arena_block *b = a->newest; b; b = b->older)
        if (b->block.bytes > largest->block.bytes) largest = b;
    give_blocks(a, largest);
    a->newest = largest;
    if (!largest) return;
    largest->older = NULL;
    open_block(a, largest);
}

void arena_finish(struct arena *a)
{
    give_blocks(a, NULL);
    a->newest = NULL;
    a->at = a->end = NULL;
}
