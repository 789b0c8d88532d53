/* The workers running steps and the parts that these leave. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/exec/operation.h"
#include "daemon/exec/workers.h"

enum { STAGES = 3, PARTS_MAX = 200 };

/* A job of steps, each of which but the last leaves parts. */
struct trace {
    uint32_t parts[STAGES]; /* that the steps leave */
    uint32_t step;          /* that runs next; plain, for steps are alone */
    uint32_t ran[STAGES][PARTS_MAX];
    atomic_uint inside, together; /* parts that run now; at most */
    atomic_bool torn;             /* a step ran beside a part */
    bool gather;                  /* a part waits until there is another */
    bool cancel;                  /* the first part of each stage does it */
    bool plan;                    /* the first stage is the plan's */
};

static struct done done;

static void no_wake(void *owner) {}

static struct trace *trace_of(struct job *j)
{
    return (struct trace *)(uintptr_t)j->plan.words[0];
}

static void part(struct job *j, uint32_t number, uint32_t worker)
{
    struct trace *t = trace_of(j);
    uint32_t inside = atomic_fetch_add(&t->inside, 1) + 1, most = atomic_load(&t->together);
    while (inside > most && !atomic_compare_exchange_weak(&t->together, &most, inside))
        ;
    uint64_t until_ns = clock_now_ns() + UINT64_C(300000000000);
    while (t->gather && atomic_load(&t->together) < 2 && clock_now_ns() < until_ns)
        sched_yield();
    t->ran[t->step - 1][number]++;
    if (t->cancel && !number) atomic_store(&j->cancelled, true);
    atomic_fetch_sub(&t->inside, 1);
}

static void step(struct job *j)
{
    struct trace *t = trace_of(j);
    if (atomic_load(&t->inside)) atomic_store(&t->torn, true);
    uint32_t at = t->step++;
    if (at < STAGES && t->parts[at]) j->parts = (struct job_parts){part, t->parts[at]};
    if (at < STAGES && !t->plan) j->step = step;
}

static enum status prepare(struct job *j)
{
    trace_of(j)->step++;
    return STATUS_OK;
}

static enum status plan(struct job *j)
{
    struct trace *t = trace_of(j);
    j->plan.prepare = prepare;
    j->plan.run_part = part;
    j->plan.finish = step;
    j->plan.parts = t->parts[0];
    return STATUS_OK;
}

static const struct operation_ops test_operation = {.plan = plan};

static struct backend *start(uint32_t count)
{
    struct backend *b = NULL;
    done = (struct done){.wake = no_wake};
    cr_assert_eq(workers_create(count, false, &done, &b), STATUS_OK);
    return b;
}

static struct job *make(const struct trace *like)
{
    struct job *j = calloc(1, sizeof *j);
    struct trace *t = malloc(sizeof *t);
    memcpy(t, like, sizeof *t);
    j->operation = OPERATION_KNN;
    j->ops = &test_operation;
    j->plan.words[0] = (uintptr_t)t;
    return j;
}

static void drop(struct job *j)
{
    free(trace_of(j));
    free(j);
}

/* Fails after 20 s. */
static void await(uint32_t count)
{
    uint64_t until_ns = clock_now_ns() + UINT64_C(300000000000);
    while (count) {
        for (struct job *j = done_take(&done); j; j = j->next)
            count--;
        cr_assert(clock_now_ns() < until_ns, "%u jobs never came back", count);
        sched_yield();
    }
}

static void expect_all_once(struct job *j, uint32_t stages)
{
    const struct trace *t = trace_of(j);
    for (uint32_t s = 0; s < stages; s++)
        for (uint32_t i = 0; i < PARTS_MAX; i++)
            cr_assert_eq(t->ran[s][i], i < t->parts[s], "stage %u, part %u", s, i);
    cr_assert_not(atomic_load(&t->torn));
    cr_assert(!j->step && !j->parts.count && !atomic_load(&j->skipped));
}

Test(workers_steps, steps_and_parts_in_turn)
{
    enum { JOBS = 40 };
    for (uint32_t count = 1; count <= 4; count++) {
        struct backend *b = start(count);
        struct job *jobs[JOBS];
        for (uint32_t i = 0; i < JOBS; i++) {
            struct trace t = {.parts = {i * 5, i % 3, PARTS_MAX - i}};
            jobs[i] = make(&t);
            jobs[i]->started_ns = 5;
            workers_run(b, jobs[i], step);
        }
        await(JOBS);
        b->ops->destroy(b);
        for (uint32_t i = 0; i < JOBS; i++) {
            expect_all_once(jobs[i], STAGES);
            cr_assert_eq(trace_of(jobs[i])->step, STAGES + 1);
            cr_assert(jobs[i]->started_ns == 5 && !jobs[i]->finished_ns);
            drop(jobs[i]);
        }
    }
}

Test(workers_steps, all_workers_share_the_parts)
{
    struct backend *b = start(3);
    struct trace t = {.parts = {50, 0, 50}, .gather = true};
    struct job *j = make(&t);
    workers_run(b, j, step);
    await(1);
    cr_assert_geq(atomic_load(&trace_of(j)->together), 2);
    expect_all_once(j, STAGES);
    b->ops->destroy(b);
    drop(j);
}

Test(workers_steps, what_was_cancelled_has_its_steps_but_no_parts)
{
    for (uint32_t count = 0; count <= 2; count++) {
        struct backend *b = start(count ? count : 1);
        struct trace t = {.parts = {PARTS_MAX, 7, 9}, .cancel = true};
        struct job *j = make(&t);
        if (count) {
            workers_run(b, j, step);
            await(1);
        } else {
            workers_run_here(j, step);
        }
        const struct trace *after = trace_of(j);
        cr_assert_eq(after->step, STAGES + 1);
        cr_assert(atomic_load(&j->skipped) && !atomic_load(&after->torn));
        for (uint32_t s = 0; s < STAGES; s++)
            for (uint32_t i = 0; i < PARTS_MAX; i++)
                cr_assert(after->ran[s][i] <= (s == 0 && (count == 2 || i == 0)), "%u %u", s, i);
        b->ops->destroy(b);
        drop(j);
    }
}

Test(workers_steps, here_and_now)
{
    struct trace t = {.parts = {4, 0, 1}};
    struct job *j = make(&t);
    workers_run_here(j, step);
    expect_all_once(j, STAGES);
    cr_assert_eq(trace_of(j)->step, STAGES + 1);
    drop(j);
}

/* A plan's finish leaves parts: the job ends after them, on a worker or here. */
Test(workers_steps, parts_after_finish)
{
    struct backend *b = start(2);
    struct trace t = {.parts = {30, 40}, .plan = true};
    for (int here = 0; here < 2; here++) {
        struct job *j = make(&t);
        if (here) {
            cr_assert_eq(workers_run_now(j), STATUS_OK);
        } else {
            cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
            await(1);
        }
        expect_all_once(j, 2);
        cr_assert(j->started_ns && j->finished_ns >= j->started_ns);
        cr_assert_gt(atomic_load(&j->worked_ns), 0);
        drop(j);
    }
    b->ops->destroy(b);
}
