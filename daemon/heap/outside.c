#include "daemon/heap/outside.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/heap/cache.h"
#include "daemon/heap/heap_inside.h"

enum { REQUESTS_SHARE = 16 }; /* of a quota, as heap_take_fresh leaves it to requests */

/* Under the lock. */
static enum status more(struct heap *h, uint32_t owner, uint64_t bytes)
{
    struct heap_usage *u = &h->usage;
    uint64_t bound = u->bytes_max - (owner ? h->reserve_bytes : 0);
    struct account *a = owner ? account_make(&h->accounts, owner) : NULL;
    if (owner && !a) return STATUS_RESOURCE_EXHAUSTED;
    uint64_t quota = a ? a->bytes_max - a->bytes_max / REQUESTS_SHARE + a->bytes_lent : 0;
    enum status st = STATUS_OK;
    if (a && a->bytes_max && a->bytes_used + bytes > quota)
        st = STATUS_PERMISSION_DENIED;
    else if (u->bytes_used + bytes > bound)
        st = STATUS_RESOURCE_EXHAUSTED;
    if (st) {
        if (a) account_settle(&h->accounts, a);
        return st;
    }
    if (a) a->bytes_used += bytes;
    u->bytes_used += bytes;
    u->bytes_asked += bytes;
    u->bytes_outside += bytes;
    if (u->bytes_used > u->bytes_peak) u->bytes_peak = u->bytes_used;
    /* the lock may be dropped meanwhile */
    if (u->bytes_used + u->bytes_cached > bound) cache_trim(h, bound - u->bytes_used);
    return STATUS_OK;
}

/* Under the lock. */
static void fewer(struct heap *h, uint32_t owner, uint64_t bytes)
{
    struct account *a = owner && bytes ? account_find(&h->accounts, owner) : NULL;
    assert(h->usage.bytes_outside >= bytes && (!a || a->bytes_used >= bytes));
    h->usage.bytes_used -= bytes;
    h->usage.bytes_asked -= bytes;
    h->usage.bytes_outside -= bytes;
    if (!a) return;
    a->bytes_used -= bytes;
    account_settle(&h->accounts, a);
}

static enum status try_more(struct outside *o, uint64_t bytes)
{
    pthread_mutex_lock(&o->heap->lock);
    enum status st = more(o->heap, o->owner, bytes);
    pthread_mutex_unlock(&o->heap->lock);
    return st;
}

enum status outside_count(struct outside *o, uint64_t bytes)
{
    struct heap *h = o->heap;
    enum status st = STATUS_OK;
    if (!h) return STATUS_OK;
    if (bytes > o->bytes) {
        uint64_t by = bytes - o->bytes;
        if (fault_here("heap: outside")) return STATUS_RESOURCE_EXHAUSTED;
        st = try_more(o, by);
        if (st && h->spare &&
            h->spare(h->spare_owner, st == STATUS_PERMISSION_DENIED ? o->owner : 0, by))
            st = try_more(o, by);
    } else {
        pthread_mutex_lock(&h->lock);
        fewer(h, o->owner, o->bytes - bytes);
        pthread_mutex_unlock(&h->lock);
    }
    if (!st) o->bytes = bytes;
    return st;
}

void outside_end(struct outside *o)
{
    (void)outside_count(o, 0);
}
