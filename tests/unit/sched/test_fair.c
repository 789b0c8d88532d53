/* Deficit round-robin by itself: one server, flows that always have something ready. */
#include "daemon/sched/fair.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FLOWS = 16 };

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static struct server server;
static struct tenant tenants[FLOWS];
static struct principal principals[FLOWS];
static struct tenancy tenancies[FLOWS];
static struct ticket tickets[FLOWS];
static struct scheduler_settings settings = {.quantum_ns = 500 * US, .age_ns = 1000 * MS};

/* Of tenant i, which is all that principal i has. */
static struct flow *flow(uint32_t i)
{
    struct flow *f = &tenancies[i].flows[0];
    if (f->tenancy) return f;
    tenancies[i] = (struct tenancy){.tenant = &tenants[i], .principal = &principals[i]};
    f->tenancy = &tenancies[i];
    f->stake = &principals[i].stakes[0];
    f->turn.weight = f->stake->turn.weight = 1;
    return f;
}

static void join(uint32_t i, uint32_t weight, uint64_t now_ns)
{
    tenants[i].quotas.weight = weight;
    fair_join(&server, flow(i), now_ns);
    flow(i)->ready = &tickets[i];
}

/* Which is served next, with that much. */
static uint32_t serve(uint64_t charge_ns, uint64_t now_ns)
{
    bool aged;
    struct flow *f = fair_choose(&server, &settings, now_ns, &aged);
    cr_assert(f && f->ready);
    fair_charge(&server, f, charge_ns, settings.age_ns, now_ns);
    return (uint32_t)(f->tenancy->tenant - tenants);
}

Test(fair, nobody_there_is_nobody_served)
{
    bool aged;
    cr_assert_null(fair_choose(&server, &settings, 1, &aged));
    cr_assert_null(fair_choose_now(&server, &settings));
    join(0, 1, 1);
    flow(0)->ready = NULL; /* it waits for company */
    cr_assert_null(fair_choose(&server, &settings, 2, &aged));
    cr_assert_null(fair_choose_now(&server, &settings));
    fair_leave(&server, flow(0));
    cr_assert(!server.principals.first && !server.flow_count && !server.principals.weights);
}

/* Whatever their sizes, time is shared by weight. */
Test(fair, time_is_shared_by_weight)
{
    uint64_t got[FLOWS] = {0}, sum = 0, weights = 0, now = 0;
    for (uint32_t i = 0; i < FLOWS; i++) {
        join(i, 1 + i % 4, 0);
        weights += 1 + i % 4;
    }
    settings.age_ns = UINT64_MAX / 4;
    for (int n = 0; n < 200000; n++) {
        bool aged;
        struct flow *f = fair_choose(&server, &settings, now, &aged);
        uint64_t i = (uint64_t)(f->tenancy->tenant - tenants), took = (1 + i * i) * 10 * US;
        fair_charge(&server, f, took, settings.age_ns, now);
        got[i] += took;
        sum += took;
        now += took;
    }
    for (uint32_t i = 0; i < FLOWS; i++) {
        double fair = (double)sum * (1 + i % 4) / (double)weights;
        cr_assert_lt(fabs((double)got[i] / fair - 1), 0.01, "flow %u: %.3f", i,
                     (double)got[i] / fair);
    }
}

/* A flow in debt of a million milliseconds costs one step, not a million visits. */
Test(fair, empty_rounds_are_jumped_over)
{
    join(0, 1, 0);
    join(1, 1000, 0);
    settings.age_ns = UINT64_MAX / 4;
    for (uint64_t n = 0; n < 1000; n++)
        serve(1000000 * MS, n);
    cr_assert(server.principals.granted_ns > 0);
}

Test(fair, turns_are_as_short_as_they_can_be)
{
    join(0, 1, 0);
    join(1, 1, 0);
    uint32_t last = serve(50 * US, 0);
    for (int n = 0; n < 100; n++) {
        uint32_t now = serve(50 * US, 0);
        cr_assert_neq(now, last, "step %d", n);
        last = now;
    }
}

