/* shadows: who holds which shadow, and the list of all of them, for those who want their memory. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/collection_inside.h"

/* ---- who holds a shadow ---- */

bool shadow_hold(struct segment_shadow *s)
{
    uint32_t state = atomic_load_explicit(&s->state, memory_order_acquire);
    while (state & SHADOW_READY)
        if (atomic_compare_exchange_weak_explicit(&s->state, &state, state + 1,
                                                  memory_order_acquire, memory_order_acquire))
            return true;
    return false;
}

void shadow_leave(struct segment_shadow *s)
{
    atomic_fetch_sub_explicit(&s->state, 1, memory_order_release);
}

bool shadow_seize(struct segment_shadow *s)
{
    for (;;) {
        uint32_t ready = SHADOW_READY;
        if (atomic_compare_exchange_strong_explicit(&s->state, &ready, SHADOW_BUSY,
                                                    memory_order_acquire, memory_order_relaxed))
            return true;
        if (!(ready & SHADOW_READY) && ready != SHADOW_BUSY) return false;
        sched_yield();
    }
}

bool shadow_try_seize(struct segment_shadow *s)
{
    uint32_t ready = SHADOW_READY;
    return atomic_compare_exchange_strong_explicit(&s->state, &ready, SHADOW_BUSY,
                                                   memory_order_acquire, memory_order_relaxed);
}

void shadow_give_back(struct segment_shadow *s, bool there)
{
    atomic_store_explicit(&s->state, there ? SHADOW_READY : 0, memory_order_release);
}

/* ---- checksums: of a row, so that one row can be coded anew ---- */

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32, h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

static uint64_t row_checksum(uint32_t dimension, const struct segment_shadow *s, size_t row)
{
    size_t stride = shadow_stride(dimension);
    const int8_t *codes = s->places.codes + row * stride;
    uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, row};
    for (size_t i = 0; i < stride; i += sizeof lanes)
        for (size_t lane = 0; lane < 8; lane++) {
            uint64_t eight;
            memcpy(&eight, codes + i + lane * sizeof eight, sizeof eight);
            lanes[lane] = (lanes[lane] ^ eight) * UINT64_C(0x9e3779b97f4a7c15);
            lanes[lane] ^= lanes[lane] >> 29;
        }
    float beside[4] = {s->places.scales[row], s->places.losts[row], s->places.lengths[row], 0};
    uint64_t sum = 0, two[2];
    memcpy(two, beside, sizeof two);
    for (size_t lane = 0; lane < 8; lane++)
        sum = mix(sum + lanes[lane]);
    return mix(mix(sum + two[0]) + two[1]);
}

uint64_t shadow_checksum(uint32_t dimension, const struct segment_shadow *s, size_t first,
                         size_t end)
{
    uint64_t sum = 0;
    for (size_t row = first; row < end; row++)
        sum += row_checksum(dimension, s, row);
    return sum;
}

/* ---- what shadows lose, in all ---- */

/* Of a shadow that is the caller's. */
static void count(struct segment_shadow *s, int sign)
{
    if (!s->of) return;
    struct collection_shadow *c = &s->of->shadow;
    uint64_t rows = atomic_load_explicit(&s->rows, memory_order_relaxed);
    c->rows += (uint64_t)sign * rows;
    c->bytes += (uint64_t)sign * s->block.bytes;
    shadow_add(&c->lost, sign * s->lost);
    shadow_add(&c->share, sign * s->share);
}

void shadow_list(struct shadows *all, struct segment_shadow *s)
{
    pthread_mutex_lock(&all->lock);
    s->previous = NULL;
    s->next = all->first;
    if (s->next) s->next->previous = s;
    all->first = s;
    count(s, 1);
    all->bytes += s->block.bytes;
    pthread_mutex_unlock(&all->lock);
}

/* Takes a shadow that was seized off the list, under the lock, and gives its memory back. */
void shadow_drop(struct shadows *all, struct segment_shadow *s)
{
    if (all->swept == s) all->swept = s->next;
    if (s->previous)
        s->previous->next = s->next;
    else
        all->first = s->next;
    if (s->next) s->next->previous = s->previous;
    count(s, -1);
    all->bytes -= s->block.bytes;
    heap_give(all->heap, &s->block);
    atomic_store_explicit(&s->asked, 0, memory_order_relaxed);
    shadow_give_back(s, false);
}

/* ---- the store's ---- */

/* Called where memory is refused. owner: whose shadows go; 0: anyone's. */
static bool spare(void *shadows, uint32_t owner, uint64_t bytes)
{
    struct shadows *all = shadows;
    uint64_t before = bytes;
    pthread_mutex_lock(&all->lock);
    for (struct segment_shadow *s = all->first, *next; s && bytes; s = next) {
        next = s->next;
        if (owner && s->owner != owner) continue;
        uint64_t has = s->block.bytes;
        if (!shadow_seize(s)) continue;
        shadow_drop(all, s);
        bytes -= has < bytes ? has : bytes;
    }
    pthread_mutex_unlock(&all->lock);
    return bytes < before;
}

struct shadows *shadows_create(struct heap *heap, const struct vector_kernels *kernels)
{
    struct shadows *s = fault_here("store: shadows") ? NULL : calloc(1, sizeof *s);
    if (!s) return NULL;
    s->heap = heap;
    s->kernels = shadow_choose(kernels->name);
    pthread_mutex_init(&s->lock, NULL);
    heap_on_shortage(heap, spare, s);
    return s;
}

void shadows_destroy(struct shadows *s)
{
    if (!s) return;
    heap_on_shortage(s->heap, NULL, NULL);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void shadows_allow(struct shadows *s, bool allowed)
{
    atomic_store(&s->allowed, allowed);
    if (!allowed) spare(s, 0, UINT64_MAX);
}

uint64_t shadows_sweep(struct shadows *all)
{
    pthread_mutex_lock(&all->lock);
    struct segment_shadow *s = all->swept ? all->swept : all->first;
    if (s && s->of && shadow_hold(s)) {
        uint32_t rows = atomic_load_explicit(&s->rows, memory_order_relaxed);
        uint64_t sum = shadow_checksum(s->of->dimension, s, 0, rows) +
                       shadow_middle_checksum(s->of->dimension, s->middle);
        bool same = sum == s->checksum;
        shadow_leave(s);
        all->swept = s->next;
        if (!same && shadow_seize(s)) {
            shadow_drop(all, s);
            all->differed++;
        }
    } else {
        all->swept = s ? s->next : NULL;
    }
    uint64_t differed = all->differed;
    pthread_mutex_unlock(&all->lock);
    return differed;
}

void shadow_forget(struct shadows *all, struct collection *c)
{
    pthread_mutex_lock(&all->lock);
    for (struct segment_shadow *s = all->first; s; s = s->next)
        if (s->of == c && shadow_seize(s)) {
            count(s, -1);
            s->of = NULL;
            shadow_give_back(s, true);
        }
    pthread_mutex_unlock(&all->lock);
}

void segment_shadow_end(struct segment *segment)
{
    struct segment_shadow *s = &segment->shadow;
    struct shadows *all = s->all;
    if (!atomic_load_explicit(&s->state, memory_order_acquire)) return;
    pthread_mutex_lock(&all->lock);
    if (shadow_seize(s)) shadow_drop(all, s);
    pthread_mutex_unlock(&all->lock);
}
