#include <criterion/criterion.h>

#include "proto/foresight.h"

enum {
    RUN_NS = 700000,
    SHORT_NS = 100000,     /* whoever sleeps for longer */
    LATE_DEEP_NS = 250000, /* wakes late by up to so much, */
    LATE_SHORT_NS = 10000, /* and otherwise by so much */
    LATE_SPREAD_NS = 2000,
    ENDS = 400
};

static uint64_t random_below(uint64_t *state, uint64_t bound)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % bound;
}

/* A sleeper that waits for one end after the other; times are of one virtual clock. */
struct sleeper {
    struct foresight ends;
    struct foresight_sleep sleep;
    struct foresight_budget budget;
    uint64_t now_ns, dice;
    uint64_t missed, watched_ns, naps; /* missed: ends that came while it slept */
    bool always_deep;                  /* its naps, too, end as late as long sleeps */
};

static void sleep_as_planned(struct sleeper *s, const struct foresight_plan *p)
{
    bool deep = s->always_deep || p->wake_ns - s->now_ns > SHORT_NS;
    s->naps += !deep;
    s->now_ns = p->wake_ns + (deep ? random_below(&s->dice, LATE_DEEP_NS)
                                   : LATE_SHORT_NS + random_below(&s->dice, LATE_SPREAD_NS));
    if (!p->early) foresight_slept(&s->sleep, p->wake_ns, s->now_ns);
}

/* Waits for what began now and takes run_ns, predicted as predicted_ns; its sleeps end late. */
static void wait_for(struct sleeper *s, uint64_t predicted_ns, uint64_t run_ns)
{
    uint64_t began_ns = s->now_ns, end_ns = began_ns + run_ns;
    uint64_t takes_ns = foresight_ns(&s->ends, predicted_ns);
    bool watched = true;
    if (takes_ns) {
        uint64_t doubt_ns = foresight_doubt_ns(&s->ends, predicted_ns);
        struct foresight_plan p;
        while ((p = foresight_plan(began_ns, takes_ns, doubt_ns, &s->sleep, s->now_ns)).wake_ns &&
               s->now_ns < end_ns)
            sleep_as_planned(s, &p);
        watched = s->now_ns < end_ns;
        s->missed += !watched;
        uint64_t left_ns = foresight_budget_left(&s->budget, s->now_ns);
        uint64_t until_ns = p.until_ns < s->now_ns + left_ns ? p.until_ns : s->now_ns + left_ns;
        uint64_t stop_ns = end_ns < until_ns ? end_ns : until_ns;
        if (stop_ns > s->now_ns) {
            foresight_budget_spend(&s->budget, stop_ns - s->now_ns);
            s->watched_ns += stop_ns - s->now_ns;
        }
    }
    watched |= s->now_ns < end_ns; /* it was looked for after it was expected */
    if (s->now_ns < end_ns) s->now_ns = end_ns;
    foresight_learn(&s->ends, predicted_ns, s->now_ns - began_ns, watched);
}

static struct sleeper sleeper_of(uint32_t percent)
{
    struct sleeper s = {.now_ns = 1, .dice = 42};
    foresight_budget_init(&s.budget, percent, s.now_ns);
    return s;
}

Test(foresight, nothing_is_foreseen_before_it_was_seen)
{
    struct foresight f = {0};
    cr_assert_eq(foresight_ns(&f, RUN_NS), 0);
    for (int i = 0; i < FORESIGHT_SEEN_MIN; i++)
        foresight_learn(&f, RUN_NS, 2 * RUN_NS, true);
    uint64_t ns = foresight_ns(&f, RUN_NS);
    cr_assert(ns > 2 * RUN_NS - 100 && ns < 2 * RUN_NS + 100, "%llu", (unsigned long long)ns);
    cr_assert_eq(foresight_ns(&f, 0), 0, "there is no prediction");
}

/* It wakes before the end although long sleeps end late, since it naps at last, and watches for
 * little of the time. */
Test(foresight, sleeper_wakes_shortly_before_the_end)
{
    struct sleeper s = sleeper_of(100);
    for (int i = 0; i < ENDS; i++) {
        if (i == ENDS / 2) s.missed = s.watched_ns = s.naps = 0;
        wait_for(&s, RUN_NS * 9 / 10, RUN_NS + random_below(&s.dice, RUN_NS / 100));
        s.now_ns += 30000;
    }
    cr_assert_eq(s.missed, 0);
    cr_assert_geq(s.naps, ENDS / 2);
    cr_assert_leq(s.naps, (uint64_t)ENDS / 2 * 6, "%llu", (unsigned long long)s.naps);
    cr_assert_leq(s.watched_ns, (uint64_t)ENDS / 2 * 60000, "%llu",
                  (unsigned long long)s.watched_ns / (ENDS / 2));
}

/* Where naps end as late as long sleeps, it wakes so much earlier. */
Test(foresight, sleeper_that_always_wakes_late_wakes_earlier)
{
    struct sleeper s = sleeper_of(100);
    s.always_deep = true;
    for (int i = 0; i < ENDS; i++) {
        if (i == ENDS / 2) s.missed = 0;
        wait_for(&s, 3 * RUN_NS, 3 * RUN_NS + random_below(&s.dice, RUN_NS / 100));
    }
    cr_assert_leq(s.missed, ENDS / 2 / 20, "%llu", (unsigned long long)s.missed);
}

