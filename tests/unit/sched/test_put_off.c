/* Tickets that are put off for want of memory: others go first until it is there. */
#include <criterion/criterion.h>

#include "tests/support/sched_scene.h"

static struct sched_scene scene(bool gpu)
{
    struct sched_scene c = sched_scene_open(gpu);
    c.now_ns = MS;
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){0, 0, 1});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){0, 0, 1});
    return c;
}

/* Of the same tenant and of another. */
Test(put_off, others_are_started_meanwhile)
{
    struct sched_scene c = scene(false);
    struct ticket *large = sched_scene_send(&c, 0, 100), *next = sched_scene_send(&c, 0, 1);
    struct ticket *other = sched_scene_send(&c, 1, 1);
    cr_assert_eq(sched_scene_next(&c), large);
    scheduler_put_off(c.s, large);
    const struct ticket *first = sched_scene_next(&c), *second = sched_scene_next(&c);
    cr_assert((first == next && second == other) || (first == other && second == next));
    cr_assert_null(sched_scene_next(&c));
    sched_scene_finish(&c, next);
    sched_scene_finish(&c, other);
    cr_assert_null(sched_scene_next(&c), "it is passed over, though the server is idle");
    scheduler_resume(c.s);
    cr_assert_eq(sched_scene_next(&c), large);
    sched_scene_finish(&c, large);
    cr_assert(sched_scene_is_clean(&c));
    sched_scene_close(&c);
}

/* Not by another server either, which would need the same memory. */
Test(put_off, nobody_takes_it_from_its_line)
{
    struct sched_scene c = scene(true);
    struct ticket *large = sched_scene_send(&c, 0, 1000);
    cr_assert_eq(sched_scene_next(&c), large);
    scheduler_put_off(c.s, large);
    cr_assert_null(sched_scene_next(&c));
    scheduler_resume(c.s);
    cr_assert_eq(sched_scene_next(&c), large);
    scheduler_put_off(c.s, large);
    scheduler_withdraw(c.s, large);
    sched_scene_close(&c);
}

/* A request that is sent again has nothing to wait for. */
Test(put_off, ticket_that_is_enqueued_anew_is_started)
{
    struct sched_scene c = scene(false);
    struct ticket *t = sched_scene_send(&c, 0, 10);
    cr_assert_eq(sched_scene_next(&c), t);
    scheduler_put_off(c.s, t);
    scheduler_withdraw(c.s, t);
    sched_scene_enqueue(&c, t);
    cr_assert_eq(sched_scene_next(&c), t);
    sched_scene_finish(&c, t);
    sched_scene_close(&c);
}
