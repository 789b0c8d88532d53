/* Batches: who runs as one, up to which bounds, and when one waits for company. */
#include "daemon/sched/fair.h"
#include "daemon/sched/batch.h"

#include <criterion/criterion.h>

#include "tests/support/sched_scene.h"

static const char key_a, key_b;

/* The CPU alone: a scan of 1,000 us that queries share, 1 us for each. */
static struct sched_scene scene(void)
{
    struct sched_scene c = sched_scene_open(false);
    c.now_ns = MS;
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){0, 1000, 1});
    return c;
}

static struct ticket *send(struct sched_scene *c, uint32_t tenant, const void *key,
                           uint64_t queries)
{
    struct ticket *t = sched_scene_ticket(c, tenant, queries);
    t->batch_key = key;
    sched_scene_enqueue(c, t);
    return t;
}

Test(batch, tickets_of_one_key_run_as_one_in_their_order)
{
    struct sched_scene c = scene();
    struct ticket *a0 = send(&c, 0, &key_a, 1), *b0 = send(&c, 0, &key_b, 1);
    struct ticket *a1 = send(&c, 0, &key_a, 2), *other = send(&c, 1, &key_a, 1);
    struct ticket *plain = send(&c, 0, NULL, 1), *a2 = sched_scene_ticket(&c, 0, 4);
    a2->batch_key = &key_a;
    a2->work.k = 70;
    a2->work.filtered = true;
    sched_scene_enqueue(&c, a2);

    struct dispatch d;
    cr_assert(scheduler_next(c.s, c.now_ns, &d));
    cr_assert_eq(d.first, a0);
    cr_assert_eq(d.count, 3);
    cr_assert(a0->next == a1 && a1->next == a2 && !a2->next);
    cr_assert(a2->previous == a1 && a1->previous == a0 && !a0->previous);
    cr_assert(a0->whole.queries == 7 && a0->whole.k == 70 && a0->whole.filtered);
    cr_assert_eq(a0->whole.pairs, 7000);
    cr_assert_eq(a0->charge_ns, 1007 * US);
    cr_assert_eq(a0->members, 3);
    cr_assert_eq(c.tenants[0]->queued, 2);
    cr_assert_eq(c.s->counters.batches, 1);
    cr_assert_eq(c.s->counters.batched_requests, 3);
    cr_assert_eq(sched_scene_next(&c), other); /* of another tenant: by itself */
    cr_assert_eq(other->members, 1);
    (void)b0;
    (void)plain;
    sched_scene_drain(&c);
    cr_assert_eq(c.tenants[0]->requests[0], 5);
    cr_assert_eq(c.tenants[0]->batches[0], 1);
    cr_assert_eq(c.tenants[0]->batched_requests[0], 3);
    sched_scene_close(&c);
}

static uint32_t count_of_next(struct sched_scene *c)
{
    struct dispatch d;
    cr_assert(scheduler_next(c->s, c->now_ns, &d));
    return d.count;
}

