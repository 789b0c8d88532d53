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
#include "tests/unit/exec/traced_jobs.h"

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
