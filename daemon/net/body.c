#include "daemon/net/body.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/fault.h"

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

static enum status take(struct body_pool *p, uint64_t bytes, uint32_t owner, bool past_quota,
                        struct body **out)
{
    struct body *b = p->free;
    if (b) {
        p->free = b->next;
    } else {
        b = fault_here("body: descriptor") ? NULL : malloc(sizeof *b);
        if (!b) return STATUS_RESOURCE_EXHAUSTED;
    }
    *b = (struct body){.holds = 1, .pool = p};
    enum status st = past_quota ? heap_take_past_quota(p->heap, bytes, owner, &b->block)
                                : heap_take(p->heap, bytes, owner, &b->block);
    if (st) {
        b->next = p->free;
        p->free = b;
        return st;
    }
    p->live++;
    *out = b;
    return STATUS_OK;
}

enum status body_take(struct body_pool *p, uint64_t bytes, uint32_t owner, struct body **out)
{
    return take(p, bytes, owner, false, out);
}

enum status body_take_past_quota(struct body_pool *p, uint64_t bytes, uint32_t owner,
                                 struct body **out)
{
    return take(p, bytes, owner, true, out);
}

void body_drop(struct body *b)
{
    if (!b || --b->holds) return;
    struct body_pool *p = b->pool;
    heap_give(p->heap, &b->block);
    p->live--;
    b->next = p->free;
    p->free = b;
}
