#include "daemon/net/body.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/heap/shared_block.h"

void body_pool_init(struct body_pool *p, struct heap *heap)
{
    *p = (struct body_pool){.heap = heap};
}

void body_pool_finish(struct body_pool *p)
{
    assert(p->live == 0);
    while (p->free) {
        struct body *b = p->free;
        p->free = b->next;
        free(b);
    }
}

enum need { NEED_WHOLE, NEED_PAST_QUOTA, NEED_BEGUN };

static enum status take_block(struct body_pool *p, enum need need, uint64_t bytes, uint64_t begun,
                              uint32_t owner, struct heap_block *out)
{
    switch (need) {
    case NEED_WHOLE: return heap_take(p->heap, bytes, owner, out);
    case NEED_PAST_QUOTA: return heap_take_past_quota(p->heap, bytes, owner, out);
    case NEED_BEGUN: return heap_take_begun(p->heap, bytes, begun, owner, out);
    }
    return STATUS_INTERNAL;
}

static enum status take(struct body_pool *p, enum need need, uint64_t bytes, uint64_t begun,
                        uint32_t owner, struct body **out)
{
    struct body *b = p->free;
    if (b) {
        p->free = b->next;
    } else {
        b = fault_here("body: descriptor") ? NULL : malloc(sizeof *b);
        if (!b) return STATUS_RESOURCE_EXHAUSTED;
    }
    *b = (struct body){.holds = 1, .pool = p};
    enum status st = take_block(p, need, bytes, begun, owner, &b->block);
    if (st) {
        b->next = p->free;
        p->free = b;
        return st;
    }
    if (need == NEED_BEGUN) b->shared = shared_block_make(p->heap, &b->block);
    p->live++;
    *out = b;
    return STATUS_OK;
}

enum status body_take(struct body_pool *p, uint64_t bytes, uint32_t owner, struct body **out)
{
    return take(p, NEED_WHOLE, bytes, bytes, owner, out);
}

enum status body_take_past_quota(struct body_pool *p, uint64_t bytes, uint32_t owner,
                                 struct body **out)
{
    return take(p, NEED_PAST_QUOTA, bytes, bytes, owner, out);
}

enum status body_begin(struct body_pool *p, uint64_t bytes, uint64_t begun, uint32_t owner,
                       struct body **out)
{
    return take(p, NEED_BEGUN, bytes, begun, owner, out);
}

enum status body_grow(struct body *b, uint64_t bytes)
{
    return heap_grow(b->pool->heap, &b->block, bytes);
}

void body_count(struct body *b, struct peer *peer, uint64_t bytes)
{
    b->peer = peer;
    peer->body_bytes += bytes - b->counted;
    b->counted = bytes;
}

void body_drop(struct body *b)
{
    if (!b || --b->holds) return;
    struct body_pool *p = b->pool;
    if (b->shared)
        shared_block_end(b->shared, &b->block);
    else
        heap_give(p->heap, &b->block);
    if (b->peer) b->peer->body_bytes -= b->counted;
    p->live--;
    b->next = p->free;
    p->free = b;
}