/* Who waits for company catches up, by no more than a quantum. */
Test(fair, savings_are_bounded)
{
    join(0, 1, 0);
    join(1, 1, 0);
    settings.age_ns = UINT64_MAX / 4;
    flow(1)->ready = NULL;
    for (int n = 0; n < 1000; n++)
        cr_assert_eq(serve(50 * US, 0), 0);
    flow(1)->ready = &tickets[1];
    uint32_t row = 0;
    while (serve(50 * US, 0) == 1)
        row++;
    cr_assert(row >= 10 && row <= 11, "%u", row); /* 500 us */
}

/* Who asks for one thing at a time leaves the round each time: that forgives nothing. */
Test(fair, leaving_forgives_no_debt)
{
    uint64_t got[2] = {0};
    settings.age_ns = UINT64_MAX / 4;
    server.in_flight = 1; /* never idle */
    join(0, 1, 0);
    for (int n = 0; n < 10000; n++) {
        join(1, 1, 0);
        bool aged;
        struct flow *f = fair_choose(&server, &settings, 0, &aged);
        uint64_t took = f == flow(1) ? 5 * MS : 1 * MS;
        fair_charge(&server, f, took, settings.age_ns, 0);
        got[f == flow(1)] += took;
        fair_leave(&server, flow(1));
    }
    cr_assert_lt(fabs((double)got[1] / (double)got[0] - 1), 0.01, "%.3f",
                 (double)got[1] / (double)got[0]);
}

Test(fair, a_server_that_idles_forgives_and_saves_nothing)
{
    join(0, 1, 0);
    serve(800 * MS, 0);
    fair_leave(&server, flow(0));
    server.finished_ns = 1;
    cr_assert_eq(fair_deficit_ns(&server, flow(0)), -800 * (int64_t)MS);
    join(1, 1, 400 * MS + 1); /* idle for half of that */
    cr_assert_eq(fair_deficit_ns(&server, flow(0)), -400 * (int64_t)MS);
    fair_leave(&server, flow(1));
    join(1, 1, 100000 * MS);
    cr_assert_eq(fair_deficit_ns(&server, flow(0)), 0);
    cr_assert_eq(fair_deficit_ns(&server, flow(1)), 0);
}

Test(fair, who_was_not_served_for_long_goes_first)
{
    join(0, 1, 0);
    join(1, 1000, 0);
    settings.age_ns = 10 * MS;
    serve(5 * MS, 0);
    uint64_t now = 0, longest = 0, last = 0;
    for (int n = 0; n < 1000; n++, now += MS) {
        bool aged;
        struct flow *f = fair_choose(&server, &settings, now, &aged);
        cr_assert_eq(aged, now - f->turn.served_ns >= settings.age_ns);
        fair_charge(&server, f, MS, settings.age_ns, now);
        if (f != flow(0)) continue;
        if (now - last > longest) longest = now - last;
        last = now;
    }
    cr_assert(longest >= 9 * MS && longest <= 11 * MS, "%llu", (unsigned long long)longest);
}

Test(fair, what_it_took_is_what_counts)
{
    join(0, 1, 0);
    serve(10 * MS, 0);
    fair_correct(&server, flow(0), 10 * MS, 4 * MS, settings.quantum_ns);
    cr_assert_eq(fair_deficit_ns(&server, flow(0)), -4 * (int64_t)MS);
    fair_correct(&server, flow(0), MS, 1000 * MS, settings.quantum_ns); /* a hang, within bounds */
    cr_assert_geq(fair_deficit_ns(&server, flow(0)), -21 * (int64_t)MS);
    fair_leave(&server, flow(0));
    fair_correct(&server, flow(0), 100 * MS, 0, settings.quantum_ns);
    cr_assert_eq(fair_deficit_ns(&server, flow(0)), 0); /* nothing to save */
}

/* Aging serves who is in debt beyond age_ns: that debt would only grow. */
Test(fair, debts_end_at_the_age)
{
    join(0, 1, 0);
    settings.age_ns = 10 * MS;
    for (int n = 0; n < 10; n++)
        fair_charge(&server, flow(0), 5 * MS, settings.age_ns, 0);
    cr_assert_eq(fair_deficit_ns(&server, flow(0)), -10 * (int64_t)MS);
    fair_charge(&server, flow(0), 70 * MS, settings.age_ns, 0);
    cr_assert_eq(fair_deficit_ns(&server, flow(0)), -70 * (int64_t)MS);
}

