/* What is in use, by whom, and what is left; and where other processes find it. */
#include <inttypes.h>

#include "daemon/heap/heap_inside.h"
#include "daemon/heap/order.h"
#include "daemon/heap/told.h"

/* Blocks that are kept for reuse have addresses, too, which a take that needs them gets back. */
static uint64_t largest_run_bytes(const struct heap *h)
{
    const uint32_t *runs = h->areas[HEAP_OWN].buddy.free_runs;
    int order = BUDDY_ORDERS;
    while (order-- && runs[order] == BUDDY_NONE) {
    }
    return order < 0 ? 0 : (uint64_t)HEAP_UNIT << order;
}

struct heap_usage heap_usage(struct heap *h)
{
    pthread_mutex_lock(&h->lock);
    struct heap_usage usage = h->usage;
    usage.bytes_releasing = h->bytes_releasing;
    uint64_t run = largest_run_bytes(h);
    pthread_mutex_unlock(&h->lock);
    uint64_t all = usage.bytes_max, used = usage.bytes_used;
    usage.bytes_free = used < all ? all - used : 0;
    usage.bytes_largest = run < usage.bytes_free ? run : usage.bytes_free;
    return usage;
}

uint64_t heap_room_bytes(struct heap *h)
{
    pthread_mutex_lock(&h->lock);
    uint64_t bound = h->usage.bytes_max - h->reserve_bytes, used = h->usage.bytes_used;
    pthread_mutex_unlock(&h->lock);
    return used < bound ? bound - used : 0;
}

static struct account account_of(struct heap *h, uint32_t owner)
{
    pthread_mutex_lock(&h->lock);
    const struct account *found = owner ? account_find(&h->accounts, owner) : NULL;
    struct account a = found ? *found : (struct account){0};
    pthread_mutex_unlock(&h->lock);
    return a;
}

uint64_t heap_owner_bytes(struct heap *h, uint32_t owner)
{
    return account_of(h, owner).bytes_used;
}

uint64_t heap_owner_bytes_max(struct heap *h, uint32_t owner)
{
    uint64_t quota = account_of(h, owner).bytes_max, all = h->usage.bytes_max;
    return quota && quota < all ? quota : all;
}

enum status heap_refuse(struct heap *h, enum status st, uint32_t owner, const char *what,
                        struct failure *f)
{
    if (st != STATUS_PERMISSION_DENIED)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for %s: the daemon's memory bound is reached", what);
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUOTA,
                       "no memory for %s: the space's quota of %" PRIu64
                       " bytes (quotas.host_mib) is reached",
                       what, account_of(h, owner).bytes_max);
}

int heap_fd(const struct heap *h)
{
    return h->areas[HEAP_OWN].fd;
}

int heap_read_fd(const struct heap *h)
{
    return h->read_fd;
}

int heap_exchange_fd(const struct heap *h)
{
    return h->areas[HEAP_EXCHANGE].fd;
}

uint64_t heap_file_bytes(const struct heap *h)
{
    return h->file_bytes;
}

uint64_t heap_place(const struct heap *h, const void *p)
{
    uintptr_t offset = (uintptr_t)p - (uintptr_t)h->base;
    return offset < heap_file_bytes(h) ? offset : PLACE_NONE;
}

void heap_tell(struct heap *h, const struct heap_block *b, struct heap_told *out)
{
    pthread_mutex_lock(&h->lock);
    const struct record *r = &h->records[b->offset / HEAP_UNIT];
    *out = (struct heap_told){b->offset, r->bytes, r->charged, r->cut, r->order};
    pthread_mutex_unlock(&h->lock);
}
