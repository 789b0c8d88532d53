/* Time in the pipeline: it is the clock's that the test sets, and nobody else's. */
#include <criterion/criterion.h>

#include "daemon/request/finish.h"
#include "daemon/request/pipeline_inside.h"
#include "tests/support/request_rig.h"

#define MS UINT64_C(1000000)

static struct request_rig rig;
static struct rig_space *one;
static struct pipeline *p;

static void begin(void)
{
    request_rig_open(&rig, NULL);
    one = request_rig_space(&rig, "one");
    p = rig.pipeline;
}

TestSuite(deadlines, .init = begin);

static struct job *ask(uint64_t deadline_ns)
{
    return request_rig_ask(&rig, one, deadline_ns, false);
}

static void pass_us(uint64_t us)
{
    rig.now_ns += us * 1000;
    pipeline_expire(p, rig.now_ns);
    pipeline_tick(p);
}

/* ---------------------------------------------------------------- nobody's jobs */

Test(deadlines, a_job_that_has_not_started_is_answered_when_its_time_is_up)
{
    uint64_t start_ns = rig.now_ns;
    scheduler_set_server(&p->scheduler, SERVER_CPU, false, 4, 0);
    ask(start_ns + 100), ask(start_ns + 200), ask(0);
    pipeline_tick(p);
    pipeline_expire(p, start_ns + 99);
    cr_assert_eq(p->in_line, 3, "none is late");
    rig.now_ns = start_ns + 100;
    pipeline_expire(p, rig.now_ns);
    cr_assert_eq(p->in_line, 2);
    rig.now_ns = start_ns + 5000;
    pipeline_expire(p, rig.now_ns);
    cr_assert_eq(p->in_line, 1, "one has no deadline");
    cr_assert_eq(p->stats.deadline_exceeded_total, 2);
    pipeline_abandon(p);
    cr_assert_eq(p->job_count, 0);
    cr_assert_eq(rig.taken_total, 0);
}

/* Somebody looks ten times a second; the loop wakes in between for what runs. */
Test(deadlines, the_loop_wakes_for_a_job_that_runs)
{
    uint64_t start_ns = rig.now_ns, until_ns = start_ns + 150 * MS;
    rig.config.batch_requests = 1;
    rig.config.batch_wait_us = 0;
    pipeline_configure(p);
    ask(start_ns + 900 * MS), ask(0);
    pipeline_tick(p);
    struct job *j = ask(until_ns);
    pipeline_tick(p);
    cr_assert_eq(pipeline_wake_ns(p), UINT64_MAX, "nobody has looked yet");
    rig.now_ns = start_ns + 100 * MS;
    pipeline_expire(p, rig.now_ns);
    cr_assert_eq(pipeline_wake_ns(p), until_ns);
    rig.now_ns = until_ns - 1;
    pipeline_tick(p);
    cr_assert(!atomic_load(&j->cancelled), "before its time");
    rig.now_ns = until_ns;
    pipeline_tick(p);
    cr_assert(atomic_load(&j->cancelled) && j->deadline_passed);
    cr_assert_eq(pipeline_wake_ns(p), start_ns + 900 * MS, "the next one's");
    while (rig.taken_count)
        request_rig_end(&rig, rig.taken[0], rig.now_ns);
    pipeline_expire(p, rig.now_ns);
    cr_assert_eq(pipeline_wake_ns(p), UINT64_MAX);
}

Test(deadlines, a_job_that_runs_is_told_to_stop)
{
    struct job *j = ask(rig.now_ns + 100);
    pipeline_tick(p);
    cr_assert(rig.taken_count == 1 && rig.taken[0] == j);
    rig.now_ns += 100;
    pipeline_expire(p, rig.now_ns);
    cr_assert(atomic_load(&j->cancelled) && j->state == JOB_RUNNING, "the backend still has it");
    cr_assert_eq(p->job_count, 1);
    request_rig_end(&rig, j, rig.now_ns);
    cr_assert_eq(p->job_count, 0);
    cr_assert_eq(p->stats.deadline_exceeded_total, 1);
}

Test(deadlines, a_late_read_is_refused_and_a_late_write_says_what_it_wrote)
{
    for (int writer = 0; writer < 2; writer++) {
        struct job *j = request_rig_ask(&rig, one, rig.now_ns + 100, writer);
        pipeline_tick(p);
        rig.now_ns += 100;
        request_rig_end(&rig, j, rig.now_ns);
        cr_assert_eq(p->stats.deadline_exceeded_total, 1, "the read alone");
    }
    cr_assert_eq(p->stats.operations[OPERATION_KNN].requests, 2);
}

