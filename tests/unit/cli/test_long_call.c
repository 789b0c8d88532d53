/* The line that says how far a long request is. */
#include "client/cli/long_call.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *line_of(const ea_progress_report *now, const ea_progress_report *first,
                           unsigned width)
{
    static char line[256];
    long_call_line(line, sizeof line, now, first, width);
    return line;
}

Test(long_call, rate_and_time_left)
{
    ea_progress_report first = {.phase = EA_PHASE_PAIRS, .elapsed_us = 1000000};
    ea_progress_report now = {
        .phase = EA_PHASE_PAIRS, .done = 3000, .total = 9000, .elapsed_us = 3000000};
    cr_assert_str_eq(line_of(&now, &first, 100),
                     "[===========>                       ]  33 %  "
                     "pairs 3,000 / 9,000, 1,500/s  3.00 s, some 4.00 s left");
    now.foreseen_us = 10000000; /* of all phases */
    cr_assert(strstr(line_of(&now, &first, 100), "3.00 s, some 7.00 s left"));
    now.foreseen_us = 2000000; /* it was wrong */
    cr_assert(strstr(line_of(&now, &first, 100), "some 4.00 s left"));
}

Test(long_call, bytes_have_units)
{
    ea_progress_report first = {.phase = EA_PHASE_SAVING};
    ea_progress_report now = {
        .phase = EA_PHASE_SAVING, .done = 80 << 20, .total = 800 << 20, .elapsed_us = 1000000};
    const char *line = line_of(&now, &first, 100);
    cr_assert(strstr(line, "saving 80.0 MiB / 800 MiB, 80.0 MiB/s"), "%s", line);
}

Test(long_call, what_nobody_knows_is_not_said)
{
    ea_progress_report now = {.phase = EA_PHASE_RUNNING, .elapsed_us = 2500000};
    cr_assert_str_eq(line_of(&now, &now, 80), "running  2.50 s");
    ea_progress_report first = {.phase = EA_PHASE_MERGES};
    now = (ea_progress_report){
        .phase = EA_PHASE_MERGES, .done = 500, .total = 1000, .elapsed_us = 1000000};
    const char *line = line_of(&now, &first, 80);
    cr_assert(strstr(line, "merges 500 / at most 1,000, 500/s  1.00 s"), "%s", line);
    cr_assert_not(strstr(line, "left"), "there may be fewer: %s", line);
}

Test(long_call, the_line_fits_the_terminal)
{
    ea_progress_report first = {.phase = EA_PHASE_PRODUCTS};
    for (unsigned width = 20; width < 200; width++)
        for (uint64_t done = 0; done <= 1000000; done += 250000) {
            ea_progress_report now = {.phase = EA_PHASE_PRODUCTS,
                                      .done = done,
                                      .total = 1000000,
                                      .elapsed_us = 7 * done + 1,
                                      .foreseen_us = 60000000};
            cr_assert(table_width(line_of(&now, &first, width)) <= width, "%u", width);
        }
}
