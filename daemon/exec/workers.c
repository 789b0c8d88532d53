#include "daemon/exec/workers.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/thread.h"
#include "daemon/base/yield.h"
#include "daemon/exec/operation.h"
#include "daemon/exec/steps.h"
#include "daemon/exec/work_queue.h"

/* What a worker does in one go before it looks at what others wait for; and how long it may then
 * work for these, in times of that. */
#define PIECE_NS UINT64_C(1000000)
enum { SHORTER_TIMES = 3, INSIDE_MAX = 6 };

/* Written by its worker alone; on a cache line of its own. */
struct pulse {
    atomic_uint beats;
    atomic_bool busy;
    char unused[56];
};

struct workers {
    struct backend backend;
    struct pulse pulses[WORKERS_MAX];
    struct done *done;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct work_queue queue; /* guarded by lock, as the next two */
    uint32_t sleeping;
    bool stop;
    uint32_t count;
    pthread_t threads[];
};

struct worker_start {
    struct workers *workers;
    uint32_t number;
    int processor; /* -1: any */
};

/* A worker, and the jobs of which it runs a part now, each inside the one before. */
struct seat {
    struct yielder yielder;
    struct workers *workers;
    uint32_t number;
    struct job *jobs[INSIDE_MAX];
    uint64_t spent_ns[INSIDE_MAX]; /* of each, on the part that it is in */
    uint32_t depth;
    uint64_t since_ns; /* when it began with what it does, or went on with it */
};