Test(fair, who_owes_least_of_all_there_passes)
{
    join(0, 1, 0);
    join(1, 1, 0);
    cr_assert_eq(fair_choose_now(&server, &settings), flow(0));
    fair_charge(&server, flow(0), MS, settings.age_ns, 0);
    cr_assert_eq(fair_choose_now(&server, &settings), flow(1));
    fair_charge(&server, flow(1), 2 * MS, settings.age_ns, 0);
    flow(0)->ready = NULL; /* too long to pass, but it would be its turn */
    cr_assert_null(fair_choose_now(&server, &settings));
    fair_leave(&server, flow(0));
    server.oldest = &tickets[0]; /* and so it would with all it has in flight */
    tickets[0].tenancy = &tenancies[0];
    cr_assert_null(fair_choose_now(&server, &settings));
    fair_charge(&server, flow(0), 5 * MS, settings.age_ns, 0);
    cr_assert_eq(fair_choose_now(&server, &settings), flow(1));
    cr_assert_eq(fair_deficit_ns(&server, flow(1)), 0);
    cr_assert_eq(fair_deficit_ns(&server, flow(0)), -4 * (int64_t)MS);
}

Test(fair, rounds_are_granted_until_one_is_out_of_debt)
{
    join(0, 3, 0);
    fair_charge(&server, flow(0), MS, settings.age_ns, 0);
    fair_grant(&server, flow(0));
    cr_assert(fair_deficit_ns(&server, flow(0)) >= 0);
    cr_assert(fair_deficit_ns(&server, flow(0)) < 3);
    fair_leave(&server, flow(0));
    cr_assert_eq(fair_deficit_ns(&server, flow(0)), 0);
}

Test(fair, what_is_ahead_is_by_shares)
{
    join(0, 1, 0);
    join(1, 3, 0);
    flow(0)->queued_ns = flow(0)->stake->queued_ns = 10 * MS;
    flow(1)->queued_ns = flow(1)->stake->queued_ns = 90 * MS;
    server.queued_ns = 100 * MS;
    cr_assert_eq(fair_ahead_ns(&server, flow(0), 10 * MS, 2 * MS), 10 * MS + 3 * 12 * MS);
    cr_assert_eq(fair_ahead_ns(&server, flow(0), 10 * MS, 100 * MS), 100 * MS); /* all there is */
    tenants[2].quotas.weight = 1;
    cr_assert_eq(fair_ahead_ns(&server, flow(2), 0, 1 * MS), 4 * MS); /* not in the round yet */
}

Test(fair, a_weight_set_anew_counts_at_once)
{
    join(0, 1, 0);
    join(1, 1, 0);
    settings.age_ns = UINT64_MAX / 4;
    tenants[1].quotas.weight = 3;
    uint32_t got[2] = {0};
    for (int n = 0; n < 4000; n++)
        got[serve(MS, 0)]++;
    cr_assert_eq(server.principals.weights, 4);
    cr_assert(got[1] > 2950 && got[1] < 3050, "%u", got[1]);
}

/* -------------------------------------------------------------- several flows of one principal */

/* Gives tenant i to the principal of tenant `of`. */
static void give_to(uint32_t i, uint32_t of)
{
    flow(i)->stake = flow(of)->stake;
    tenancies[i].principal = &principals[of];
}

/* However many spaces a principal has, and whatever they weigh, it has one part. */
Test(fair, spaces_invented_gain_nothing)
{
    uint64_t got[FLOWS] = {0}, now = 0;
    settings.age_ns = UINT64_MAX / 4;
    for (uint32_t i = 2; i < FLOWS; i++)
        give_to(i, 1);
    for (uint32_t i = 0; i < FLOWS; i++)
        join(i, 1, 0);
    for (int n = 0; n < 100000; n++, now += MS)
        got[serve(MS, now)]++;
    cr_assert(got[0] >= 49999 && got[0] <= 50001, "%llu", (unsigned long long)got[0]);
    for (uint32_t i = 1; i < FLOWS; i++)
        cr_assert(got[i] >= 3330 && got[i] <= 3336, "%u: %llu", i, (unsigned long long)got[i]);
    for (uint32_t i = 0; i < FLOWS; i++)
        fair_leave(&server, flow(i));
    cr_assert(!server.principals.first && !server.flow_count && !server.principals.weights);
    cr_assert(!principals[1].stakes[0].flows.first && !principals[1].stakes[0].flows.weights);
}

