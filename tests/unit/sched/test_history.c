/* The ring of decisions: newest first, each space its own. */
#include "daemon/sched/history.h"

#include <criterion/criterion.h>

static struct decisions all;

static void add(uint32_t space, uint64_t number)
{
    struct decision one = {.space = space, .took_ns = number, .reason = REASON_PROBE};
    decisions_add(&all, &one);
}

Test(decisions, the_newest_come_first)
{
    struct decision out[8];
    cr_assert_eq(decisions_of(&all, 1, out, 8), 0);
    for (uint64_t i = 0; i < 5; i++)
        add(1, i);
    cr_assert_eq(decisions_of(&all, 1, out, 8), 5);
    for (uint64_t i = 0; i < 5; i++)
        cr_assert_eq(out[i].took_ns, 4 - i);
    cr_assert_eq(out[0].reason, REASON_PROBE);
    cr_assert_eq(decisions_of(&all, 1, out, 2), 2);
    cr_assert_eq(out[1].took_ns, 3);
    cr_assert_eq(decisions_of(&all, 1, out, 0), 0);
}

Test(decisions, spaces_see_their_own_and_old_ones_go)
{
    static struct decision out[DECISIONS_KEPT + 1];
    add(7, 1000000);
    cr_assert_eq(decisions_of(&all, 7, out, 4), 1);
    for (uint64_t i = 0; i < DECISIONS_KEPT - 1; i++)
        add(i % 2 ? 1 : 2, i);
    cr_assert_eq(decisions_of(&all, 7, out, 4), 1, "just still there");
    add(1, 1);
    cr_assert_eq(decisions_of(&all, 7, out, 4), 0);
    uint32_t ones = decisions_of(&all, 1, out, DECISIONS_KEPT + 1);
    cr_assert_eq(ones, DECISIONS_KEPT / 2);
    for (uint32_t i = 0; i < ones; i++)
        cr_assert_eq(out[i].space, 1);
    cr_assert_eq(ones + decisions_of(&all, 2, out, DECISIONS_KEPT + 1), DECISIONS_KEPT);
    cr_assert_eq(all.count, DECISIONS_KEPT + 1);
}