Test(batch, bounds_hold)
{
    struct sched_scene c = scene();
    c.s->settings.batch_requests_max = 3;
    for (int i = 0; i < 5; i++)
        send(&c, 0, &key_a, 1);
    cr_assert_eq(count_of_next(&c), 3);
    sched_scene_drain(&c);

    c.s->settings.batch_requests_max = 256;
    c.s->settings.batch_queries_max = 10;
    send(&c, 0, &key_a, 8);
    send(&c, 0, &key_a, 3); /* too many */
    send(&c, 0, &key_a, 2);
    cr_assert_eq(count_of_next(&c), 2);
    sched_scene_drain(&c);

    c.s->settings.batch_queries_max = 256;
    c.s->settings.batch_bytes_max = 3 * (10 * 12 + 4);
    for (int i = 0; i < 4; i++)
        send(&c, 0, &key_a, 1);
    cr_assert_eq(count_of_next(&c), 3);
    cr_assert_eq(c.s->counters.shrunk_batches, 0);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* 100 us and 100 us for each query: nine of them are a window. */
Test(batch, it_is_no_longer_than_a_window_while_others_use_the_server)
{
    struct sched_scene c = sched_scene_open(false);
    c.now_ns = MS;
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){100e3, 0, 100});
    for (int i = 0; i < 20; i++)
        send(&c, 0, &key_a, 1);
    struct ticket *other = send(&c, 1, NULL, 1);
    cr_assert_eq(count_of_next(&c), 9); /* it waits */
    cr_assert_eq(sched_scene_next(&c), other);
    c.now_ns += MS;
    sched_scene_finish(&c, c.s->servers[0].oldest);
    cr_assert_eq(count_of_next(&c), 9); /* it runs */
    sched_scene_drain(&c);
    for (int i = 0; i < 20; i++)
        send(&c, 0, &key_a, 1);
    cr_assert_eq(count_of_next(&c), 20); /* nobody is there */
    sched_scene_drain(&c);

    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){5.5e6, 0, 1000});
    for (int i = 0; i < 20; i++)
        send(&c, 2, &key_a, 1);
    send(&c, 3, NULL, 1);
    cr_assert_eq(count_of_next(&c), 7); /* twice what one takes, which is more */
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(batch, a_card_bounds_its_batches_by_its_memory)
{
    struct sched_scene c = sched_scene_open(true);
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){1e9, 0, 0});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){0, 1000, 1});
    uint64_t each = 32 * 4 + 10 * 16; /* a query of 32 floats; 10 best of 16 bytes */
    scheduler_set_server(c.s, SERVER_GPU, true, 16, 5 * each); /* 80 %: 4 of them */
    for (int i = 0; i < 6; i++)
        cr_assert_eq(send(&c, 0, &key_a, 1)->server, SERVER_GPU);
    cr_assert_eq(count_of_next(&c), 4);
    cr_assert_eq(c.s->counters.shrunk_batches, 1);
    c.now_ns += MS; /* the first is nearly done */
    cr_assert_eq(count_of_next(&c), 2);
    cr_assert_eq(c.s->counters.shrunk_batches, 1);

    send(&c, 0, &key_a, 100); /* alone it is too much as well: that is not for us to say */
    struct ticket *next = fair_first(&c.s->servers[SERVER_GPU])->head;
    sched_scene_finish(&c, c.s->servers[SERVER_GPU].oldest);
    c.now_ns += MS;
    cr_assert_eq(sched_scene_next(&c), next);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(batch, one_waits_for_company_but_not_long_and_not_alone)
{
    struct sched_scene c = scene();
    struct ticket *a[4];
    for (int i = 0; i < 2; i++) {
        a[i] = send(&c, 0, &key_a, 1); /* at once: nobody keeps the server busy */
        cr_assert_eq(sched_scene_next(&c), a[i]);
    }
    c.s->settings.window_ns = 100 * MS; /* room is not what it waits for */
    a[2] = send(&c, 0, &key_a, 1);
    cr_assert_null(sched_scene_next(&c));
    cr_assert_eq(scheduler_wake_ns(c.s), c.now_ns + 500 * US);
    struct ticket *b = send(&c, 0, &key_b, 1), *other = send(&c, 1, &key_a, 1);
    cr_assert_eq(sched_scene_next(&c), other); /* others may, */
    cr_assert_eq(sched_scene_next(&c), b);     /* behind it as well */
    cr_assert_null(sched_scene_next(&c));
    cr_assert_eq(scheduler_wake_ns(c.s), c.now_ns + 500 * US);

    c.now_ns += 100 * US;
    a[3] = send(&c, 0, &key_a, 1);
    cr_assert_null(sched_scene_next(&c));
    c.now_ns += 400 * US - 1;
    cr_assert_null(sched_scene_next(&c));
    c.now_ns++;
    cr_assert_eq(sched_scene_next(&c), a[2]);
    cr_assert_eq(a[2]->members, 2);
    cr_assert_null(sched_scene_next(&c));
    cr_assert_eq(scheduler_wake_ns(c.s), UINT64_MAX);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(batch, it_goes_as_soon_as_its_company_ends)
{
    struct sched_scene c = scene();
    c.s->settings.window_ns = 100 * MS;
    struct ticket *first = send(&c, 0, &key_a, 1);
    cr_assert_eq(sched_scene_next(&c), first);
    send(&c, 0, &key_a, 1);
    cr_assert(sched_scene_next(&c));
    struct ticket *held = send(&c, 0, &key_a, 1);
    cr_assert_null(sched_scene_next(&c));
    c.now_ns += 10 * US;
    sched_scene_finish(&c, first);
    cr_assert_eq(sched_scene_next(&c), held);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* On a card the next batch is formed shortly before the one in flight is done: whoever comes until
 * then runs with it. */
Test(batch, card_is_handed_the_next_batch_when_it_is_nearly_done)
{
    struct sched_scene c = sched_scene_open(true);
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){1e9, 0, 0});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){0, 1000, 1});
    c.now_ns = MS;
    c.s->settings.window_ns = 100 * MS; /* room is not what it waits for */
    struct ticket *first = send(&c, 0, &key_a, 1);
    cr_assert_eq(sched_scene_next(&c), first);
    struct ticket *second = send(&c, 0, &key_a, 1);
    cr_assert_null(sched_scene_next(&c));
    uint64_t until_ns = scheduler_wake_ns(c.s), end_ns = c.now_ns + 1001 * US;
    cr_assert(until_ns > end_ns - 400 * US && until_ns < end_ns - 100 * US, "%llu us before",
              (unsigned long long)((end_ns - until_ns) / US));
    c.now_ns = until_ns - 1;
    send(&c, 0, &key_a, 1);
    cr_assert_null(sched_scene_next(&c));
    c.now_ns++;
    cr_assert_eq(sched_scene_next(&c), second);
    cr_assert_eq(second->members, 2);
    struct ticket *other = send(&c, 0, &key_b, 1);
    cr_assert_eq(sched_scene_next(&c), other, "it has no company");
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* A card whose kernels take 32 queries at once, and as long for one as for all of them. */
static struct sched_scene card_of_steps(void)
{
    struct sched_scene c = sched_scene_open(true);
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){1e9, 0, 0});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){0, 1000, 0});
    for (uint32_t octave = 0; octave < COST_SIZES; octave++)
        for (uint32_t width = 4; width < COST_WIDTHS; width++)
            c.s->model.lines[1][cost_line_of(OPERATION_KNN)].cells[octave][width].bias = 0.5F;
    c.s->settings.window_ns = 100 * MS;
    c.now_ns = MS;
    return c;
}

