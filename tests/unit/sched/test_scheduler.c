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

/* Edges do not count: nodes that are likely to be touched, of all sets together. */
Test(scheduler, spreads_have_a_floor_of_nodes)
{
    static const uint32_t operations[] = {OPERATION_SPREAD, OPERATION_SPREAD_ENGRAM};
    static const struct {
        uint64_t sets, nodes;
        bool below;
    } cases[] = {
        {1, 510, true}, {1, 511, false}, {5, 100, true}, {6, 100, false}, {UINT64_MAX, 3, false}};
    for (int o = 0; o < 2; o++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct sched_scene c = scene(true, 0, 0.001);
            struct ticket *t = sched_scene_ticket(&c, 0, 1);
            t->work.operation = operations[o];
            t->work.queries = cases[i].sets;
            t->work.rows = cases[i].nodes;
            t->work.pairs = 1 << 30;
            sched_scene_enqueue(&c, t);
            cr_assert_eq(t->reason == REASON_BELOW_MIN_BATCH, cases[i].below, "case %zu", i);
            cr_assert_eq(t->server, cases[i].below ? SERVER_CPU : SERVER_GPU);
            scheduler_withdraw(c.s, t);
            sched_scene_close(&c);
        }
}

/* Nothing would ever show that the model is wrong, if nothing ever ran there. */
Test(scheduler, a_replica_is_wanted_at_times_though_the_gpu_looks_slower)
{
    struct sched_scene c = scene(true, 0, 5000); /* five times slower, it says */
    probes_init(&c.s->probes, 0.02);
    const struct situation none = {.server = SERVER_GPU, .dirty_bytes = 4096};
    uint32_t wanted = 0;
    for (int i = 0; i < 2000; i++) {
        struct ticket *t = sched_scene_ticket(&c, 0, 2000);
        wanted += scheduler_enqueue(c.s, t, &none, c.now_ns);
        cr_assert_eq(t->reason, REASON_PREDICTED_SLOWER);
        scheduler_withdraw(c.s, t);
        c.taken--;
    }
    cr_assert(wanted >= 1 && wanted < 100, "%u", wanted);
    sched_scene_close(&c);
}

