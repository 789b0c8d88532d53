#include <criterion/criterion.h>

#include "daemon/base/fault.h"

static int failures(int steps)
{
    int n = 0;
    for (int i = 0; i < steps; i++)
        n += fault_here(i % 2 ? "odd" : "even");
    return n;
}

Test(fault, unarmed_sites_never_fail_and_are_not_counted)
{
    cr_expect_eq(failures(100), 0);
    cr_expect_eq(fault_hits(), 0);
    cr_expect_null(fault_fired());
}

Test(fault, only_the_nth_site_fails)
{
    for (uint32_t nth = 1; nth <= 4; nth++) {
        fault_arm(nth);
        cr_expect_eq(failures(4), 1);
        cr_expect_eq(fault_hits(), 4);
        cr_expect_str_eq(fault_fired(), nth % 2 ? "even" : "odd");
    }
    fault_arm(5);
    cr_expect_eq(failures(4), 0);
    cr_expect(fault_hits() < 5, "the loop of tests/torture ends here");
    cr_expect_null(fault_fired());
}

Test(fault, counting_alone)
{
    fault_arm(UINT32_MAX);
    cr_expect_eq(failures(7), 0);
    cr_expect_eq(fault_hits(), 7);
}

Test(fault, disarmed_is_quiet_again)
{
    fault_arm(1);
    cr_expect_eq(failures(2), 1);
    fault_arm(0);
    cr_expect_eq(failures(2), 0);
    cr_expect_eq(fault_hits(), 0);
    cr_expect_null(fault_fired());
}
