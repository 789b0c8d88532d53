#include "daemon/heap/releaser.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/heap/areas.h"

#define PIECE_BYTES (UINT64_C(1) << 20) /* some 0.4 ms */
/* Less is not worth a wake-up. */
#define HANDED_BYTES_MIN (UINT64_C(256) << 10)

void releaser_return(struct heap *h, uint64_t offset, uint64_t bytes)
{
    const struct heap_area *a = area_of(h, (uint32_t)(offset / HEAP_UNIT));
    off_t at = (off_t)(offset - (uint64_t)a->first_unit * HEAP_UNIT);
    if (fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)bytes))
        memset(h->base + offset, 0, bytes); /* the next owner must find zeros */
}

static void return_pages(struct heap *h, uint32_t unit)
{
    const struct record r = h->records[unit];
    uint64_t offset = (uint64_t)unit * HEAP_UNIT;
    for (uint64_t done = 0; done < r.bytes;) {
        uint64_t n = r.bytes - done < PIECE_BYTES ? r.bytes - done : PIECE_BYTES;
        pthread_mutex_unlock(&h->lock);
        releaser_return(h, offset + done, n);
        pthread_mutex_lock(&h->lock);
        done += n;
        h->bytes_releasing -= n;
        pthread_cond_broadcast(&h->released);
    }
    area_give(h, unit, r.order);
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
    /* Only the loop handles signals. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool failed =
        fault_here("heap: releaser") || pthread_create(&h->releaser.thread, NULL, releaser_main, h);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) return STATUS_RESOURCE_EXHAUSTED;
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
