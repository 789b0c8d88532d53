#include "daemon/heap/releaser.h"

#include <fcntl.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/thread.h"
#include "daemon/heap/areas.h"

#define PIECE_BYTES (UINT64_C(1) << 20) /* some 0.4 ms */
/* Less is not worth a wake-up. */
#define HANDED_BYTES_MIN (UINT64_C(256) << 10)

/* What the thread that must not wait waits for in one take, at most. */
enum { WAITS_MAX = 4 };
#define WAITED_BYTES_MAX (UINT64_C(1) << 20)

/* ---- takes that are put off ---- */

void heap_never_wait(struct heap *h, void (*freed)(void *owner), void *owner)
{
    pthread_mutex_lock(&h->lock);
    h->hasty.thread = pthread_self();
    h->hasty.freed = freed;
    h->hasty.owner = owner;
    h->hasty.missing_bytes = 0;
    h->hasty.put_off = false;
    pthread_mutex_unlock(&h->lock);
}

bool heap_put_off(struct heap *h)
{
    bool put_off = h->hasty.put_off;
    h->hasty.put_off = false;
    return put_off;
}

bool heap_freed(struct heap *h)
{
    return atomic_load_explicit(&h->hasty.told, memory_order_relaxed) &&
           atomic_exchange(&h->hasty.told, false);
}

bool releaser_may_wait(struct heap *h, uint64_t over, struct patience *p)
{
    if (!h->hasty.freed || !pthread_equal(pthread_self(), h->hasty.thread)) return true;
    if (over <= WAITED_BYTES_MAX && p->waits++ < WAITS_MAX) return true;
    p->ended = h->hasty.put_off = true;
    if (!h->hasty.missing_bytes || over < h->hasty.missing_bytes) h->hasty.missing_bytes = over;
    return false;
}

/* Tells that thread when what it misses has gone back. */
static void note_returned(struct heap *h, uint64_t bytes)
{
    uint64_t *missing = &h->hasty.missing_bytes;
    if (!*missing) return;
    *missing -= bytes < *missing ? bytes : *missing;
    if (*missing && h->bytes_releasing) return;
    *missing = 0;
    atomic_store(&h->hasty.told, true);
    if (h->hasty.freed) h->hasty.freed(h->hasty.owner);
}

/* ---- the thread ---- */

void releaser_return(struct heap *h, uint64_t offset, uint64_t bytes)
{
    const struct heap_area *a = area_of(h, (uint32_t)(offset / HEAP_UNIT));
    off_t at = (off_t)(offset - (uint64_t)a->first_unit * HEAP_UNIT);
    if (atomic_load(&h->left) && a == &h->areas[HEAP_OWN]) return;
    if (fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)bytes))
        memset(h->base + offset, 0, bytes); /* the next owner must find zeros */
}

static void return_pages(struct heap *h, uint32_t unit)
{
    const struct record r = h->records[unit];
    uint64_t offset = (uint64_t)unit * HEAP_UNIT, last = 0;
    for (uint64_t done = 0; done < r.bytes;) {
        uint64_t n = r.bytes - done < PIECE_BYTES ? r.bytes - done : PIECE_BYTES;
        pthread_mutex_unlock(&h->lock);
        releaser_return(h, offset + done, n);
        pthread_mutex_lock(&h->lock);
        done += n;
        h->bytes_releasing -= n;
        if (done < r.bytes) note_returned(h, n);
        pthread_cond_broadcast(&h->released);
        last = n;
    }
    area_give(h, unit, r.order);
    note_returned(h, last);
    pthread_cond_broadcast(&h->released);
}

void releaser_take(struct heap *h, uint32_t unit, uint64_t together)
{
    struct record *r = &h->records[unit];
    h->bytes_releasing += r->bytes;
    if (!h->releaser.runs || together < HANDED_BYTES_MIN) {
        return_pages(h, unit);
        return;
    }
    r->class_next = h->releaser.line;
    h->releaser.line = unit;
    pthread_cond_signal(&h->releaser.handed);
}

static void *releaser_main(void *heap)
{
    struct heap *h = heap;
    pthread_setname_np(pthread_self(), "heap");
    pthread_mutex_lock(&h->lock);
    while (!h->releaser.stops) {
        uint32_t unit = h->releaser.line;
        if (unit == NONE) {
            pthread_cond_wait(&h->releaser.handed, &h->lock);
            continue;
        }
        h->releaser.line = h->records[unit].class_next;
        return_pages(h, unit);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

enum status heap_start_releaser(struct heap *h)
{
    if (fault_here("heap: releaser") || thread_start(&h->releaser.thread, releaser_main, h))
        return STATUS_RESOURCE_EXHAUSTED;
    pthread_mutex_lock(&h->lock);
    h->releaser.runs = true;
    pthread_mutex_unlock(&h->lock);
    return STATUS_OK;
}

void releaser_stop(struct heap *h)
{
    pthread_mutex_lock(&h->lock);
    bool runs = h->releaser.runs;
    h->releaser.stops = true;
    h->releaser.runs = false;
    pthread_cond_signal(&h->releaser.handed);
    pthread_mutex_unlock(&h->lock);
    if (runs) pthread_join(h->releaser.thread, NULL);
}
