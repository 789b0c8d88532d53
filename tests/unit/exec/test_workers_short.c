/* Short jobs beside, between and within the parts of long ones. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/yield.h"
#include "tests/unit/exec/traced_jobs.h"

/* A job that waits in a part must not hold up another worker. */
Test(workers_short, run_small_jobs_beside_a_large_one)
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

/* The order in which one worker serves goes by what each job took of its time. Where the machine
 * stopped this thread, the order is another, and the case is tried again. */
static void until_it_holds(bool (*holds)(void), const char *what)
{
    uint64_t until_ns = clock_now_ns() + UINT64_C(300000000000);
    while (!holds())
        cr_assert(clock_now_ns() < until_ns, "never: %s", what);
}

/* One worker, two long jobs of many parts, and short ones behind them. */
static bool short_ones_pass_in_order(void)
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
    bool in_order = back[8] == large[0] && back[9] == large[1];
    for (int i = 0; i < 8; i++)
        in_order = in_order && back[i] == small[i];
    expect_whole(&slow, PARTS_MAX);
    expect_whole(&other, PARTS_MAX);
    b->ops->destroy(b);
    for (int i = 0; i < 10; i++)
        free(back[i]);
    return in_order;
}

Test(workers_short, run_small_jobs_between_the_parts_of_a_large_one)
{
    until_it_holds(short_ones_pass_in_order,
                   "short jobs pass long ones, and each kind ends in the order it came");
}

/* 200 ms of short jobs, and 30 ms of a long one, which has a quarter of the time. */
static bool long_one_is_not_last(void)
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
    bool is_last = back[SHORT] == large;
    b->ops->destroy(b);
    for (int i = 0; i <= SHORT; i++)
        free(back[i]);
    return !is_last;
}

Test(workers_short, a_long_job_goes_on_beside_many_short_ones)
{
    until_it_holds(long_one_is_not_last, "a long job ends before the last of many short ones");
}

/* A worker whose processor others have, or that sleeps, does no work. */
Test(workers_short, standing_still_does_not_count_as_work)
{
    enum { STILL_US = 300000 };
    struct backend *b = start(1);
    struct trace t = {.still_us = STILL_US, .part_us = 2000};
    struct job *j = make(&t, 1), *back;
    cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
    await(&back, 1);
    uint64_t worked_ns = atomic_load(&j->worked_ns);
    cr_assert_geq(worked_ns, 2000000);
    cr_assert_lt(worked_ns, STILL_US * UINT64_C(500), "%llu", (unsigned long long)worked_ns);
    cr_assert_geq(j->finished_ns - j->started_ns, STILL_US * UINT64_C(1000));
    b->ops->destroy(b);
    free(j);
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
Test(workers_short, short_jobs_interrupt_a_part)
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
