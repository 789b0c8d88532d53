#include "daemon/heap/cache.h"

#include "daemon/heap/areas.h"
#include "daemon/heap/releaser.h"

enum { CACHE_SEARCH_MAX = 32 };
/* Up to this size, clearing the previous owner's bytes is cheaper than punching a hole and
 * faulting fresh pages in. */
#define CLEAR_BYTES_MAX (UINT64_C(1) << 20)

void cache_push(struct heap *h, uint32_t unit)
{
    struct record *r = &h->records[unit];
    uint32_t *head = &area_of(h, unit)->class_head[r->order];
    r->class_previous = r->age_previous = NONE;
    r->class_next = *head;
    if (r->class_next != NONE) h->records[r->class_next].class_previous = unit;
    *head = unit;
    r->age_next = h->age_head;
    if (r->age_next != NONE)
        h->records[r->age_next].age_previous = unit;
    else
        h->age_tail = unit;
    h->age_head = unit;
    h->usage.bytes_cached += r->bytes;
}

static void cache_unlink(struct heap *h, uint32_t unit)
{
    struct record *r = &h->records[unit];
    if (r->class_previous == NONE)
        area_of(h, unit)->class_head[r->order] = r->class_next;
    else
        h->records[r->class_previous].class_next = r->class_next;
    if (r->class_next != NONE) h->records[r->class_next].class_previous = r->class_previous;
    if (r->age_previous == NONE)
        h->age_head = r->age_next;
    else
        h->records[r->age_previous].age_next = r->age_next;
    if (r->age_next == NONE)
        h->age_tail = r->age_previous;
    else
        h->records[r->age_next].age_previous = r->age_previous;
    h->usage.bytes_cached -= r->bytes;
}

uint32_t cache_take(struct heap *h, const struct heap_area *area, uint32_t order, uint32_t owner,
                    bool *clear)
{
    uint32_t unit = owner ? area->class_head[order] : NONE;
    for (size_t i = 0; unit != NONE && i < CACHE_SEARCH_MAX; i++) {
        if (h->records[unit].owner == owner) break;
        unit = h->records[unit].class_next;
    }
    if (unit != NONE && h->records[unit].owner != owner) unit = NONE;
    *clear = false;
    if (unit == NONE && (uint64_t)HEAP_UNIT << order <= CLEAR_BYTES_MAX) {
        unit = area->class_head[order];
        *clear = unit != NONE;
    }
    if (unit != NONE) cache_unlink(h, unit);
    return unit;
}

void cache_trim(struct heap *h, uint64_t keep_bytes)
{
    uint64_t cached = h->usage.bytes_cached, over = cached > keep_bytes ? cached - keep_bytes : 0;
    while (h->usage.bytes_cached > keep_bytes) {
        uint32_t unit = h->age_tail;
        uint64_t bytes = h->records[unit].bytes;
        cache_unlink(h, unit);
        releaser_take(h, unit, bytes > over ? bytes : over);
    }
}

/* Hands over so much that `bytes` will be on their way. */
static void release_more(struct heap *h, uint64_t bytes)
{
    uint64_t cached = h->usage.bytes_cached;
    uint64_t more = bytes > h->bytes_releasing ? bytes - h->bytes_releasing : 0;
    cache_trim(h, more < cached ? cached - more : 0);
}

bool cache_release_any(struct heap *h, uint64_t bytes, struct patience *p)
{
    uint64_t cached = h->usage.bytes_cached;
    if (cached && !(h->releaser.runs && h->bytes_releasing)) {
        cache_trim(h, bytes < cached ? cached - bytes : 0);
        return true;
    }
    if (!h->bytes_releasing) return false;
    if (!releaser_may_wait(h, bytes, p)) {
        release_more(h, bytes);
        return false;
    }
    pthread_cond_wait(&h->released, &h->lock);
    return true;
}
