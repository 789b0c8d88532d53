#include <criterion/criterion.h>

#include "daemon/base/clock.h"
#include "daemon/base/histogram.h"

static struct histogram h;

Test(histogram, empty_is_zero)
{
    cr_expect_eq(histogram_percentile(&h, 50), 0);
    cr_expect_eq(histogram_percentile(&h, 100), 0);
    cr_expect_eq(histogram_max(&h), 0);
}

Test(histogram, small_values_are_exact)
{
    for (uint64_t v = 1; v <= 10; v++)
        histogram_add(&h, v);
    cr_expect_eq(h.count, 10);
    cr_expect_eq(histogram_percentile(&h, 0), 1);
    cr_expect_eq(histogram_percentile(&h, 50), 5);
    cr_expect_eq(histogram_percentile(&h, 90), 9);
    cr_expect_eq(histogram_percentile(&h, 100), 10);
}

/* One value below the maximum: what comes back is its bucket's end. */
Test(histogram, every_value_is_told_within_its_step)
{
    for (unsigned shift = 0; shift < HISTOGRAM_VALUE_LOG2; shift++)
        for (uint64_t part = 0; part < 64; part++) {
            uint64_t v = (UINT64_C(1) << shift) + (part << shift >> 6);
            struct histogram one = {0};
            histogram_add(&one, v);
            one.max = UINT64_MAX;
            uint64_t told = histogram_percentile(&one, 50);
            if (told == UINT64_MAX) { /* the last bucket has no end */
                cr_assert(v >= (UINT64_C(1) << 35), "%lu", v);
                continue;
            }
            cr_assert(told >= v, "%lu told as %lu", v, told);
            cr_assert(told - v <= v / 32, "%lu told as %lu", v, told);
        }
}

Test(histogram, a_thousand_values_in_order)
{
    for (uint64_t v = 1; v <= 1000; v++)
        histogram_add(&h, v * 1000);
    uint64_t before = 0;
    for (double p = 0; p <= 100; p += 0.5) {
        uint64_t told = histogram_percentile(&h, p);
        double exact = p * 10000 < 1000 ? 1000 : p * 10000;
        cr_assert(told >= before, "not monotonic at %g", p);
        cr_assert((double)told >= exact * 0.99 && (double)told <= exact * 1.04 + 1000, "%g: %lu", p,
                  told);
        before = told;
    }
    cr_expect_eq(histogram_percentile(&h, 100), 1000000);
}

Test(histogram, huge_values_keep_the_maximum)
{
    histogram_add(&h, UINT64_MAX);
    histogram_add(&h, UINT64_C(1) << HISTOGRAM_VALUE_LOG2);
    histogram_add(&h, 0);
    cr_expect_eq(histogram_max(&h), UINT64_MAX);
    cr_expect_eq(histogram_percentile(&h, 99), UINT64_MAX);
    cr_expect_eq(histogram_percentile(&h, 1), 0);
}

Test(clock, never_runs_backwards)
{
    uint64_t before = clock_now_ns();
    cr_expect(before > 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t now = clock_now_ns();
        cr_assert(now >= before);
        before = now;
    }
}
