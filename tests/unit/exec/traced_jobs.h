/* traced_jobs: jobs that note what the workers do with them, and the queue that they come back by.
 * Owner:  the test's process.
 * Thread: the test's; the parts run on the workers.
 * Errors: none; what fails, fails the test. */
#ifndef ENGRAM_TESTS_TRACED_JOBS_H
#define ENGRAM_TESTS_TRACED_JOBS_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/exec/operation.h"
#include "daemon/exec/workers.h"

enum { PARTS_MAX = 64 };

/* What happened to one job. */
struct trace {
    atomic_uint prepared, finished, parts[PARTS_MAX], part_count;
    atomic_bool finished_early; /* finish ran beside or before a part */
    atomic_uint inside;
    uint32_t parts_wanted; /* what prepare sets; 0: leaves it */
    enum status prepare_status, finish_status;
    atomic_bool *gate;   /* parts wait until this is true */
    atomic_bool entered; /* a part is waiting or has run */
    struct job *cancel_at_part_0;
    useconds_t part_us;  /* what a part takes of its worker's time */
    useconds_t still_us; /* how long it stands still */
};

static struct done done;
static pthread_mutex_t bell_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static uint32_t rings;

static inline void ring(void *owner)
{
    pthread_mutex_lock(&bell_lock);
    rings++;
    pthread_cond_signal(&bell);
    pthread_mutex_unlock(&bell_lock);
}

/* Takes back count jobs, checks that each came once; fails after 20 s. */
static inline void await(struct job **out, size_t count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 300;
    for (size_t got = 0;;) {
        for (struct job *j = done_take(&done), *next; j; j = next) {
            next = j->next;
            cr_assert(got < count, "more jobs came back than were given");
            out[got++] = j;
        }
        if (got == count) return;
        pthread_mutex_lock(&bell_lock);
        int rc = 0;
        while (!rings && !rc)
            rc = pthread_cond_timedwait(&bell, &bell_lock, &until);
        rings = 0;
        pthread_mutex_unlock(&bell_lock);
        cr_assert_eq(rc, 0, "%zu of %zu jobs never came back", count - got, count);
    }
}

static inline struct trace *trace_of(struct job *j)
{
    return (struct trace *)(uintptr_t)j->plan.words[0];
}

static inline enum status prepare(struct job *j)
{
    struct trace *t = trace_of(j);
    atomic_fetch_add(&t->prepared, 1);
    if (t->parts_wanted) j->plan.parts = t->parts_wanted;
    if (!t->prepare_status) return STATUS_OK;
    return failure_set(&j->failure, t->prepare_status, DETAIL_NOT_FINITE, "rows: row 3");
}

static inline void run_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct trace *t = trace_of(j);
    atomic_fetch_add(&t->inside, 1);
    atomic_store(&t->entered, true);
    while (t->gate && !atomic_load(t->gate))
        sched_yield();
    if (t->still_us) usleep(t->still_us);
    for (uint64_t until_ns = clock_thread_ns() + t->part_us * UINT64_C(1000);
         t->part_us && clock_thread_ns() < until_ns;)
        continue;
    if (atomic_load(&t->finished)) atomic_store(&t->finished_early, true);
    if (part == 0 && t->cancel_at_part_0) atomic_store(&t->cancel_at_part_0->cancelled, true);
    atomic_fetch_add(&t->parts[part], 1);
    atomic_fetch_add(&t->part_count, 1);
    atomic_fetch_sub(&t->inside, 1);
}

static inline void finish(struct job *j)
{
    struct trace *t = trace_of(j);
    if (atomic_load(&t->inside)) atomic_store(&t->finished_early, true);
    atomic_fetch_add(&t->finished, 1);
    if (t->finish_status)
        failure_set(&j->failure, t->finish_status, DETAIL_UNKNOWN_ID, "ids: number 5");
}

static inline enum status plan(struct job *j)
{
    if (j->request.k == 0)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K, "k");
    j->plan.prepare = j->request.k == 1 ? NULL : prepare;
    j->plan.run_part = run_part;
    j->plan.finish = j->request.k == 1 ? NULL : finish;
    j->plan.parts = (uint32_t)j->request.limit;
    return STATUS_OK;
}

static const struct operation_ops test_operation = {.plan = plan};

static inline struct backend *start(uint32_t count)
{
    struct backend *b = NULL;
    done = (struct done){.wake = ring};
    cr_assert_eq(workers_create(count, false, &done, &b), STATUS_OK);
    return b;
}

static inline struct job *make(struct trace *t, uint32_t parts)
{
    struct job *j = calloc(1, sizeof *j);
    j->operation = OPERATION_KNN;
    j->ops = &test_operation;
    j->request.k = 2;
    j->request.limit = parts;
    j->plan.words[0] = (uintptr_t)t;
    return j;
}

static inline void expect_whole(const struct trace *t, uint32_t parts)
{
    cr_assert_eq(t->prepared, 1);
    cr_assert_eq(t->finished, 1);
    cr_assert_eq(t->part_count, parts);
    for (uint32_t i = 0; i < parts; i++)
        cr_assert_eq(t->parts[i], 1, "part %u ran %u times", i, t->parts[i]);
    cr_assert_not(t->finished_early);
}

#endif
