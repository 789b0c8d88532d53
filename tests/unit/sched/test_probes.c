/* Probes: how many, of what, at whose cost, and when again. */
#include "daemon/sched/probes.h"

#include <criterion/criterion.h>

static struct probes p;

enum { KNN = OPERATION_KNN };

static bool due(uint64_t chosen_ns, uint64_t other_ns)
{
    return probes_due(&p, BACKEND_GPU, KNN, chosen_ns, other_ns);
}

static void saw(uint64_t predicted_ns, uint64_t seen_ns)
{
    probes_saw(&p, BACKEND_GPU, KNN, predicted_ns, seen_ns, true);
}

/* On the same backend, where it was chosen. */
static void saw_chosen(uint64_t predicted_ns, uint64_t seen_ns)
{
    probes_saw(&p, BACKEND_GPU, KNN, predicted_ns, seen_ns, false);
}

/* Open decisions of one kind until one becomes a probe; 0: not within 10,000. */
static uint32_t until_due(uint64_t chosen_ns, uint64_t other_ns)
{
    for (uint32_t n = 1; n <= 10000; n++)
        if (due(chosen_ns, other_ns)) return n;
    return 0;
}

Test(probes, without_a_share_there_are_none)
{
    probes_init(&p, 0);
    cr_assert_eq(until_due(1000000, 1), 0);
    probes_init(&p, -1);
    cr_assert_eq(until_due(1000000, 1), 0);
}

/* Beside requests of 300 ms, one in some dozens of 1 ms was sent where it takes 26. */
Test(probes, long_work_does_not_pay_for_short)
{
    probes_init(&p, 0.02);
    uint32_t probed = 0;
    for (uint32_t n = 0; n < 10000; n++) {
        if (n % 50 == 0) due(300000000, 400000000);
        probed += due(1000000, 26000000);
    }
    cr_assert_leq(probed, 10000 * 0.02 / 25);
    cr_assert_gt(probed, 0);
}

/* Of a backend that takes 80 times as long a tenth of the share is enough. */
Test(probes, what_is_far_slower_gets_a_smaller_share)
{
    enum { DECISIONS = 100000, TIMES = 80 };
    probes_init(&p, 0.02);
    uint32_t probed = 0;
    for (uint32_t n = 0; n < DECISIONS; n++)
        if (due(1000000, TIMES * 1000000)) {
            saw(TIMES * 1000000, TIMES * 1000000);
            probed++;
        }
    cr_assert_leq(probed, DECISIONS * 0.02 / 10 / (TIMES - 1));
    cr_assert_geq(probed, DECISIONS * 0.02 / 10 / (TIMES - 1) - 1);
}

Test(probes, they_become_rare_while_nothing_surprises)
{
    probes_init(&p, 0.02);
    uint32_t last = until_due(1000000, 1100000), total = last;
    cr_assert_eq(last, 16);
    for (uint32_t i = 0; i < 12; i++) {
        saw(1100000, 1150000);
        uint32_t gap = until_due(1000000, 1100000);
        cr_assert_geq(gap, last);
        cr_assert_leq(gap, 512);
        last = gap;
        total += gap;
    }
    cr_assert_geq(last, 256);
    cr_assert_eq(p.lines[1][cost_line_of(KNN)].probes, 13);
    cr_assert_eq(p.lines[1][cost_line_of(KNN)].surprising, 0);
}

/* Over any mix, predicted extra time stays under the share, and jobs under one in sixteen. */
Test(probes, time_and_number_are_bounded)
{
    uint64_t chance = 5;
    probes_init(&p, 0.02);
    double extra = 0, spent = 0;
    uint32_t probes = 0;
    for (uint32_t i = 1; i <= 100000; i++) {
        chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t chosen = UINT64_C(1000) << (chance >> 60), factor = 1 + (chance >> 50) % 50;
        spent += (double)chosen;
        if (due(chosen, chosen + chosen * factor / 5)) {
            extra += (double)(chosen * factor / 5);
            probes++;
            saw(chosen, chosen);
        }
        cr_assert_leq(extra, 0.02 * spent);
        cr_assert_leq(probes, i / 16);
    }
    cr_assert_gt(probes, 100);
}

Test(probes, cheap_ones_go_first_and_dear_ones_wait_until_they_are_paid)
{
    probes_init(&p, 0.02);
    for (uint32_t i = 0; i < 16; i++) {
        cr_assert(!due(1000000, 8000000));
        if (due(1000000, 1010000)) break;
        cr_assert_lt(i, 15, "the cheap one is not due");
    }
    uint32_t dear = until_due(1000000, 8000000);
    cr_assert_geq(dear, 7000000 / 20000 - 40);
    cr_assert_leq(dear, 7000000 / 20000 + 40);
}

/* Even when both are paid for: less hangs on what the other road would take long over. */
Test(probes, near_ties_have_their_turn_before_the_dear)
{
    probes_init(&p, 0.02);
    cr_assert(!due(1000000000, 1001000000)); /* this pays for all that follow */
    uint32_t dear = 0;
    for (uint32_t i = 1; i < 16; i++)
        dear += due(1000000, 1900000);
    cr_assert_eq(dear, 0);
    cr_assert(!due(1000000, 1900000), "due, but not its turn");
    cr_assert(due(1000000, 1100000));
}

Test(probes, what_a_probe_did_not_cost_is_given_back)
{
    probes_init(&p, 0.02);
    const struct probe_line *l = &p.lines[1][cost_line_of(KNN)];
    cr_assert_gt(until_due(1000000, 2000000), 0);
    double left = l->saved_ns[l->staked];
    saw(2000000, 1200000);
    cr_assert_float_eq(l->saved_ns[l->staked], left + 800000, 1);
    saw_chosen(2000000, 1200000);
    cr_assert_float_eq(l->saved_ns[l->staked], left + 800000, 1);
}

