/* The workers against exec/operation.h's contract, with plans of the test's own. */
#include "daemon/exec/workers.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"
#include "daemon/exec/operation.h"

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
    useconds_t part_us; /* what a part takes */
};

static struct done done;
static pthread_mutex_t bell_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static uint32_t rings;

static void ring(void *owner)
{
    pthread_mutex_lock(&bell_lock);
    rings++;
    pthread_cond_signal(&bell);
    pthread_mutex_unlock(&bell_lock);
}

/* Takes back count jobs, checks that each came once; fails after 20 s. */
static void await(struct job **out, size_t count)
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

static struct trace *trace_of(struct job *j)
{
    return (struct trace *)(uintptr_t)j->plan.words[0];
}

static enum status prepare(struct job *j)
{
    struct trace *t = trace_of(j);
    atomic_fetch_add(&t->prepared, 1);
    if (t->parts_wanted) j->plan.parts = t->parts_wanted;
    if (!t->prepare_status) return STATUS_OK;
    return failure_set(&j->failure, t->prepare_status, DETAIL_NOT_FINITE, "rows: row 3");
}

static void run_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct trace *t = trace_of(j);
    atomic_fetch_add(&t->inside, 1);
    atomic_store(&t->entered, true);
    while (t->gate && !atomic_load(t->gate))
        sched_yield();
    if (t->part_us) usleep(t->part_us);
    if (atomic_load(&t->finished)) atomic_store(&t->finished_early, true);
    if (part == 0 && t->cancel_at_part_0) atomic_store(&t->cancel_at_part_0->cancelled, true);
    atomic_fetch_add(&t->parts[part], 1);
    atomic_fetch_add(&t->part_count, 1);
    atomic_fetch_sub(&t->inside, 1);
}

static void finish(struct job *j)
{
    struct trace *t = trace_of(j);
    if (atomic_load(&t->inside)) atomic_store(&t->finished_early, true);
    atomic_fetch_add(&t->finished, 1);
    if (t->finish_status)
        failure_set(&j->failure, t->finish_status, DETAIL_UNKNOWN_ID, "ids: number 5");
}

static enum status plan(struct job *j)
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

static struct backend *start(uint32_t count)
{
    struct backend *b = NULL;
    done = (struct done){.wake = ring};
    cr_assert_eq(workers_create(count, false, &done, &b), STATUS_OK);
    return b;
}

static struct job *make(struct trace *t, uint32_t parts)
{
    struct job *j = calloc(1, sizeof *j);
    j->operation = OPERATION_KNN;
    j->ops = &test_operation;
    j->request.k = 2;
    j->request.limit = parts;
    j->plan.words[0] = (uintptr_t)t;
    return j;
}

static void expect_whole(const struct trace *t, uint32_t parts)
{
    cr_assert_eq(t->prepared, 1);
    cr_assert_eq(t->finished, 1);
    cr_assert_eq(t->part_count, parts);
    for (uint32_t i = 0; i < parts; i++)
        cr_assert_eq(t->parts[i], 1, "part %u ran %u times", i, t->parts[i]);
    cr_assert_not(t->finished_early);
}

Test(workers, run_each_part_once_and_finish_once)
{
    for (uint32_t count = 1; count <= 5; count++) {
        struct backend *b = start(count);
        for (uint32_t parts = 1; parts <= PARTS_MAX; parts += 7) {
            struct trace t = {0};
            struct job *j = make(&t, parts), *back;
            cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
            await(&back, 1);
            cr_assert_eq(back, j);
            expect_whole(&t, parts);
            cr_assert_not(j->skipped);
            cr_assert(j->started_ns && j->finished_ns >= j->started_ns);
            free(j);
        }
        b->ops->destroy(b);
    }
}

Test(workers, do_without_prepare_and_finish)
{
    struct backend *b = start(2);
    struct trace t = {0};
    struct job *j = make(&t, 9), *back;
    j->request.k = 1;
    cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    await(&back, 1);
    cr_assert_eq(t.part_count, 9);
    cr_assert_eq(t.prepared + t.finished, 0);
    b->ops->destroy(b);
    free(j);
}

Test(workers, let_prepare_choose_the_parts)
{
    struct backend *b = start(3);
    struct trace t = {.parts_wanted = 33};
    struct job *j = make(&t, 1), *back;
    cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    await(&back, 1);
    expect_whole(&t, 33);
    b->ops->destroy(b);
    free(j);
}