static uint64_t dispatched(struct sched_scene *c)
{
    struct ticket *t = sched_scene_next(c);
    return t ? t->whole.queries : 0;
}

static void send_many(struct sched_scene *c, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        send(c, 0, &key_a, 1);
}

/* Whoever would make a batch take a step longer goes with the next one, which comes anyway. */
Test(batch, on_a_card_it_ends_where_the_next_step_begins)
{
    struct sched_scene c = card_of_steps();
    send_many(&c, 26);
    cr_assert_eq(dispatched(&c), 26);
    send_many(&c, 38);
    c.now_ns += 999 * US;
    cr_assert_eq(dispatched(&c), 32);
    cr_assert_eq(c.tenants[0]->queued, 6);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* But not if the next one would only take that step instead, or nobody runs who will ask again. */
Test(batch, on_a_card_it_goes_beyond_a_step_that_has_to_be_taken)
{
    struct sched_scene c = card_of_steps();
    send_many(&c, 60);
    cr_assert_eq(dispatched(&c), 60, "nobody runs");
    sched_scene_drain(&c);
    send_many(&c, 30);
    cr_assert_eq(dispatched(&c), 30);
    send_many(&c, 36);
    c.now_ns += 999 * US;
    cr_assert_eq(dispatched(&c), 36, "34 would not be one step, either");
    sched_scene_drain(&c);
    send_many(&c, 60);
    cr_assert_eq(dispatched(&c), 60);
    send_many(&c, 60);
    c.now_ns += 1600 * US;
    cr_assert_eq(dispatched(&c), 32, "88 take as long as 60");
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* One run after the other, each handed over when it is due and enqueued late_us after that. Returns
 * how long before the end of the last one the next is handed over. */
static uint64_t lead_us(struct sched_scene *c, uint32_t runs, uint64_t late_us)
{
    struct ticket *first = send(c, 0, &key_a, 1);
    uint64_t enqueued_ns = c->now_ns, end_ns = c->now_ns + 1001 * US, before_us = 0;
    cr_assert_eq(sched_scene_next(c), first);
    for (uint32_t i = 0; i < runs; i++) {
        struct ticket *next = send(c, 0, &key_a, 1);
        cr_assert_null(sched_scene_next(c));
        before_us = (end_ns - scheduler_wake_ns(c->s)) / US;
        c->now_ns = scheduler_wake_ns(c->s);
        cr_assert_eq(sched_scene_next(c), next);
        scheduler_finish(c->s, first, END_WELL,
                         &(struct scheduler_run){.started_ns = end_ns - 1001 * US,
                                                 .ended_ns = end_ns,
                                                 .enqueued_ns = enqueued_ns});
        enqueued_ns = c->now_ns + late_us * US;
        c->now_ns = end_ns;
        end_ns = (enqueued_ns > end_ns ? enqueued_ns : end_ns) + 1001 * US;
        first = next;
    }
    scheduler_finish(c->s, first, END_REFUSED, NULL);
    return before_us;
}

/* How long before is learnt: such that its kernels are enqueued just when the others end. */
Test(batch, a_card_is_handed_batches_as_early_as_they_have_to_be)
{
    static const struct {
        uint32_t late_us, least_us, most_us;
    } hands[] = {{2, 18, 40}, {60, 60, 80}, {300, 300, 320}, {700, 700, 720}};
    for (size_t i = 0; i < sizeof hands / sizeof *hands; i++) {
        struct sched_scene c = sched_scene_open(true);
        sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){1e9, 0, 0});
        sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){0, 1000, 1});
        c.now_ns = MS;
        c.s->settings.window_ns = 100 * MS;
        uint64_t before_us = lead_us(&c, 100, hands[i].late_us);
        cr_assert(before_us >= hands[i].least_us && before_us <= hands[i].most_us,
                  "%u us late: %llu us before", hands[i].late_us, (unsigned long long)before_us);
        sched_scene_close(&c);
    }
}

