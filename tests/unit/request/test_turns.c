/* Whose turn it is in the pipeline, on a clock that the test sets: shares of a busy CPU, and how
 * long a request is held for company. */
#include <criterion/criterion.h>

#include "daemon/request/pipeline_inside.h"
#include "daemon/request/trials.h"
#include "tests/support/request_rig.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static struct request_rig rig;

/* ---------------------------------------------------------------- shares */

/* Two spaces that always have something to ask, all of which takes as long. */
Test(turns, weights_are_what_spaces_get)
{
    enum { PENDING = 16, RUNS = 4000 };
    request_rig_open(&rig, (const char *[]){"spaces.three.weight=3", "batch.requests=1", NULL});
    struct rig_space *one = request_rig_space(&rig, "one"),
                     *three = request_rig_space(&rig, "three");
    uint64_t of_three = 0;
    for (int i = 0; i < PENDING; i++) {
        request_rig_ask(&rig, one, 0, false);
        request_rig_ask(&rig, three, 0, false);
    }
    pipeline_tick(rig.pipeline);
    for (int i = 0; i < RUNS; i++) {
        uint64_t started_ns = rig.now_ns;
        struct job *j = rig.taken[0];
        bool is_three = j->space == three->space;
        of_three += is_three;
        rig.now_ns += MS;
        request_rig_end(&rig, j, started_ns);
        request_rig_ask(&rig, is_three ? three : one, 0, false);
        pipeline_tick(rig.pipeline);
    }
    cr_assert(of_three > RUNS * 74 / 100 && of_three < RUNS * 76 / 100, "%llu of %d",
              (unsigned long long)of_three, RUNS);
}

/* ---------------------------------------------------------------- company */

Test(turns, who_is_alone_waits_for_nobody)
{
    request_rig_open(&rig, (const char *[]){"batch.wait_us=1000000", NULL});
    struct rig_space *one = request_rig_space(&rig, "one");
    for (uint64_t i = 0; i < 10; i++) {
        struct job *j = request_rig_ask(&rig, one, 0, false);
        pipeline_tick(rig.pipeline);
        cr_assert(rig.taken_count == 1 && rig.taken[0] == j, "it is held");
        rig.now_ns += MS;
        request_rig_end(&rig, j, rig.now_ns - MS);
    }
}

/* Two that run keep the CPU busy, and the third waits for more of its kind: until its time is up,
 * at which the loop wakes. */
Test(turns, company_is_waited_for_so_long)
{
    enum { HELD_US = 150000 };
    request_rig_open(&rig, (const char *[]){"batch.wait_us=150000", "sched.window_us=0", NULL});
    struct rig_space *one = request_rig_space(&rig, "one");
    for (int i = 0; i < 2; i++) {
        request_rig_ask(&rig, one, 0, false);
        pipeline_tick(rig.pipeline);
    }
    cr_assert_eq(rig.taken_count, 2);
    uint64_t until_ns = rig.now_ns + HELD_US * US;
    request_rig_ask(&rig, one, 0, false);
    pipeline_tick(rig.pipeline);
    cr_assert_eq(pipeline_wake_ns(rig.pipeline), until_ns);
    rig.now_ns = until_ns - 1;
    request_rig_ask(&rig, one, 0, false);
    pipeline_tick(rig.pipeline);
    cr_assert_eq(rig.taken_count, 2, "they are not held");
    rig.now_ns = until_ns;
    pipeline_tick(rig.pipeline);
    cr_assert_eq(rig.taken_count, 3, "they are held for longer");
    cr_assert_eq(rig.taken[2]->operation, OPERATION_KNN_BATCH, "they ran one by one");
    cr_assert_eq(pipeline_wake_ns(rig.pipeline), UINT64_MAX);
    while (rig.taken_count)
        request_rig_end(&rig, rig.taken[0], rig.now_ns);
    cr_assert_eq(rig.pipeline->job_count, 0);
}

/* ---------------------------------------------------------------- trials */

/* Calibration waits until its trials are all that is in flight. */
Test(turns, trials_are_alone_or_are_not)
{
    request_rig_open(&rig, NULL);
    struct rig_space *one = request_rig_space(&rig, "one");
    struct trial_runner runner = trials_runner(rig.pipeline);
    cr_assert(runner.is_idle(runner.owner));
    struct job *trial = runner.take(runner.owner, one->space, (struct job_owner){0});
    cr_assert(runner.is_idle(runner.owner));
    struct job *j = request_rig_ask(&rig, one, 0, false);
    cr_assert_not(runner.is_idle(runner.owner));
    pipeline_tick(rig.pipeline);
    cr_assert_not(runner.is_idle(runner.owner));
    request_rig_end(&rig, j, rig.now_ns);
    cr_assert(runner.is_idle(runner.owner));
    runner.give(runner.owner, trial);
    cr_assert(runner.is_idle(runner.owner));
}