Test(workers, a_failed_plan_leaves_the_job_with_the_caller)
{
    struct backend *b = start(1);
    struct trace t = {0};
    struct job *j = make(&t, 1);
    j->request.k = 0;
    cr_assert_eq(b->ops->submit(b, j), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(j->failure.detail, DETAIL_BAD_K);
    b->ops->destroy(b);
    cr_assert_null(done_take(&done));
    free(j);
}

Test(workers, a_failed_prepare_runs_no_part_but_finishes)
{
    struct backend *b = start(2);
    struct trace t = {.prepare_status = STATUS_INVALID_ARGUMENT};
    struct job *j = make(&t, 20), *back;
    cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    await(&back, 1);
    cr_assert_eq(t.prepared, 1);
    cr_assert_eq(t.part_count, 0);
    cr_assert_eq(t.finished, 1);
    cr_assert_eq(j->failure.code, STATUS_INVALID_ARGUMENT);
    cr_assert_eq(j->failure.detail, DETAIL_NOT_FINITE);
    b->ops->destroy(b);
    free(j);
}

Test(workers, finish_may_fail_the_job)
{
    struct backend *b = start(2);
    struct trace t = {.finish_status = STATUS_NOT_FOUND};
    struct job *j = make(&t, 5), *back;
    cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    await(&back, 1);
    expect_whole(&t, 5);
    cr_assert_eq(j->failure.code, STATUS_NOT_FOUND);
    b->ops->destroy(b);
    free(j);
}

Test(workers, a_cancelled_job_is_skipped_whole)
{
    struct backend *b = start(2);
    struct trace t = {0};
    struct job *j = make(&t, 20), *back;
    atomic_store(&j->cancelled, true);
    cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    await(&back, 1);
    cr_assert_eq(t.prepared + t.part_count, 0);
    cr_assert_eq(t.finished, 1, "finish runs always");
    cr_assert(j->skipped);
    b->ops->destroy(b);
    free(j);
}

Test(workers, a_job_cancelled_under_way_runs_no_more_parts)
{
    struct backend *b = start(1); /* one worker: the order of parts is known */
    struct trace t = {0};
    struct job *j = make(&t, 20), *back;
    t.cancel_at_part_0 = j;
    cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    await(&back, 1);
    cr_assert_eq(t.part_count, 1);
    cr_assert_eq(t.finished, 1);
    cr_assert(j->skipped);
    b->ops->destroy(b);
    free(j);
}

/* Cancelled after its last part began: there is a whole result, and it counts. */
Test(workers, a_cancel_that_comes_too_late_skips_nothing)
{
    struct backend *b = start(1);
    struct trace t = {0};
    struct job *j = make(&t, 1), *back;
    t.cancel_at_part_0 = j;
    cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    await(&back, 1);
    expect_whole(&t, 1);
    cr_assert_not(j->skipped);
    b->ops->destroy(b);
    free(j);
}

Test(workers, share_the_parts_of_one_job)
{
    struct backend *b = start(2);
    atomic_bool gate = false;
    struct trace t = {.gate = &gate};
    struct job *j = make(&t, 2), *back;
    cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    for (int i = 0; i < 3000000 && atomic_load(&t.inside) < 2; i++)
        usleep(100);
    cr_assert_eq(atomic_load(&t.inside), 2, "both parts run at once");
    atomic_store(&gate, true);
    await(&back, 1);
    expect_whole(&t, 2);
    b->ops->destroy(b);
    free(j);
}

/* A job that waits in a part must not hold up another worker. */
Test(workers, run_small_jobs_beside_a_large_one)
{
    struct backend *b = start(2);
    atomic_bool gate = false;
    struct trace slow = {.gate = &gate}, quick = {0};
    struct job *one = make(&slow, 1), *two = make(&quick, 3), *back;
    cr_assert_eq(b->ops->submit(b, one), STATUS_OK);
    cr_assert_eq(b->ops->submit(b, two), STATUS_OK);
    await(&back, 1);
    cr_assert_eq(back, two);
    atomic_store(&gate, true);
    await(&back, 1);
    cr_assert_eq(back, one);
    b->ops->destroy(b);
    free(one);
    free(two);
}

/* One worker, a long job of many parts, and a short one behind it: it must not wait for all. */
Test(workers, run_small_jobs_between_the_parts_of_a_large_one)
{
    struct backend *b = start(1);
    struct trace slow = {.part_us = 3000}, other = {.part_us = 3000}, quick[8] = {{0}};
    struct job *large[2] = {make(&slow, PARTS_MAX), make(&other, PARTS_MAX)}, *back[10];
    struct job *small[8];
    for (int i = 0; i < 2; i++)
        cr_assert_eq(b->ops->submit(b, large[i]), STATUS_OK);
    for (int i = 0; i < 8; i++) {
        small[i] = make(&quick[i], 1);
        cr_assert_eq(b->ops->submit(b, small[i]), STATUS_OK);
    }
    await(back, 10);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(back[i], small[i],
                     "a short job waited for a long one, or overtook a short one");
    cr_assert_eq(back[8], large[0], "long jobs end in the order they came");
    expect_whole(&slow, PARTS_MAX);
    expect_whole(&other, PARTS_MAX);
    b->ops->destroy(b);
    for (int i = 0; i < 10; i++)
        free(back[i]);
}

/* Short jobs that keep coming leave a long one a quarter of the time. */
Test(workers, a_long_job_goes_on_beside_many_short_ones)
{
    enum { SHORT = 200 };
    struct backend *b = start(1);
    static struct trace quick[SHORT];
    struct trace slow = {.part_us = 2000};
    struct job *large = make(&slow, 15), *back[SHORT + 1];
    cr_assert_eq(b->ops->submit(b, large), STATUS_OK);
    for (int i = 0; i < SHORT; i++) {
        quick[i] = (struct trace){.part_us = 1000};
        cr_assert_eq(b->ops->submit(b, make(&quick[i], 1)), STATUS_OK);
    }
    await(back, SHORT + 1);
    cr_assert_neq(back[SHORT], large, "200 ms of short jobs went before 30 ms of a long one");
    b->ops->destroy(b);
    for (int i = 0; i <= SHORT; i++)
        free(back[i]);
}

/* ---------------------------------------------------------------- within a part */

/* A part that lasts until others have ended, and looks up now and then. */
struct lasting {
    atomic_uint others_left;
    atomic_bool inside;
};
static struct lasting lasting;

static void last(struct job *j, uint32_t part, uint32_t worker)
{
    atomic_store(&lasting.inside, true);
    while (atomic_load(&lasting.others_left))
        yield_check();
}

static void end_other(struct job *j)
{
    atomic_fetch_sub(&lasting.others_left, 1);
}

static enum status plan_lasting(struct job *j)
{
    j->plan.run_part = last;
    j->plan.parts = 1;
    return STATUS_OK;
}

static enum status plan_other(struct job *j)
{
    plan(j);
    j->plan.finish = end_other;
    return STATUS_OK;
}

/* One worker: short jobs run inside the part of a long one, which goes on afterwards; and the time
 * that they take is not the long one's. */
Test(workers, short_jobs_interrupt_a_part)
{
    enum { OTHERS = 5 };
    static const struct operation_ops lasts = {.plan = plan_lasting}, other = {.plan = plan_other};
    struct backend *b = start(1);
    struct trace t[OTHERS + 1] = {{0}};
    struct job *long_one = make(&t[OTHERS], 1), *back[OTHERS + 1];
    long_one->ops = &lasts;
    atomic_store(&lasting.others_left, OTHERS);
    cr_assert_eq(b->ops->submit(b, long_one), STATUS_OK);
    while (!atomic_load(&lasting.inside))
        sched_yield();
    for (int i = 0; i < OTHERS; i++) {
        struct job *j = make(&t[i], 3);
        j->ops = &other;
        t[i].part_us = 2000;
        cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    }
    await(back, OTHERS + 1);
    uint64_t others_ns = 0;
    for (int i = 0; i < OTHERS; i++) {
        cr_assert_eq(t[i].part_count, 3);
        others_ns += atomic_load(&back[i]->worked_ns);
        free(back[i]);
    }
    cr_assert_eq(back[OTHERS], long_one);
    cr_assert_leq(atomic_load(&long_one->worked_ns) + others_ns,
                  long_one->finished_ns - long_one->started_ns);
    b->ops->destroy(b);
    free(long_one);
}

Test(workers, destroy_drains)
{
    enum { JOBS = 40 };
    struct backend *b = start(2);
    atomic_bool gate = false;
    static struct trace traces[JOBS];
    struct job *jobs[JOBS], *back[JOBS];
    for (int i = 0; i < JOBS; i++) {
        traces[i] = (struct trace){.gate = &gate};
        jobs[i] = make(&traces[i], 4);
        cr_assert_eq(b->ops->submit(b, jobs[i]), STATUS_OK);
    }
    while (!atomic_load(&traces[0].entered))
        usleep(100);
    atomic_store(&gate, true);
    b->ops->destroy(b);
    await(back, JOBS);
    for (int i = 0; i < JOBS; i++) {
        expect_whole(&traces[i], 4);
        free(jobs[i]);
    }
}

Test(workers, destroy_takes_null_like_the_engine_gives_it)
{
    struct backend *b = NULL;
    done = (struct done){.wake = ring};
    cr_assert_eq(workers_create(1, true, &done, &b), STATUS_OK);
    b->ops->destroy(b);
    b = NULL;
    cr_assert(workers_usable_processors() >= 1);
}

/* Many jobs, cancelled at random by another thread: each comes back once. For the thread
 * sanitizer. */
struct storm {
    struct job **jobs;
    size_t count;
    atomic_bool stop;
};

static void *cancel_at_random(void *argument)
{
    struct storm *s = argument;
    unsigned seed = 3;
    while (!atomic_load(&s->stop)) {
        atomic_store(&s->jobs[(size_t)rand_r(&seed) % s->count]->cancelled, true);
        usleep(50);
    }
    return NULL;
}

Test(workers, survive_a_storm)
{
    enum { JOBS = 2000 };
    struct backend *b = start(4);
    struct trace *traces = calloc(JOBS, sizeof *traces);
    struct job **jobs = calloc(JOBS, sizeof *jobs), **back = calloc(JOBS, sizeof *back);
    unsigned seed = 5;
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = make(&traces[i], 1 + (uint32_t)rand_r(&seed) % PARTS_MAX);
        if (i % 50 == 7) traces[i].prepare_status = STATUS_INVALID_ARGUMENT;
    }
    struct storm s = {.jobs = jobs, .count = JOBS};
    pthread_t canceller;
    cr_assert_eq(pthread_create(&canceller, NULL, cancel_at_random, &s), 0);
    for (int i = 0; i < JOBS; i++)
        cr_assert_eq(b->ops->submit(b, jobs[i]), STATUS_OK);
    await(back, JOBS);
    atomic_store(&s.stop, true);
    pthread_join(canceller, NULL);
    b->ops->destroy(b);
    for (int i = 0; i < JOBS; i++) {
        cr_assert_eq(traces[i].finished, 1);
        cr_assert_not(traces[i].finished_early);
        bool whole = traces[i].part_count == jobs[i]->request.limit;
        cr_assert(whole || jobs[i]->skipped || jobs[i]->failure.code);
        cr_assert(!(whole && jobs[i]->skipped));
        for (int part = 0; part < PARTS_MAX; part++)
            cr_assert(traces[i].parts[part] <= 1);
        free(jobs[i]);
    }
    free(jobs);
    free(back);
    free(traces);
}