/* Or no batch would ever wait for others, where a run takes no longer than handing over. */
Test(batch, a_card_is_handed_batches_no_earlier_than_half_a_run_before)
{
    struct sched_scene c = card_of_steps();
    c.s->servers[SERVER_GPU].lead = (struct lead){900 * (double)US, 100 * (double)US};
    send_many(&c, 1);
    cr_assert_eq(dispatched(&c), 1);
    send_many(&c, 1);
    cr_assert_eq(dispatched(&c), 0);
    cr_assert_eq(scheduler_wake_ns(c.s), c.now_ns + 500 * US);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* What takes longer than predicted says nothing about when the card will be done. */
Test(batch, card_that_is_late_is_handed_the_next_batch_at_once)
{
    struct sched_scene c = sched_scene_open(true);
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){1e9, 0, 0});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){0, 1000, 1});
    c.now_ns = MS;
    c.s->settings.window_ns = 100 * MS;
    for (int i = 0; i < 2; i++) {
        struct ticket *t = send(&c, 0, &key_a, 1);
        cr_assert_eq(sched_scene_next(&c), t);
        c.now_ns += 1002 * US;
    }
    struct ticket *third = send(&c, 0, &key_a, 1);
    cr_assert_null(sched_scene_next(&c), "it has company of two");
    c.now_ns += 500 * US;
    cr_assert_eq(sched_scene_next(&c), third);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* Behind long work, which goes in passes there, nobody waits to be handed over. */
Test(batch, card_is_handed_the_next_batch_at_once_beside_long_work)
{
    struct sched_scene c = sched_scene_open(true);
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){1e9, 0, 0});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){0, 10, 10});
    struct ticket *first = send(&c, 0, &key_a, 1000), *second = send(&c, 0, &key_a, 1);
    c.s->settings.batch_queries_max = 1000;
    cr_assert_eq(sched_scene_next(&c), first);
    cr_assert_eq(sched_scene_next(&c), second);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* Each of many is priced at what it adds to those in line: all of them stay on the card, which
 * alone they would fill for longer than the CPU takes for one. */
