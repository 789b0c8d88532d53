/* What the scheduler notes of its decisions, for explain. */
#include <criterion/criterion.h>

#include "tests/support/sched_scene.h"

static struct sched_scene scene(void)
{
    struct sched_scene c = sched_scene_open(true);
    c.now_ns = MS;
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){0, 0, 1});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){50e3, 0, 0.01});
    return c;
}

Test(scheduler_notes, one_request)
{
    struct sched_scene c = scene();
    sched_scene_send(&c, 0, 8);
    struct ticket *first = sched_scene_next(&c);
    c.now_ns += 9 * US;
    sched_scene_finish(&c, first);
    const struct decision *d = &c.s->decisions.kept[0];
    cr_assert_eq(c.s->decisions.count, 1);
    cr_assert(d->members == 1 && d->work.queries == 8 && d->server == SERVER_CPU && d->well);
    cr_assert(d->cpu_ns == 8 * US && d->gpu_ns == 50 * US + 80);
    cr_assert_eq(d->took_ns, 9 * US);
    cr_assert_eq(d->space, c.tenants[0]->space);
    sched_scene_close(&c);
}

/* Predictions are of what the time that it took is of. */
Test(scheduler_notes, several_as_one)
{
    struct sched_scene c = scene();
    for (int i = 0; i < 3; i++) {
        struct ticket *t = sched_scene_ticket(&c, 0, 8);
        t->batch_key = &c;
        sched_scene_enqueue(&c, t);
    }
    struct ticket *first = sched_scene_next(&c);
    cr_assert_eq(first->members, 3);
    cr_assert_eq(first->cpu_ns, 8 * US, "the ticket's stay its own: a reply tells them");
    c.now_ns += 24 * US;
    sched_scene_finish(&c, first);
    const struct decision *d = &c.s->decisions.kept[0];
    cr_assert_eq(c.s->decisions.count, 1);
    cr_assert(d->members == 3 && d->work.queries == 24);
    cr_assert(d->cpu_ns == 24 * US && d->gpu_ns == 50 * US + 240);
    cr_assert_eq(d->took_ns, 24 * US);
    sched_scene_close(&c);
}
