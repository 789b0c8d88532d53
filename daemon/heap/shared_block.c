#include "daemon/heap/shared_block.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"
#include "daemon/heap/heap_inside.h"
#include "daemon/heap/releaser.h"
#include "daemon/heap/told.h"

/* Addresses of blocks that are lent: a quarter of those that bodies which have only begun have. */
#define LENT_BYTES_MAX (UINT64_C(16) << 30)
enum { PAGE = 4096, PIECE_BYTES = 1 << 20 };

struct shared_block {
    struct heap *heap;
    struct heap_block block;
    atomic_uint holds, expected;
    atomic_bool ended;
    bool lent;
};

struct shared_block *shared_block_make(struct heap *h, const struct heap_block *b)
{
    struct shared_block *s = fault_here("heap: shared block") ? NULL : calloc(1, sizeof *s);
    if (!s) return NULL;
    s->heap = h;
    s->block = *b;
    atomic_init(&s->holds, 1);
    return s;
}

void shared_block_tell(const struct shared_block *s, struct heap_told *out)
{
    heap_tell(s->heap, &s->block, out);
}

bool shared_block_lend(struct shared_block *s)
{
    struct heap *h = s->heap;
    uint64_t span = heap_span(h, &s->block);
    if (s->lent) return true;
    pthread_mutex_lock(&h->lock);
    s->lent = h->lent_bytes + span <= LENT_BYTES_MAX;
    if (s->lent) h->lent_bytes += span;
    pthread_mutex_unlock(&h->lock);
    return s->lent;
}

void shared_block_hold(struct shared_block *s)
{
    atomic_fetch_add_explicit(&s->holds, 1, memory_order_relaxed);
}

static void drop(struct shared_block *s)
{
    struct heap *h = s->heap;
    if (atomic_fetch_sub_explicit(&s->holds, 1, memory_order_acq_rel) > 1) return;
    pthread_mutex_lock(&h->lock);
    if (s->lent) h->lent_bytes -= heap_span(h, &s->block);
    bool is_whole = !h->records[s->block.offset / HEAP_UNIT].cut;
    pthread_mutex_unlock(&h->lock);
    if (is_whole)
        heap_give(h, &s->block);
    else
        heap_release(h, &s->block);
    free(s);
}

void shared_block_end(struct shared_block *s, struct heap_block *b)
{
    s->block = *b;
    *b = (struct heap_block){0};
    atomic_store_explicit(&s->ended, true, memory_order_release);
    drop(s);
}

/* The pages that lie inside [data, data + bytes) go back to the system. */
static void cut(struct shared_block *s, void *data, uint64_t bytes)
{
    struct heap *h = s->heap;
    uint64_t first = (uint64_t)((char *)data - h->base), end = (first + bytes) / PAGE * PAGE;
    first = (first + PAGE - 1) / PAGE * PAGE;
    while (first < end) {
        uint64_t n = end - first < PIECE_BYTES ? end - first : PIECE_BYTES;
        yield_check();
        releaser_return(h, first, n);
        pthread_mutex_lock(&h->lock);
        heap_discount(h, (uint32_t)(s->block.offset / HEAP_UNIT), n);
        pthread_mutex_unlock(&h->lock);
        first += n;
    }
}

void shared_block_expect(struct shared_block *s)
{
    atomic_fetch_add_explicit(&s->expected, 1, memory_order_relaxed);
}

bool shared_block_is_expected(const struct shared_block *s)
{
    return atomic_load_explicit(&s->expected, memory_order_relaxed) >=
           atomic_load_explicit(&s->holds, memory_order_relaxed);
}

void shared_block_give(struct shared_block *s, void *data, uint64_t bytes)
{
    if (atomic_load_explicit(&s->ended, memory_order_acquire) && !shared_block_is_expected(s))
        cut(s, data, bytes);
    atomic_fetch_sub_explicit(&s->expected, 1, memory_order_relaxed);
    drop(s);
}