/* Principal 1 has spaces of weights 2 and 6 and weighs 6; principal 0 weighs 2. */
Test(fair, a_principal_weighs_what_its_heaviest_space_does)
{
    uint64_t got[3] = {0};
    settings.age_ns = UINT64_MAX / 4;
    give_to(2, 1);
    join(0, 2, 0);
    join(1, 2, 0);
    join(2, 6, 0);
    for (int n = 0; n < 80000; n++)
        got[serve(MS, 0)]++;
    cr_assert(got[0] >= 19990 && got[0] <= 20010, "%llu", (unsigned long long)got[0]);
    cr_assert(got[1] >= 14990 && got[1] <= 15010, "%llu", (unsigned long long)got[1]);
    fair_leave(&server, flow(2)); /* without it both weigh as much */
    memset(got, 0, sizeof got);
    for (int n = 0; n < 80000; n++)
        got[serve(MS, 0)]++;
    cr_assert(got[0] >= 39990 && got[0] <= 40010, "%llu", (unsigned long long)got[0]);
}

/* Spaces that were not served for long are first among those of their principal, not of all. */
Test(fair, age_does_not_pass_principals)
{
    uint64_t got[FLOWS] = {0}, now = 0;
    settings.age_ns = 10 * MS; /* shorter than a round of all spaces */
    for (uint32_t i = 2; i < FLOWS; i++)
        give_to(i, 1);
    for (uint32_t i = 0; i < FLOWS; i++)
        join(i, 1, 0);
    for (int n = 0; n < 10000; n++, now += MS)
        got[serve(MS, now)]++;
    cr_assert(got[0] >= 4999 && got[0] <= 5001, "%llu", (unsigned long long)got[0]);
}

Test(fair, who_passes_owes_least_in_its_principal_too)
{
    give_to(2, 1);
    join(0, 1, 0);
    join(1, 1, 0);
    join(2, 1, 0);
    fair_charge(&server, flow(1), MS, settings.age_ns, 0);
    flow(0)->ready = flow(2)->ready = NULL;
    cr_assert_null(fair_choose_now(&server, &settings)); /* 0 owes less */
    fair_charge(&server, flow(0), 2 * MS, settings.age_ns, 0);
    cr_assert_null(fair_choose_now(&server, &settings)); /* 2 does */
    flow(2)->ready = &tickets[2];
    cr_assert_eq(fair_choose_now(&server, &settings), flow(2));
    fair_leave(&server, flow(2));
    tickets[2].tenancy = &tenancies[2]; /* and so it does with all that it has in flight */
    server.oldest = &tickets[2];
    cr_assert_null(fair_choose_now(&server, &settings));
    fair_charge(&server, flow(2), 5 * MS, settings.age_ns, 0);
    fair_charge(&server, flow(0), 9 * MS, settings.age_ns, 0);
    cr_assert_eq(fair_choose_now(&server, &settings), flow(1));
    cr_assert(fair_owes_less(&server, flow(1), flow(2)));
    cr_assert(fair_owes_less(&server, flow(2), flow(0)));
}

Test(fair, all_flows_are_met_once)
{
    cr_assert_null(fair_first(&server));
    for (uint32_t i = 0; i < FLOWS; i++) {
        if (i % 4) give_to(i, i - i % 4);
        join(i, 1, 0);
    }
    uint32_t met = 0;
    for (const struct flow *f = fair_first(&server); f; f = fair_next(&server, f))
        met |= 1u << (f->tenancy - tenancies);
    cr_assert_eq(met, (1u << FLOWS) - 1);
    serve(MS, 0);
    met = 0;
    for (const struct flow *f = fair_first(&server); f; f = fair_next(&server, f))
        met++;
    cr_assert_eq(met, FLOWS);
}
