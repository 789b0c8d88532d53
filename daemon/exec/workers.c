#include "daemon/exec/workers.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/exec/steps.h"
#include "daemon/exec/operation.h"

/* A job that takes longer than this since it began is a long one. */
#define SHORT_NS UINT64_C(10000000)

struct job_list {
    struct job *head, *tail;
    uint64_t spent_ns; /* time that all workers spent on its jobs since both lists last had some */
};

struct workers {
    struct backend backend;
    struct done *done;
    pthread_mutex_t lock;
    pthread_cond_t work;
    /* Jobs with parts to claim, oldest first; guarded by lock. */
    struct job_list jobs, long_jobs;
    uint32_t sleeping; /* guarded by lock */
    bool stop;         /* guarded by lock */
    uint32_t count;
    pthread_t threads[];
};

struct worker_start {
    struct workers *workers;
    uint32_t number;
    int processor; /* -1: any */
};

static void list_remove(struct job_list *l, struct job *j)
{
    if (j->previous)
        j->previous->next = j->next;
    else
        l->head = j->next;
    if (j->next)
        j->next->previous = j->previous;
    else
        l->tail = j->previous;
    j->next = j->previous = NULL;
}

static void list_prepend(struct job_list *l, struct job *j)
{
    j->previous = NULL;
    j->next = l->head;
    if (l->head)
        l->head->previous = j;
    else
        l->tail = j;
    l->head = j;
}

static void list_append(struct job_list *l, struct job *j)
{
    j->next = NULL;
    j->previous = l->tail;
    if (l->tail)
        l->tail->next = j;
    else
        l->head = j;
    l->tail = j;
}

/* Claims the next part of j, the first job of the list; called under the lock. */
static uint32_t claim(struct job_list *l, struct job *j)
{
    uint32_t part = atomic_load_explicit(&j->next_part, memory_order_relaxed);
    atomic_store_explicit(&j->next_part, part + 1, memory_order_relaxed);
    if (part + 1 == j->parts.count) list_remove(l, j);
    return part;
}

static bool has_begun(struct job *j)
{
    return atomic_load_explicit(&j->parts_left, memory_order_relaxed) != 0;
}

/* Chooses the list whose oldest job is next; called under the lock. While both have jobs, long
 * jobs and others get the same time. */
static struct job_list *choose(struct workers *w, uint64_t now_ns)
{
    struct job *j = w->jobs.head;
    if (j && has_begun(j) && now_ns > j->begun_ns + SHORT_NS) {
        list_remove(&w->jobs, j);
        list_append(&w->long_jobs, j);
    }
    if (!w->jobs.head || !w->long_jobs.head) {
        w->jobs.spent_ns = w->long_jobs.spent_ns = 0;
        return w->jobs.head ? &w->jobs : &w->long_jobs;
    }
    return w->jobs.spent_ns <= w->long_jobs.spent_ns ? &w->jobs : &w->long_jobs;
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
    atomic_store_explicit(&j->next_part, 1, memory_order_relaxed);
    if (parts == 1) return true;
    pthread_mutex_lock(&w->lock);
    list_prepend(&w->jobs, j);
    uint32_t wanted = parts - 1 < w->sleeping ? parts - 1 : w->sleeping;
    for (uint32_t i = 0; i < wanted; i++)
        pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    return true;
}

/* Runs a part; the thread that ends the last part goes on with the job. */
static void run_part(struct workers *w, struct job *j, uint32_t part, uint32_t worker)
{
    for (;;) {
        steps_try_part(j, part, worker);
        if (atomic_fetch_sub_explicit(&j->parts_left, 1, memory_order_acq_rel) > 1) return;
        if (!advance(w, j)) return;
        part = 0;
    }
}

static void work(struct workers *w, uint32_t worker)
{
    uint64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&w->lock);
    for (;;) {
        struct job_list *list = choose(w, now_ns);
        struct job *j = list->head;
        if (!j) {
            if (w->stop) break;
            w->sleeping++;
            pthread_cond_wait(&w->work, &w->lock);
            w->sleeping--;
            now_ns = clock_now_ns();
            continue;
        }
        bool fresh = !has_begun(j);
        uint32_t part = 0;
        if (fresh)
            list_remove(list, j);
        else
            part = claim(list, j);
        pthread_mutex_unlock(&w->lock);
        if (fresh) j->begun_ns = now_ns;
        if (!fresh || advance(w, j)) run_part(w, j, part, worker);
        uint64_t then_ns = now_ns;
        now_ns = clock_now_ns();
        pthread_mutex_lock(&w->lock);
        list->spent_ns += now_ns - then_ns;
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
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : count > WORKERS_MAX ? WORKERS_MAX : (uint32_t)count;
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
    list_append(&w->jobs, j);
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
    if (pthread_create(&w->threads[w->count], NULL, worker_main, start)) {
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
    /* Only the loop handles signals. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = true;
    for (uint32_t i = 0; i < count && started; i++)
        started = start_worker(w, pin);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!started) {
        workers_destroy(&w->backend);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    *out = &w->backend;
    return STATUS_OK;
}
