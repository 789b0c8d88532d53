/* All copiers work on the oldest work first. A copier that finds none spins for a little, because
 * pieces come in quick succession, and then sleeps. */
#include "daemon/gpu/copiers.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/thread.h"

#define SPIN_NS UINT64_C(50000)

struct copiers {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct copy_work *head, *tail; /* works with unclaimed parts; guarded by lock */
    uint32_t sleeping;             /* guarded by lock */
    bool stop;                     /* guarded by lock */
    atomic_uint waiting; /* works in the list, for copiers that spin; changed under lock */
    uint32_t count;
    pthread_t threads[];
};

struct copier_start {
    struct copiers *copiers;
    uint32_t number;
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Claims the next part of the first work; called under the lock. */
static struct copy_work *claim(struct copiers *c, uint32_t *part)
{
    struct copy_work *w = c->head;
    if (!w) return NULL;
    *part = atomic_load_explicit(&w->next, memory_order_relaxed);
    atomic_store_explicit(&w->next, *part + 1, memory_order_relaxed);
    if (*part + 1 == w->parts) {
        c->head = w->after;
        if (!c->head) c->tail = NULL;
        atomic_fetch_sub_explicit(&c->waiting, 1, memory_order_relaxed);
    }
    return w;
}

/* After the last part the work is the caller's again, who may free it. */
static void run(struct copy_work *w, uint32_t part)
{
    w->run(w->owner, part);
    atomic_fetch_sub_explicit(&w->left, 1, memory_order_acq_rel);
}

static void spin(struct copiers *c)
{
    uint64_t until_ns = clock_now_ns() + SPIN_NS;
    do {
        for (unsigned i = 0; i < 32; i++) {
            if (atomic_load_explicit(&c->waiting, memory_order_relaxed)) return;
            pause_briefly();
        }
    } while (clock_now_ns() < until_ns);
}

static void *copier_main(void *argument)
{
    struct copier_start *start = argument;
    struct copiers *c = start->copiers;
    char name[16];
    snprintf(name, sizeof name, "copier %u", (unsigned)start->number);
    pthread_setname_np(pthread_self(), name);
    free(start);

    bool has_spun = false;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        uint32_t part;
        struct copy_work *w = claim(c, &part);
        if (!w && c->stop) break;
        if (!w && has_spun) {
            c->sleeping++;
            pthread_cond_wait(&c->work, &c->lock);
            c->sleeping--;
            has_spun = false;
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        if (w)
            run(w, part);
        else
            spin(c);
        has_spun = !w;
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static bool start_thread(struct copiers *c, uint32_t number)
{
    struct copier_start *start = fault_here("copiers: thread") ? NULL : malloc(sizeof *start);
    if (!start) return false;
    *start = (struct copier_start){c, number};
    int failed = thread_start(&c->threads[number], copier_main, start);
    if (failed) free(start);
    return !failed;
}

enum status copiers_create(uint32_t count, struct copiers **out)
{
    struct copiers *c =
        fault_here("copiers: allocate") ? NULL : calloc(1, sizeof *c + count * sizeof *c->threads);
    if (!c) return STATUS_RESOURCE_EXHAUSTED;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, NULL);
    while (c->count < count) {
        if (!start_thread(c, c->count)) {
            copiers_destroy(c);
            return STATUS_RESOURCE_EXHAUSTED;
        }
        c->count++;
    }
    *out = c;
    return STATUS_OK;
}

void copiers_destroy(struct copiers *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    assert(!c->head);
    c->stop = true;
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
    for (uint32_t i = 0; i < c->count; i++)
        pthread_join(c->threads[i], NULL);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->work);
    free(c);
}

bool copiers_help(struct copiers *c)
{
    uint32_t part;
    struct copy_work *w = c->count ? NULL : claim(c, &part);
    if (w) run(w, part);
    return w;
}

void copiers_start(struct copiers *c, struct copy_work *w)
{
    assert(w->parts >= 1);
    atomic_store_explicit(&w->next, 0, memory_order_relaxed);
    atomic_store_explicit(&w->left, w->parts, memory_order_relaxed);
    w->after = NULL;
    pthread_mutex_lock(&c->lock);
    if (c->tail)
        c->tail->after = w;
    else
        c->head = w;
    c->tail = w;
    atomic_fetch_add_explicit(&c->waiting, 1, memory_order_relaxed);
    uint32_t wake = c->sleeping < w->parts ? c->sleeping : w->parts;
    for (; wake > 0; wake--)
        pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
}

/* Claims the next part of w; called under the lock. False: none is left. */
static bool claim_of(struct copiers *c, struct copy_work *w, uint32_t *part)
{
    *part = atomic_load_explicit(&w->next, memory_order_relaxed);
    if (*part == w->parts) return false;
    atomic_store_explicit(&w->next, *part + 1, memory_order_relaxed);
    if (*part + 1 < w->parts) return true;
    struct copy_work *before = NULL;
    for (struct copy_work *at = c->head; at != w; at = at->after)
        before = at;
    if (before)
        before->after = w->after;
    else
        c->head = w->after;
    if (c->tail == w) c->tail = before;
    atomic_fetch_sub_explicit(&c->waiting, 1, memory_order_relaxed);
    return true;
}

void copiers_finish(struct copiers *c, struct copy_work *w)
{
    for (uint32_t part;;) {
        pthread_mutex_lock(&c->lock);
        bool claimed = claim_of(c, w, &part);
        pthread_mutex_unlock(&c->lock);
        if (!claimed) break;
        run(w, part);
    }
    for (unsigned turns = 0; !copy_work_done(w); turns++) {
        if (turns < 1000)
            pause_briefly();
        else
            sched_yield();
    }
}