static void beat(const struct seat *s)
{
    atomic_uint *beats = &s->workers->pulses[s->number].beats;
    atomic_store_explicit(beats, atomic_load_explicit(beats, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* A worker that sleeps is not stuck. */
static void set_busy(const struct seat *s, bool busy)
{
    atomic_store_explicit(&s->workers->pulses[s->number].busy, busy, memory_order_relaxed);
}

struct worker_pulse workers_pulse(struct backend *b, uint32_t worker)
{
    const struct pulse *p = &((const struct workers *)b)->pulses[worker];
    return (struct worker_pulse){atomic_load_explicit(&p->busy, memory_order_relaxed),
                                 atomic_load_explicit(&p->beats, memory_order_relaxed)};
}

struct worker_pulse workers_line_pulse(struct backend *b)
{
    struct workers *w = (struct workers *)b;
    struct worker_pulse line = {0};
    for (uint32_t i = 0; i < w->count; i++)
        line.beats += workers_pulse(b, i).beats;
    pthread_mutex_lock(&w->lock);
    line.busy = w->queue.head;
    pthread_mutex_unlock(&w->lock);
    return line;
}

/* Claims the next part of j; called under the lock. */
static uint32_t claim(struct work_queue *q, struct job *j)
{
    uint32_t part = atomic_load_explicit(&j->next_part, memory_order_relaxed);
    atomic_store_explicit(&j->next_part, part + 1, memory_order_relaxed);
    if (part + 1 == j->parts.count) work_queue_remove(q, j);
    return part;
}

static bool has_begun(struct job *j)
{
    return atomic_load_explicit(&j->parts_left, memory_order_relaxed) != 0;
}

/* Prepares the next parts of j, which no other thread has now. True: the caller has the first
 * part, and all others can be claimed. */
static bool advance(struct workers *w, struct job *j)
{
    if (!steps_run(j)) {
        done_push(w->done, j);
        return false;
    }
    uint32_t parts = j->parts.count;
    atomic_store_explicit(&j->parts_left, parts, memory_order_relaxed);
    atomic_store_explicit(&j->progress.parts, parts, memory_order_relaxed);
    atomic_store_explicit(&j->next_part, 1, memory_order_relaxed);
    if (parts == 1) return true;
    pthread_mutex_lock(&w->lock);
    work_queue_add_again(&w->queue, j);
    uint32_t wanted = parts - 1 < w->sleeping ? parts - 1 : w->sleeping;
    for (uint32_t i = 0; i < wanted; i++)
        pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    return true;
}

/* Puts j, whose parts have ended, back in line for its next step. */
static void put_back(struct workers *w, struct job *j)
{
    pthread_mutex_lock(&w->lock);
    work_queue_add_again(&w->queue, j);
    if (w->sleeping) pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

/* True if j has had as much work by now as the job inside of which it runs, which cannot go on. */
static bool has_outgrown(struct seat *s, struct job *j)
{
    if (s->depth < 2) return false;
    struct job *inner = s->jobs[s->depth - 2];
    uint64_t had_ns = atomic_load_explicit(&inner->worked_ns, memory_order_relaxed);
    return work_queue_level(atomic_load_explicit(&j->worked_ns, memory_order_relaxed)) >=
           work_queue_level(had_ns + s->spent_ns[s->depth - 2]);
}

/* Runs a part; the thread that ends the last part goes on with the job, unless it has outgrown the
 * one that it interrupts. */
static void run_part(struct seat *s, struct job *j, uint32_t part)
{
    for (;;) {
        steps_try_part(j, part, s->number);
        beat(s);
        if (atomic_fetch_sub_explicit(&j->parts_left, 1, memory_order_acq_rel) > 1) return;
        if (has_outgrown(s, j)) {
            put_back(s->workers, j);
            return;
        }
        if (!advance(s->workers, j)) return;
        part = 0;
    }
}

/* Takes j's next part, or its first step; called under the lock, which it gives up and takes. */
static void take(struct seat *s, struct job *j)
{
    struct workers *w = s->workers;
    bool fresh = !has_begun(j);
    uint32_t part = 0;
    if (fresh)
        work_queue_remove(&w->queue, j);
    else
        part = claim(&w->queue, j);
    pthread_mutex_unlock(&w->lock);
    beat(s);
    s->spent_ns[s->depth] = 0;
    s->jobs[s->depth++] = j;
    if (!fresh || advance(w, j)) run_part(s, j, part);
    s->depth--;
    beat(s);
    pthread_mutex_lock(&w->lock);
}

/* The worker has done a piece of what it does: now it does what is shorter, for a while. */
static void give_way(struct seat *s, uint64_t now_ns)
{
    struct workers *w = s->workers;
    struct job *inner = s->jobs[s->depth - 1];
    uint64_t own_ns = now_ns - s->since_ns, begun_ns = now_ns;
    uint64_t lent_ns = s->yielder.lent_ns, lends_ns = clock_thread_ns();
    uint64_t spent_ns = s->spent_ns[s->depth - 1] += own_ns;
    pthread_mutex_lock(&w->lock);
    work_queue_spent(&w->queue, inner, own_ns);
    unsigned level =
        work_queue_level(atomic_load_explicit(&inner->worked_ns, memory_order_relaxed) + spent_ns);
    while (now_ns - begun_ns < SHORTER_TIMES * own_ns) {
        struct job *j = work_queue_choose_shorter(&w->queue, level, s->jobs, s->depth);
        if (!j) break;
        uint64_t then_ns = s->since_ns = now_ns;
        take(s, j);
        now_ns = clock_now_ns();
        work_queue_spent(&w->queue, j, now_ns - then_ns);
    }
    pthread_mutex_unlock(&w->lock);
    s->yielder.lent_ns = lent_ns + (clock_thread_ns() - lends_ns);
    s->since_ns = now_ns;
}

static void check_yield(struct yielder *p)
{
    struct seat *s = (struct seat *)p;
    beat(s);
    if (s->depth == INSIDE_MAX) return;
    uint64_t now_ns = clock_now_ns();
    if (now_ns - s->since_ns >= PIECE_NS) give_way(s, now_ns);
}

static void work(struct workers *w, uint32_t worker)
{
    struct seat seat = {.yielder = {.check = check_yield}, .workers = w, .number = worker};
    yield_now = &seat.yielder;
    seat.since_ns = clock_now_ns();
    set_busy(&seat, true);
    pthread_mutex_lock(&w->lock);
    for (;;) {
        struct job *j = work_queue_choose(&w->queue);
        if (j) {
            take(&seat, j);
            uint64_t now_ns = clock_now_ns();
            work_queue_spent(&w->queue, j, now_ns - seat.since_ns);
            seat.since_ns = now_ns;
            continue;
        }
        if (w->stop) break;
        w->sleeping++;
        set_busy(&seat, false);
        pthread_cond_wait(&w->work, &w->lock);
        w->sleeping--;
        beat(&seat);
        set_busy(&seat, true);
        seat.since_ns = clock_now_ns();
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---------------------------------------------------------------- threads */

static void *worker_main(void *argument)
{
    struct worker_start start = *(struct worker_start *)argument;
    free(argument);
    char name[16];
    snprintf(name, sizeof name, "worker %u", start.number);
    pthread_setname_np(pthread_self(), name);
    if (start.processor >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(start.processor, &set);
        /* Some containers refuse this; the workers then run unpinned. */
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
    work(start.workers, start.number);
    return NULL;
}

uint32_t workers_usable_processors(void)
{
    uint32_t count = thread_processors();
    return count > WORKERS_MAX ? WORKERS_MAX : count;
}

/* Returns the nth processor that this process may use, starting over after the last. */
static int nth_processor(uint32_t nth)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) || CPU_COUNT(&set) == 0) return -1;
    nth %= (uint32_t)CPU_COUNT(&set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set) && nth-- == 0) return i;
    return -1;
}

/* ---------------------------------------------------------------- the backend */

static void run_on_workers(struct backend *b, struct job *j, void (*step)(struct job *j))
{
    struct workers *w = (struct workers *)b;
    j->step = step;
    atomic_store_explicit(&j->parts_left, 0, memory_order_relaxed);
    pthread_mutex_lock(&w->lock);
    work_queue_add(&w->queue, j);
    if (w->sleeping) pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

static enum status workers_submit(struct backend *b, struct job *j)
{
    enum status st = j->ops->plan(j);
    if (!st) run_on_workers(b, j, steps_begin_plan);
    return st;
}

void workers_run_here(struct job *j, void (*step)(struct job *j))
{
    j->step = step;
    while (steps_run(j))
        for (uint32_t part = 0; part < j->parts.count; part++)
            steps_try_part(j, part, 0);
}

enum status workers_run_now(struct job *j)
{
    enum status st = j->ops->plan(j);
    if (!st) workers_run_here(j, steps_begin_plan);
    return st;
}

static void workers_destroy(struct backend *b)
{
    struct workers *w = (struct workers *)b;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < w->count; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static const struct backend_ops workers_ops = {
    .name = "cpu",
    .submit = workers_submit,
    .run = run_on_workers,
    .destroy = workers_destroy,
};

static bool start_worker(struct workers *w, bool pin)
{
    struct worker_start *start = fault_here("workers: start") ? NULL : malloc(sizeof *start);
    if (!start) return false;
    *start = (struct worker_start){w, w->count, pin ? nth_processor(w->count) : -1};
    if (thread_start(&w->threads[w->count], worker_main, start)) {
        free(start);
        return false;
    }
    w->count++;
    return true;
}

enum status workers_create(uint32_t count, bool pin, struct done *done, struct backend **out)
{
    assert(count >= 1 && count <= WORKERS_MAX);
    struct workers *w =
        fault_here("workers: allocate") ? NULL : calloc(1, sizeof *w + count * sizeof *w->threads);
    if (!w) return STATUS_RESOURCE_EXHAUSTED;
    w->backend.ops = &workers_ops;
    w->done = done;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    bool started = true;
    for (uint32_t i = 0; i < count && started; i++)
        started = start_worker(w, pin);
    if (!started) {
        workers_destroy(&w->backend);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    *out = &w->backend;
    return STATUS_OK;
}