/* What was expected too soon is looked for in vain, and expected later the next time. */
Test(foresight, what_was_looked_for_in_vain_is_expected_later)
{
    struct sleeper s = sleeper_of(100);
    for (int i = 0; i < 50; i++)
        wait_for(&s, RUN_NS, RUN_NS);
    for (int i = 0; i < 100; i++)
        wait_for(&s, RUN_NS, RUN_NS * 5 / 4);
    uint64_t ns = foresight_ns(&s.ends, RUN_NS);
    cr_assert(ns > RUN_NS * 5 / 4 * 98 / 100 && ns < RUN_NS * 5 / 4 * 102 / 100, "%llu",
              (unsigned long long)ns);
}

/* What was expected too late is found ended again and again, and expected sooner each time. */
Test(foresight, what_ended_unseen_is_expected_sooner)
{
    struct sleeper s = sleeper_of(100);
    for (int i = 0; i < 50; i++)
        wait_for(&s, RUN_NS, 2 * RUN_NS);
    uint64_t later_ns = foresight_ns(&s.ends, RUN_NS);
    for (int i = 0; i < 100; i++)
        wait_for(&s, RUN_NS, RUN_NS);
    cr_assert_gt(later_ns, RUN_NS * 19 / 10);
    cr_assert_lt(foresight_ns(&s.ends, RUN_NS), RUN_NS * 11 / 10);
    s.missed = 0;
    for (int i = 0; i < 100; i++)
        wait_for(&s, RUN_NS, RUN_NS);
    cr_assert_leq(s.missed, 10, "%llu", (unsigned long long)s.missed);
}

/* Sleepers in deep sleep wake late now and then; that must not end the foresight, which is what
 * spares them such sleeps. */
Test(foresight, one_end_in_seven_may_be_seen_late)
{
    struct foresight f = {0};
    uint64_t dice = 7;
    for (int i = 0; i < ENDS; i++) {
        uint64_t late_ns = i % 7 ? 0 : RUN_NS / 4;
        foresight_learn(&f, RUN_NS, RUN_NS + late_ns + random_below(&dice, RUN_NS / 50), true);
        if (i < 60) continue;
        uint64_t ns = foresight_ns(&f, RUN_NS);
        cr_assert(ns > RUN_NS * 95 / 100 && ns < RUN_NS * 110 / 100, "%d: %llu", i,
                  (unsigned long long)ns);
    }
}

/* Where nothing is foreseen the sleeper is woken by the end, which it never sees come: from that it
 * learns, too, or it would never foresee anything again. */
Test(foresight, after_ends_that_scattered_it_is_foreseen_again)
{
    struct foresight f = {0};
    uint64_t dice = 7;
    for (int i = 0; i < ENDS; i++)
        foresight_learn(&f, RUN_NS, RUN_NS / 2 + random_below(&dice, RUN_NS), true);
    cr_assert_eq(foresight_ns(&f, RUN_NS), 0);
    for (int i = 0; i < ENDS && !foresight_ns(&f, RUN_NS); i++)
        foresight_learn(&f, RUN_NS, RUN_NS + random_below(&dice, RUN_NS / 50), false);
    uint64_t ns = foresight_ns(&f, RUN_NS);
    cr_assert(ns > RUN_NS * 9 / 10 && ns < RUN_NS * 11 / 10, "%llu", (unsigned long long)ns);
}

Test(foresight, ends_that_scatter_are_not_foreseen)
{
    struct foresight f = {0};
    uint64_t dice = 7;
    for (int i = 0; i < ENDS; i++)
        foresight_learn(&f, RUN_NS, RUN_NS / 2 + random_below(&dice, RUN_NS), true);
    cr_assert_eq(foresight_ns(&f, RUN_NS), 0);
}

/* Of runs that follow each other, no more than the share is watched, beyond what was saved. */
Test(foresight, watching_stays_within_its_share)
{
    struct sleeper s = sleeper_of(5);
    while (s.now_ns < UINT64_C(2000000000))
        wait_for(&s, 50000, 50000);
    uint64_t most_ns = s.now_ns / 20 + FORESIGHT_BUDGET_NS / 20;
    cr_assert_leq(s.watched_ns, most_ns, "%llu", (unsigned long long)s.watched_ns);
    cr_assert_gt(s.watched_ns, most_ns / 2);
}

Test(foresight, share_of_nothing_is_never_watched)
{
    struct sleeper s = sleeper_of(0);
    for (int i = 0; i < ENDS; i++)
        wait_for(&s, RUN_NS, RUN_NS);
    cr_assert_eq(s.watched_ns, 0);
}

Test(foresight, predictions_that_differ_are_corrected_apart)
{
    struct foresight_table t = {0};
    cr_assert_neq(foresight_of(&t, 80000), foresight_of(&t, 700000));
    cr_assert_eq(foresight_of(&t, 0), &t.octaves[0]);
    cr_assert_eq(foresight_of(&t, UINT64_MAX), &t.octaves[FORESIGHT_OCTAVES - 1]);
}
