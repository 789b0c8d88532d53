#include "daemon/heap/ring.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

void ring_init(struct ring *r, struct ring_lines *lines, void *slots, uint32_t slot_bytes,
               uint32_t slot_count, int wake_fd)
{
    assert(slot_count && (slot_count & (slot_count - 1)) == 0);
    *r = (struct ring){.lines = lines,
                       .slots = slots,
                       .slot_bytes = slot_bytes,
                       .slot_count = slot_count,
                       .wake_fd = wake_fd};
}

static void *slot_at(const struct ring *r, uint64_t number)
{
    return r->slots + (number & (r->slot_count - 1)) * r->slot_bytes;
}

/* ---- producer ---- */

uint32_t ring_room(struct ring *r)
{
    r->seen = atomic_load_explicit(&r->lines->released, memory_order_acquire);
    uint64_t used = r->mine - r->seen;
    if (used > r->slot_count) r->broken = true;
    if (!r->broken) return r->slot_count - (uint32_t)used;
    r->seen = r->mine - r->slot_count; /* full from now on */
    return 0;
}

void *ring_reserve(struct ring *r)
{
    if (r->mine - r->seen >= r->slot_count && ring_room(r) == 0) return NULL;
    return slot_at(r, r->mine);
}

void ring_publish(struct ring *r)
{
    r->mine++;
    /* Sequentially consistent with ring_sleep: either the consumer sees this slot, or this side
     * sees that the consumer sleeps. */
    atomic_store(&r->lines->published, r->mine);
    if (!atomic_load(&r->lines->sleeping)) return;
    uint64_t one = 1;
    ssize_t n = write(r->wake_fd, &one, sizeof one); /* a full eventfd wakes the consumer anyway */
    (void)n;
}

/* ---- consumer ---- */

const void *ring_peek(struct ring *r)
{
    if (r->seen == r->mine) {
        r->seen = atomic_load_explicit(&r->lines->published, memory_order_acquire);
        if (r->seen - r->mine > r->slot_count) r->broken = true;
        if (r->broken) r->seen = r->mine;
    }
    return r->seen == r->mine ? NULL : slot_at(r, r->mine);
}

void ring_release(struct ring *r)
{
    r->mine++;
    atomic_store_explicit(&r->lines->released, r->mine, memory_order_release);
}

bool ring_sleep(struct ring *r)
{
    atomic_store(&r->lines->sleeping, 1);
    r->seen = atomic_load(&r->lines->published);
    if (r->seen == r->mine) return true;
    if (r->seen - r->mine > r->slot_count) r->broken = true;
    if (r->broken) r->seen = r->mine;
    atomic_store(&r->lines->sleeping, 0);
    return false;
}

void ring_wake(struct ring *r)
{
    uint64_t count;
    atomic_store(&r->lines->sleeping, 0);
    ssize_t n = read(r->wake_fd, &count, sizeof count);
    (void)n;
}