Test(batch, many_that_join_stay_on_the_card)
{
    struct sched_scene c = sched_scene_open(true);
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){15e6, 0, 0});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){0, 700, 6});
    /* one query of this width is cheap, so that the second seems to add much */
    for (uint32_t octave = 0; octave < COST_SIZES; octave++)
        c.s->model.lines[1][cost_line_of(OPERATION_KNN)].cells[octave][0].bias = -0.4F;
    for (int i = 0; i < 64; i++)
        cr_assert_eq(send(&c, 0, &key_a, 1)->server, SERVER_GPU, "the %d.", i);
    uint64_t queued_ns = c.s->servers[SERVER_GPU].queued_ns;
    cr_assert_leq(queued_ns, 2000 * US, "%llu us", (unsigned long long)(queued_ns / US));
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* Who joins others in line makes it longer by what it adds, not by a whole scan. */
Test(batch, a_line_that_runs_as_one_is_not_long)
{
    struct sched_scene c = scene();
    for (int i = 0; i < 50; i++)
        send(&c, 0, &key_a, 1);
    uint64_t queued = c.s->servers[SERVER_CPU].queued_ns;
    cr_assert(queued >= 1001 * US && queued <= 2000 * US, "%llu us",
              (unsigned long long)(queued / US));
    struct ticket *t = send(&c, 0, NULL, 1);
    cr_assert_eq(t->charge_ns, 1001 * US);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* Taken from another's line: with those that may leave it as well. */
Test(batch, a_batch_changes_servers_as_one)
{
    struct sched_scene c = sched_scene_open(true);
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){0, 1000, 1});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){500e3, 0, 1});
    scheduler_set_server(c.s, SERVER_CPU, true, 2, 0);
    scheduler_set_server(c.s, SERVER_GPU, false, 2, 0);
    struct ticket *t[9];
    for (int i = 0; i < 9; i++)
        t[i] = send(&c, 0, i < 2 ? NULL : &key_a, 1);
    while (sched_scene_next(&c))
        continue;
    scheduler_set_server(c.s, SERVER_GPU, true, 2, 0);
    for (int i = 4; i < 9; i++) /* as if it had been there when they came */
        t[i]->other = SERVER_GPU;
    for (int i = 0; i < 9; i++)
        t[i]->gpu_ns = 501 * US;
    struct dispatch d;
    cr_assert(scheduler_next(c.s, c.now_ns, &d));
    cr_assert_eq(d.first, t[8]); /* which would have waited longest */
    cr_assert_eq(d.server, SERVER_GPU);
    cr_assert_eq(d.count, 5);
    for (int i = 4; i < 9; i++)
        cr_assert(t[i]->server == SERVER_GPU && t[i]->reason == REASON_CHOSEN_FASTER);
    cr_assert_eq(t[2]->server, SERVER_CPU);
    cr_assert_eq(c.s->counters.steals, 1);
    cr_assert_eq(t[8]->charge_ns, 505 * US);
    cr_assert_null(sched_scene_next(&c));
    c.now_ns += MS;
    sched_scene_finish(&c, t[8]);
    cr_assert_eq(t[8]->members, 5); /* for its members' replies */
    cr_assert(t[8]->next);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

/* However far its look goes: it ends. */
Test(batch, the_look_is_bounded)
{
    struct sched_scene c = scene();
    c.s->settings.batch_queries_max = c.s->settings.batch_requests_max = UINT64_MAX;
    for (int i = 0; i < SCENE_TICKETS; i++)
        send(&c, 0, &key_a, 1);
    cr_assert_eq(count_of_next(&c), BATCH_LOOK + 1);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}

Test(batch, all_of_it_goes_back_where_it_was)
{
    struct sched_scene c = scene();
    struct ticket *b = send(&c, 0, &key_b, 1);
    struct ticket *a[3];
    for (int i = 0; i < 3; i++)
        a[i] = send(&c, 0, &key_a, 1);
    cr_assert_eq(sched_scene_next(&c), b);
    int64_t deficit = c.tenancies[0]->flows[0].turn.deficit_ns;
    cr_assert_eq(sched_scene_next(&c), a[0]);
    cr_assert_eq(a[0]->members, 3);
    scheduler_put_back(c.s, a[0]);
    cr_assert_eq(c.s->counters.batches, 0);
    cr_assert_eq(c.s->servers[0].in_flight, 1);
    cr_assert_leq(c.tenancies[0]->flows[0].turn.deficit_ns, deficit > 0 ? deficit : 0);
    const struct flow *f = &c.tenancies[0]->flows[0];
    cr_assert(f->head == a[0] && a[0]->next == a[1] && a[1]->next == a[2] && f->tail == a[2]);
    cr_assert_eq(sched_scene_next(&c), a[0]);
    cr_assert_eq(a[0]->members, 3);
    sched_scene_drain(&c);
    sched_scene_close(&c);
}
