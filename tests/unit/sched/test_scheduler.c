/* The scheduler: lines, windows, stealing, splitting, putting back, and what it learns. */
#include <criterion/criterion.h>

#include "tests/support/sched_scene.h"

/* The CPU takes 1 us a query, the GPU so much and no less than fixed_ns. */
static struct sched_scene scene(bool gpu, double gpu_fixed_ns, double gpu_query_ns)
{
    struct sched_scene c = sched_scene_open(gpu);
    c.now_ns = MS;
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){0, 0, 1});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){gpu_fixed_ns, 0, gpu_query_ns / 1000});
    return c;
}

Test(scheduler, sends_work_where_it_ends_first)
{
    struct sched_scene c = scene(true, 50e3, 10);
    struct ticket *small = sched_scene_send(&c, 0, 8), *large = sched_scene_send(&c, 0, 1000);
    cr_assert_eq(small->server, SERVER_CPU);
    cr_assert_eq(small->reason, REASON_PREDICTED_SLOWER);
    cr_assert_eq(small->cpu_ns, 8 * US);
    cr_assert_eq(large->server, SERVER_GPU);
    cr_assert_eq(large->reason, REASON_CHOSEN_FASTER);
    cr_assert_eq(large->charge_ns, 60 * US);
    cr_assert_eq(c.tenants[0]->queued, 2);
    cr_assert_eq(sched_scene_next(&c), small);
    cr_assert_eq(sched_scene_next(&c), large);
    cr_assert_null(sched_scene_next(&c));
    cr_assert_eq(c.s->servers[SERVER_GPU].charged_ns, 60 * US);
    c.now_ns += 60 * US;
    sched_scene_finish(&c, small);
    sched_scene_finish(&c, large);
    cr_assert(sched_scene_is_clean(&c));
    cr_assert_eq(c.tenants[0]->requests[0], 1);
    cr_assert_eq(c.tenants[0]->busy_ns[1], 60 * US);
    cr_assert_eq(c.s->decisions.count, 2);
    cr_assert_eq(c.s->decisions.kept[1].took_ns, 60 * US);
    sched_scene_close(&c);
}

Test(scheduler, a_line_that_is_long_sends_work_elsewhere)
{
    struct sched_scene c = scene(true, 50e3, 10);
    uint32_t on_cpu = 0;
    for (int i = 0; i < 100; i++) /* 51 us on the GPU, 100 on the CPU */
        on_cpu += sched_scene_send(&c, 0, 100)->server == SERVER_CPU;
    cr_assert(on_cpu > 25 && on_cpu < 45, "%u", on_cpu); /* about 51 : 100 */
    sched_scene_close(&(struct sched_scene){.s = c.s, .tickets = c.tickets});
}

Test(scheduler, what_the_gpu_gave_up_goes_first)
{
    struct sched_scene c = scene(true, 50e3, 10);
    sched_scene_send(&c, 0, 4);
    sched_scene_send(&c, 0, 4);
    struct ticket *back = sched_scene_ticket(&c, 0, 1000);
    scheduler_enqueue(c.s, back,
                      &(struct situation){.gave_up = REASON_FALLBACK_AFTER_ERROR,
                                          .server = SERVER_GPU,
                                          .replica_ready = true},
                      c.now_ns);
    cr_assert_eq(back->server, SERVER_CPU);
    cr_assert_eq(back->reason, REASON_FALLBACK_AFTER_ERROR);
    cr_assert_eq(back->wait_ns, 0); /* nothing in flight, nobody before it */
    cr_assert_eq(sched_scene_next(&c), back);
}
