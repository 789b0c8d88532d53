/* json_scan: where a byte is, and what it leaves to the parser; what it refuses is seen through the
 * configuration (test_config.c). */
#include "daemon/base/json_scan.h"

#include <criterion/criterion.h>
#include <string.h>

Test(json_scan, places)
{
    unsigned line, column;
    json_place("ab\ncd", 4, &line, &column);
    cr_expect_eq(line, 2);
    cr_expect_eq(column, 2);
}

Test(json_scan, accepts_what_is_left_to_the_parser)
{
    struct json_fault fault;
    const char *good[] = {"", "]", "[0, -0.5e+10, 1E-2, 10.25, \"a\\\"\\\\\"]",
                          "{\"\\u00e9\": 2e3}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_expect(json_scan(good[i], strlen(good[i]), 8, &fault), "%s", good[i]);
}