Test(probes, a_hot_size_does_not_starve_the_others)
{
    probes_init(&p, 0.02);
    uint32_t hot = 0, rare = 0;
    for (uint32_t i = 0; i < 50000; i++) {
        bool is_rare = i % 64 == 63;
        uint64_t chosen = is_rare ? 5000000 : 100000;
        if (!due(chosen, chosen + chosen / 10)) continue;
        *(is_rare ? &rare : &hot) += 1;
        saw(chosen, chosen);
    }
    cr_assert_gt(rare * 3, hot, "%u of the rare size, %u of the hot one", rare, hot);
}

Test(probes, a_surprise_is_looked_at_again_at_once)
{
    probes_init(&p, 0.02);
    for (uint32_t i = 0; i < 5; i++) { /* so that it has become rare */
        cr_assert_gt(until_due(1000000, 1001000), 0);
        saw(1001000, 1001000);
    }
    cr_assert_gt(until_due(1000000, 1001000), 100);
    saw(1001000, 300000);
    uint32_t again = 0;
    while (until_due(1000000, 1001000) == 1) {
        cr_assert_leq(++again, 8, "a road that always surprises is not probed by every job");
        saw(1001000, 300000);
    }
    cr_assert_geq(again, 3);
    saw(1001000, 1000000); /* the model has followed */
    cr_assert_geq(until_due(1000000, 1001000), 16);
}

/* However often it was slower before: the first sign that it is back counts. */
Test(probes, a_surprise_the_other_way_is_a_new_one)
{
    probes_init(&p, 0.02);
    for (uint32_t i = 0; i < 20; i++)
        saw_chosen(1000000, 3000000);
    cr_assert_gt(until_due(1000000, 1100000), 0);
    saw(1100000, 300000);
    cr_assert_eq(until_due(1000000, 1100000), 1);
}

Test(probes, an_accident_of_a_chosen_run_changes_nothing)
{
    struct probes before;
    probes_init(&p, 0.02);
    until_due(1000000, 1001000);
    saw(1001000, 1001000);
    before = p;
    saw_chosen(1000000, 30000000);
    cr_assert_eq(p.lines[1][0].next_at, before.lines[1][0].next_at);
    cr_assert_eq(p.lines[1][0].interval, before.lines[1][0].interval);
    saw(0, 5);
    saw(5, 0);
    cr_assert_eq(p.lines[1][0].surprising, 1);
}

/* Chosen runs show that the GPU became slower; then it is the road not taken. */
Test(probes, a_lost_road_is_looked_for_soon_then_ever_less_often)
{
    probes_init(&p, 0.02);
    for (uint32_t i = 0; i < 6; i++) {
        until_due(1000000, 1100000);
        saw(1100000, 1100000);
    }
    for (uint32_t i = 0; i < 4; i++)
        saw_chosen(1000000, 10000000);
    saw_chosen(9000000, 10000000);
    uint32_t first = until_due(1000000, 1400000), last = first;
    cr_assert_leq(first, 20);
    for (uint32_t i = 0; i < 12; i++) {
        saw(1400000, 1400000);
        uint32_t gap = until_due(1000000, 1400000);
        cr_assert_geq(gap, last);
        last = gap;
    }
    cr_assert(last >= 32 && last <= 50, "%u", last);
    /* It is back for one operation: the others have a look, too. */
    for (uint32_t i = 0; i < 3; i++) {
        saw(1400000, 100000);
        until_due(1000000, 1400000);
    }
    for (uint32_t i = 1; i <= 2; i++)
        if (probes_due(&p, BACKEND_GPU, OPERATION_SIMILARITY, 1000000, 1000100)) return;
    cr_assert_fail("not looked at");
}

/* What a dear probe costs is saved sooner, the first few times after the road became slower: with
 * 2 % it would take 350 decisions each. A model that learns fast is surprised once. */
Test(probes, a_dear_road_that_was_lost_is_looked_for_all_the_same)
{
    probes_init(&p, 0.02);
    saw_chosen(1000000, 10000000);
    saw_chosen(4000000, 10000000);
    for (uint32_t i = 0; i < 10; i++) {
        cr_assert_leq(until_due(1000000, 8000000), 50);
        saw(8000000, 8000000);
    }
    cr_assert_geq(until_due(1000000, 8000000), 200);
}

/* One slow run says nothing. */
Test(probes, a_single_spike_hurries_nobody)
{
    probes_init(&p, 0.02);
    saw_chosen(1000000, 10000000);
    saw_chosen(1000000, 1000000);
    saw_chosen(1000000, 10000000);
    cr_assert_eq(p.lines[1][cost_line_of(KNN)].hurried, 0);
}

/* Held back for its failures though it should be faster: trying is free while it works. */
Test(probes, a_barred_road_is_tried_steadily_while_it_answers)
{
    probes_init(&p, 0.02);
    cr_assert_leq(until_due(1000000, 100000), 16);
    for (uint32_t i = 0; i < 10; i++) {
        saw(100000, 100000);
        cr_assert_eq(until_due(1000000, 100000), 8);
    }
    uint32_t last = 8;
    for (uint32_t i = 0; i < 10; i++) { /* none comes back */
        saw_chosen(100000, 100000);     /* nor is this one */
        uint32_t gap = until_due(1000000, 100000);
        cr_assert_geq(gap, last);
        last = gap;
    }
    cr_assert_eq(last, 64);
    saw(100000, 100000);
    cr_assert_eq(until_due(1000000, 100000), 8);
}