Test(scheduler, a_line_that_is_long_sends_work_elsewhere)
{
    struct sched_scene c = scene(true, 50e3, 10);
    uint32_t on_cpu = 0;
    for (int i = 0; i < 100; i++) /* 51 us on the GPU, 100 on the CPU */
        on_cpu += sched_scene_send(&c, 0, 100)->server == SERVER_CPU;
    cr_assert(on_cpu > 25 && on_cpu < 45, "%u", on_cpu); /* about 51 : 100 */
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* On the card it runs between two passes of the long one; behind two of them it cannot start. */
Test(scheduler, a_long_run_in_passes_is_not_waited_for)
{
    struct sched_scene c = scene(true, 50e3, 10);
    struct ticket *long_one = sched_scene_send(&c, 0, 40000000); /* 400 ms on the GPU */
    cr_assert_eq(sched_scene_next(&c), long_one);
    cr_assert_eq(long_one->server, SERVER_GPU);
    struct ticket *t = sched_scene_send(&c, 0, 26000); /* 0.3 ms on the GPU, 26 on the CPU */
    cr_assert_eq(t->server, SERVER_GPU);
    cr_assert_leq(t->wait_ns, 4 * MS);
    cr_assert_eq(sched_scene_next(&c), t);
    c.now_ns += 200 * MS;
    sched_scene_finish(&c, t);
    struct ticket *other = sched_scene_send(&c, 0, 40000000);
    cr_assert_eq(sched_scene_next(&c), other);
    t = sched_scene_send(&c, 0, 26000);
    cr_assert_eq(t->server, SERVER_CPU);
    sched_scene_drain(&c);
    sched_scene_close(&c);
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
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* ---------------------------------------------------------------- the window */

Test(scheduler, two_long_jobs_are_there_and_no_more)
{
    struct sched_scene c = scene(false, 0, 0);
    struct ticket *t[4];
    for (uint32_t i = 0; i < 4; i++)
        t[i] = sched_scene_send(&c, 0, 5000); /* 5 ms; half of the window each */
    cr_assert_eq(sched_scene_next(&c), t[0]);
    cr_assert_eq(sched_scene_next(&c), t[1]);
    cr_assert_null(sched_scene_next(&c));
    cr_assert_eq(c.s->servers[0].window_ns, MS);
    c.now_ns += 5 * MS;
    sched_scene_finish(&c, t[0]);
    cr_assert_eq(sched_scene_next(&c), t[2]);
    cr_assert_null(sched_scene_next(&c));
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(scheduler, short_jobs_fill_the_window_or_all_slots)
{
    struct sched_scene c = scene(false, 0, 0);
    for (uint32_t i = 0; i < 40; i++)
        sched_scene_send(&c, 0, 100); /* 0.1 ms */
    uint32_t started = 0;
    while (sched_scene_next(&c))
        started++;
    cr_assert_eq(started, 12); /* and two pass */
    scheduler_set_server(c.s, SERVER_CPU, true, 3, 0);
    c.now_ns += 300 * US;
    while (c.s->servers[0].oldest)
        sched_scene_finish(&c, c.s->servers[0].oldest);
    for (started = 0; sched_scene_next(&c);)
        started++;
    cr_assert_eq(started, 3);
    scheduler_set_server(c.s, SERVER_CPU, true, 16, 0);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(scheduler, short_jobs_pass_a_few_at_a_time)
{
    struct sched_scene c = scene(false, 0, 0);
    for (uint32_t i = 0; i < 4; i++)
        sched_scene_send(&c, 0, 5000);
    while (sched_scene_next(&c))
        continue;
    struct ticket *own = sched_scene_send(&c, 0, 100); /* before longer ones of its tenant */
    cr_assert_eq(sched_scene_next(&c), own);
    c.principals[1]->stakes[SERVER_CPU].in_flight = 1; /* its peer has something there already */
    sched_scene_send(&c, 1, 251);                      /* not what is not short */
    cr_assert_null(sched_scene_next(&c));
    for (uint32_t i = 0; i < 4; i++)
        sched_scene_send(&c, 2, 50);
    struct ticket *first = sched_scene_next(&c);
    cr_assert(first && first->tenancy == c.tenancies[2]);
    cr_assert_null(sched_scene_next(&c)); /* now it owes more than tenant 1, which waits */
    scheduler_withdraw(c.s, c.tenancies[1]->flows[0].head);
    cr_assert_eq(sched_scene_next(&c), first + 1);
    cr_assert_null(sched_scene_next(&c)); /* two at a time */
    cr_assert_eq(c.s->counters.passes, 3);
    c.principals[1]->stakes[SERVER_CPU].in_flight = 0;
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* However long it is: workers turn to it within a millisecond. On a GPU it waits for the window. */
Test(scheduler, what_a_peer_asks_first_passes)
{
    for (uint32_t server = SERVER_CPU; server <= SERVER_GPU; server++) {
        struct sched_scene c = scene(server == SERVER_GPU, 0, 1000);
        c.s->settings.force = server == SERVER_GPU ? FORCE_GPU : FORCE_CPU;
        for (uint32_t i = 0; i < 4; i++)
            sched_scene_send(&c, 0, 5000);
        while (sched_scene_next(&c))
            continue;
        struct ticket *first = sched_scene_send(&c, 1, 2000);
        sched_scene_send(&c, 1, 2000);
        if (server == SERVER_CPU) cr_assert_eq(sched_scene_next(&c), first);
        cr_assert_null(sched_scene_next(&c)); /* one at a time */
        cr_assert_eq(c.s->counters.passes, server == SERVER_CPU);
        sched_scene_drain(&c);
        sched_scene_close(&c);
    }
}

/* ---------------------------------------------------------------- one server for the other */

Test(scheduler, who_has_nothing_to_do_takes_what_it_ends_sooner)
{
    struct sched_scene c = scene(true, 50e3, 10);
    struct ticket *t[8];
    scheduler_set_server(c.s, SERVER_GPU, true, 16, 0);
    for (uint32_t i = 0; i < 8; i++) { /* the GPU takes 60 us; the CPU 1,000 */
        t[i] = sched_scene_send(&c, 0, 1000);
        cr_assert_eq(t[i]->server, SERVER_GPU);
        cr_assert_eq(t[i]->other, SERVER_CPU);
    }
    cr_assert_eq(sched_scene_next(&c), t[0]);
    c.s->settings.window_ns = 1; /* the rest stays in line */
    cr_assert_eq(sched_scene_next(&c), t[1]);
    cr_assert_null(sched_scene_next(&c));         /* on the CPU it would end later */
    c.s->model.lines[1][0].coefficients[0] = 1e6; /* each takes a millisecond more */
    for (uint32_t i = 2; i < 8; i++)
        t[i]->gpu_ns += MS;
    cr_assert_eq(sched_scene_next(&c), t[7]);
    cr_assert_eq(t[7]->server, SERVER_CPU);
    cr_assert_eq(t[7]->reason, REASON_CHOSEN_FASTER);
    cr_assert_eq(c.s->counters.steals, 1);
    cr_assert_null(sched_scene_next(&c));
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(scheduler, what_is_forced_or_was_refused_stays_in_its_line)
{
    struct sched_scene c = scene(true, 5e6, 10);
    for (uint32_t i = 0; i < 8; i++) {
        c.s->settings.force = i & 1 ? FORCE_GPU : FORCE_NONE;
        struct ticket *t = sched_scene_ticket(&c, 0, 1000);
        scheduler_enqueue(
            c.s, t,
            &(struct situation){.server = SERVER_GPU, .replica_ready = i & 1, .dirty_bytes = 1000},
            c.now_ns);
        cr_assert_eq(t->server, i & 1 ? SERVER_GPU : SERVER_CPU);
        cr_assert_eq(t->other, SERVERS_MAX);
    }
    sched_scene_drain(&c);
    cr_assert_eq(c.s->counters.steals, 0);
    sched_scene_close(&c);
}

static struct ticket *wide(struct sched_scene *c)
{
    struct ticket *t = sched_scene_ticket(c, 0, 30000);
    sched_scene_enqueue(c, t);
    return t;
}

Test(scheduler, a_wide_request_runs_on_both)
{
    struct sched_scene c = scene(true, 0, 500); /* the GPU twice as fast: 15 ms against 30 */
    c.s->settings.split = true;
    struct ticket *t = wide(&c), parts[2] = {0};
    struct dispatch d;
    cr_assert(scheduler_next(c.s, c.now_ns, &d));
    cr_assert_eq(d.first, t);
    cr_assert_eq(d.server, SERVER_GPU);
    cr_assert_eq(d.split_queries, 20000);
    cr_assert_eq(t->members, 0);
    cr_assert(sched_scene_is_clean(&c));
    for (uint32_t i = 0; i < 2; i++) {
        parts[i].tenancy = t->tenancy;
        parts[i].work = t->work;
        parts[i].work.queries = i ? 100 : 200;
        parts[i].work.pairs = parts[i].work.queries * 1000;
        scheduler_place(c.s, &parts[i], i ? SERVER_CPU : SERVER_GPU, d.reason, c.now_ns);
        cr_assert_eq(parts[i].charge_ns, 100 * US);
    }
    cr_assert(!scheduler_next(c.s, c.now_ns, &d));
    c.now_ns += 100 * US;
    sched_scene_finish(&c, &parts[0]);
    sched_scene_finish(&c, &parts[1]);
    cr_assert(sched_scene_is_clean(&c));

    t = wide(&c); /* the caller cannot: it runs whole, or goes back */
    cr_assert(scheduler_next(c.s, c.now_ns, &d) && d.split_queries);
    scheduler_put_back(c.s, t);
    cr_assert_eq(t->tenancy->tenant->queued, 1);
    cr_assert(scheduler_next(c.s, c.now_ns, &d) && d.split_queries);
    scheduler_place(c.s, t, t->server, d.reason, c.now_ns);
    cr_assert_eq(t->charge_ns, 15 * MS);
    sched_scene_drain(&c);
    cr_assert_eq(c.s->counters.splits, 3);
    sched_scene_close(&c);
}

Test(scheduler, what_is_forced_on_both_is_split_whatever_is_predicted)
{
    struct sched_scene c = scene(true, 0, 1000000); /* the GPU a thousand times as slow */
    c.s->settings.force = FORCE_GPU;
    c.s->settings.force_split = true;
    struct dispatch d;
    struct ticket *t = sched_scene_send(&c, 0, 65);
    cr_assert(scheduler_next(c.s, c.now_ns, &d) && d.first == t);
    cr_assert_eq(d.server, SERVER_GPU);
    cr_assert_eq(d.reason, REASON_FORCED);
    cr_assert_eq(d.split_queries, 32);
    struct ticket *whole = sched_scene_ticket(&c, 0, 300);
    whole->splits = false;
    sched_scene_enqueue(&c, whole);
    cr_assert(scheduler_next(c.s, c.now_ns, &d));
    cr_assert_eq(d.split_queries, 0);
    struct ticket *cpu_only = sched_scene_ticket(&c, 0, 300);
    cpu_only->work.gpu_able = false;
    sched_scene_enqueue(&c, cpu_only);
    cr_assert(scheduler_next(c.s, c.now_ns, &d));
    cr_assert_eq(d.split_queries, 0);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(scheduler, what_gains_little_or_disturbs_stays_whole)
{
    struct sched_scene c = scene(true, 0, 50); /* 20 times as fast: 5 % to gain */
    c.s->settings.split = true;
    wide(&c);
    struct dispatch d;
    cr_assert(scheduler_next(c.s, c.now_ns, &d));
    cr_assert_eq(d.split_queries, 0);
    sched_scene_drain(&c);
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){0, 0, 0.5});
    struct ticket *whole = sched_scene_ticket(&c, 0, 300);
    whole->splits = false;
    sched_scene_enqueue(&c, whole);
    cr_assert(scheduler_next(c.s, c.now_ns, &d));
    cr_assert_eq(d.split_queries, 0);
    wide(&c); /* the GPU is not idle now */
    cr_assert(scheduler_next(c.s, c.now_ns, &d));
    cr_assert_eq(d.split_queries, 0);
    sched_scene_drain(&c);
    c.s->settings.split = false;
    wide(&c);
    cr_assert(scheduler_next(c.s, c.now_ns, &d));
    cr_assert_eq(d.split_queries, 0);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* ---------------------------------------------------------------- servers come and go */

Test(scheduler, who_waits_for_a_server_that_left_is_handed_back)
{
    struct sched_scene c = scene(true, 0, 10);
    struct ticket *t[4];
    for (uint32_t i = 0; i < 4; i++)
        t[i] = sched_scene_send(&c, i / 2, 1000);
    cr_assert_eq(sched_scene_next(&c), t[0]);
    cr_assert_null(scheduler_evacuate(c.s));
    scheduler_set_server(c.s, SERVER_GPU, false, 0, 0);
    cr_assert_null(sched_scene_next(&c));
    uint32_t handed = 0;
    for (struct ticket *back; (back = scheduler_evacuate(c.s)); handed++) {
        sched_scene_enqueue(&c, back); /* the caller still believes in it */
        cr_assert_eq(back->server, SERVER_CPU);
        cr_assert_eq(back->reason, REASON_GPU_DOWN);
    }
    cr_assert_eq(handed, 3);
    c.now_ns += MS;
    scheduler_finish(c.s, t[0], END_LET_DOWN,
                     &(struct scheduler_run){.started_ns = c.now_ns - 10, .ended_ns = c.now_ns});
    cr_assert_eq(c.s->model.lines[1][0].outcomes[0] & 1, 0);
    cr_assert_eq(c.s->model.lines[1][0].outcome_count, 1);
    cr_assert(!c.s->decisions.kept[0].well);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(scheduler, what_was_refused_teaches_nothing)
{
    struct sched_scene c = scene(true, 0, 10);
    struct ticket *t = sched_scene_send(&c, 0, 1000);
    cr_assert_eq(sched_scene_next(&c), t);
    struct cost_line before = c.s->model.lines[1][0];
    scheduler_finish(c.s, t, END_REFUSED, NULL);
    cr_assert_arr_eq(&before, &c.s->model.lines[1][0], sizeof before);
    cr_assert_eq(c.s->decisions.count, 0);
    cr_assert_eq(c.tenants[0]->requests[1], 0);
    cr_assert_eq(c.tenancies[0]->flows[1].turn.deficit_ns, 0); /* and costs nothing */
    cr_assert(sched_scene_is_clean(&c));
    sched_scene_close(&c);
}

/* Alone: from submission to end. Sharing: between what it held up and that. */
Test(scheduler, what_a_run_took_is_learnt)
{
    struct sched_scene c = scene(false, 0, 0);
    struct ticket *a = sched_scene_send(&c, 0, 1000);
    cr_assert_eq(sched_scene_next(&c), a);
    c.now_ns += 2 * MS;
    scheduler_finish(c.s, a, END_WELL,
                     &(struct scheduler_run){.started_ns = c.now_ns - MS, .ended_ns = c.now_ns});
    cr_assert_eq(c.tenants[0]->busy_ns[0], MS);
    cr_assert_gt(c.s->model.lines[0][0].drift, 0);
    a = sched_scene_send(&c, 1, 1000);
    struct ticket *b = sched_scene_send(&c, 2, 1000);
    cr_assert_eq(sched_scene_next(&c), a);
    cr_assert_eq(sched_scene_next(&c), b);
    uint64_t from = c.now_ns;
    scheduler_finish(c.s, a, END_WELL,
                     &(struct scheduler_run){.started_ns = from, .ended_ns = from + MS});
    scheduler_finish(c.s, b, END_WELL,
                     &(struct scheduler_run){.started_ns = from, .ended_ns = from + 3 * MS});
    cr_assert_eq(c.tenants[2]->busy_ns[0], 2 * MS); /* from a's end to its own */
    cr_assert_lt(c.s->model.lines[0][0].overlap, 1.001);
    cr_assert(sched_scene_is_clean(&c));
    sched_scene_close(&c);
}

/* ---------------------------------------------------------------- bounds and hints */

Test(scheduler, a_full_line_says_when_to_come_back)
{
    struct sched_scene c = scene(false, 0, 0);
    c.tenants[0]->quotas.queue_max = 100;
    struct failure f = {0};
    for (uint32_t i = 0; i < 100; i++) {
        cr_assert_eq(scheduler_admit(c.s, c.tenancies[0], &f), STATUS_OK);
        sched_scene_send(&c, 0, 10000); /* 10 ms each */
    }
    cr_assert_eq(scheduler_admit(c.s, c.tenancies[0], &f), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(f.detail, DETAIL_QUEUE_FULL);
    cr_assert_eq(f.retry_after_ms, 501);
    cr_assert_eq(c.tenants[0]->refused_queue, 1);
    cr_assert_eq(scheduler_admit(c.s, c.tenancies[1], &f), STATUS_OK);
    for (uint32_t i = 0; i < 100; i++)
        sched_scene_send(&c, 1, 10000); /* another takes its half of the time */
    cr_assert_eq(scheduler_admit(c.s, c.tenancies[0], &f), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(f.retry_after_ms, 1001);
    cr_assert_eq(scheduler_drain_ns(c.s, c.tenants[2]), 0);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(scheduler, who_leaves_the_line_leaves_nothing)
{
    struct sched_scene c = scene(true, 50e3, 10);
    struct ticket *t[6];
    for (uint32_t i = 0; i < 6; i++)
        t[i] = sched_scene_send(&c, i % 3, i & 1 ? 8 : 1000);
    for (uint32_t i = 0; i < 6; i++)
        scheduler_withdraw(c.s, t[(i * 5 + 2) % 6]);
    cr_assert(sched_scene_is_clean(&c));
    cr_assert_null(sched_scene_next(&c));
    sched_scene_close(&c);
}