/* ---------------------------------------------------------------- what its client is told */

static void expect_told_late(const uint64_t *ids, uint32_t count)
{
    struct rig_error errors[4];
    cr_assert_eq(request_rig_hear(&rig, one, errors, 4), count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(errors[i].request_id, ids[i]);
        cr_assert_eq(errors[i].code, STATUS_DEADLINE_EXCEEDED);
        cr_assert_eq(errors[i].detail, DETAIL_DEADLINE);
    }
    cr_assert_eq(p->stats.deadline_exceeded_total, count);
}

/* The CPU has all that it may have at once, for longer than the others have time. */
Test(deadlines, who_runs_out_of_time_in_line_is_told_so_and_never_runs)
{
    scheduler_set_server(&p->scheduler, SERVER_CPU, true, 1, 0);
    struct job *ahead = ask(0);
    pipeline_tick(p);
    cr_assert_eq(rig.taken_count, 1);
    request_rig_ask_as(&rig, one, 1, 500);
    request_rig_ask_as(&rig, one, 2, 300);
    pass_us(299);
    expect_told_late(NULL, 0);
    pass_us(1);
    expect_told_late((const uint64_t[]){2}, 1);
    pass_us(200);
    expect_told_late((const uint64_t[]){2, 1}, 2);
    cr_assert_eq(p->in_line, 0);
    request_rig_end(&rig, ahead, rig.now_ns);
    pipeline_tick(p);
    cr_assert_eq(rig.taken_total, 1, "it ran, late as it was");
    cr_assert_eq(p->job_count, 0);
    expect_told_late((const uint64_t[]){2, 1}, 2);
}

/* The CPU could take it just then, before anybody has looked at the clock. */
Test(deadlines, who_is_late_when_its_turn_comes_never_runs)
{
    scheduler_set_server(&p->scheduler, SERVER_CPU, true, 1, 0);
    struct job *ahead = ask(0);
    pipeline_tick(p);
    request_rig_ask_as(&rig, one, 1, 500);
    pipeline_tick(p);
    rig.now_ns += MS;
    request_rig_end(&rig, ahead, rig.now_ns);
    cr_assert_eq(rig.taken_total, 1, "it ran, late as it was");
    expect_told_late((const uint64_t[]){1}, 1);
    cr_assert_eq(p->job_count, 0);
}

Test(deadlines, who_runs_out_of_time_while_running_is_told_so_when_it_has_stopped)
{
    struct job *j = request_rig_ask_as(&rig, one, 1, 500);
    pipeline_tick(p);
    cr_assert_eq(rig.taken_count, 1);
    cr_assert(!atomic_load(&j->cancelled));
    pass_us(500);
    cr_assert(atomic_load(&j->cancelled));
    expect_told_late(NULL, 0);
    request_rig_end(&rig, j, rig.now_ns);
    expect_told_late((const uint64_t[]){1}, 1);
    cr_assert_eq(p->job_count, 0);
}

/* It has its result, and nobody has looked at the clock meanwhile. */
Test(deadlines, whose_result_comes_late_is_told_so)
{
    uint64_t start_ns = rig.now_ns;
    struct job *j = request_rig_ask_as(&rig, one, 1, 500);
    pipeline_tick(p);
    rig.now_ns += 500000;
    request_rig_end(&rig, j, start_ns);
    expect_told_late((const uint64_t[]){1}, 1);
    cr_assert_eq(p->job_count, 0);
}

/* ---------------------------------------------------------------- a job's owner */

struct notes {
    uint32_t done;
    bool refused;
};

static void note_done(void *owner, struct job *j)
{
    struct notes *n = owner;
    n->done++;
    n->refused = j->refused;
    finish_on_done(p, j);
}

Test(job_owner, is_told_once_of_a_run_and_of_a_refusal, .init = begin)
{
    for (int refuses = 0; refuses < 2; refuses++) {
        struct notes notes = {0};
        rig.cpu_refuses = refuses;
        struct job *j = ask(0);
        j->owner = (struct job_owner){note_done, &notes};
        pipeline_tick(p);
        cr_assert_eq(p->running, !refuses);
        if (!refuses) request_rig_end(&rig, j, rig.now_ns);
        cr_assert_eq(notes.done, 1);
        cr_assert_eq(notes.refused, refuses);
        cr_assert(p->running == 0 && p->job_count == 0 && p->in_line == 0);
        cr_assert_eq(p->stats.operations[OPERATION_KNN].errors, (uint64_t)refuses);
    }
    cr_assert_eq(p->scheduler.servers[SERVER_CPU].in_flight, 0);
}