Test(workers, cannot_start_and_says_so)
{
    for (uint32_t nth = 1;; nth++) {
        struct backend *b = NULL;
        done = (struct done){.wake = ring};
        fault_arm(nth);
        enum status st = workers_create(3, false, &done, &b);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert(fired ? st == STATUS_RESOURCE_EXHAUSTED && !b : st == STATUS_OK);
        if (b) b->ops->destroy(b);
        if (!fired) {
            cr_assert_eq(nth, 5, "one site for the struct, one for each thread");
            break;
        }
    }
}

/* ---------------------------------------------------------------- a step by itself */

static void step(struct job *j)
{
    j->request.limit++;
}

Test(workers, a_step_runs_once_and_changes_nothing_else)
{
    struct backend *b;
    struct job jobs[8], *back[8];
    memset(jobs, 0, sizeof jobs);
    done = (struct done){.wake = ring};
    cr_assert_eq(workers_create(2, false, &done, &b), STATUS_OK);
    for (int i = 0; i < 8; i++) {
        jobs[i].started_ns = 5;
        atomic_store(&jobs[i].cancelled, i % 2); /* a step decides that for itself */
        workers_run(b, &jobs[i], step);
    }
    await(back, 8);
    b->ops->destroy(b);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(jobs[i].request.limit, 1);
        cr_assert(jobs[i].started_ns == 5 && !jobs[i].finished_ns && !jobs[i].step);
        cr_assert_not(atomic_load(&jobs[i].skipped));
    }
}
