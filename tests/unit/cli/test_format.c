/* format, latency, progress: numbers for people, addresses, percentiles. */
#include "client/cli/text/format.h"
#include "client/cli/text/latency.h"
#include "client/cli/text/progress.h"
#include "client/cli/text/table.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct text t;

Test(format, counts)
{
    cr_assert_str_eq(format_count(&t, 0), "0");
    cr_assert_str_eq(format_count(&t, 999), "999");
    cr_assert_str_eq(format_count(&t, 1000), "1,000");
    cr_assert_str_eq(format_count(&t, 117659), "117,659");
    cr_assert_str_eq(format_count(&t, UINT64_MAX), "18,446,744,073,709,551,615");
    cr_assert_str_eq(format_many(&t, 0, "row"), "0 rows");
    cr_assert_str_eq(format_many(&t, 1, "row"), "1 row");
    cr_assert_str_eq(format_many(&t, 1234, "multiprocessor"), "1,234 multiprocessors");
}

Test(format, bytes)
{
    cr_assert_str_eq(format_bytes(&t, 0), "0 B");
    cr_assert_str_eq(format_bytes(&t, 1023), "1023 B");
    cr_assert_str_eq(format_bytes(&t, 1024), "1.00 KiB");
    cr_assert_str_eq(format_bytes(&t, 12345), "12.1 KiB");
    cr_assert_str_eq(format_bytes(&t, (1 << 20) - 1), "1.00 MiB");
    cr_assert_str_eq(format_bytes(&t, 300u << 20), "300 MiB");
    cr_assert_str_eq(format_bytes(&t, UINT64_MAX), "16.0 EiB");
}

Test(format, times)
{
    cr_assert_str_eq(format_ns(&t, 999), "999 ns");
    cr_assert_str_eq(format_ns(&t, 1000), "1.00 µs");
    cr_assert_str_eq(format_ns(&t, 12345), "12.3 µs");
    cr_assert_str_eq(format_ns(&t, 999499), "999 µs");
    cr_assert_str_eq(format_ns(&t, 999500), "1.00 ms");
    cr_assert_str_eq(format_ns(&t, 2500000000), "2.50 s");
    cr_assert_str_eq(format_ns(&t, 59949999999), "59.9 s");
    cr_assert_str_eq(format_ns(&t, 60000000000), "1 min 00 s");
    cr_assert_str_eq(format_ns(&t, 3605000000000), "1 h 00 min");
    cr_assert_str_eq(format_ns(&t, 200000000000000), "2 d 07 h");
}

Test(format, scores)
{
    cr_assert_str_eq(format_score(&t, 0), "0.000000");
    cr_assert_str_eq(format_score(&t, -0.5f), "-0.500000");
    cr_assert_str_eq(format_score(&t, 1e-5f), "1.000000e-05");
    cr_assert_str_eq(format_score(&t, 2e9f), "2.000000e+09");
    cr_assert_str_eq(format_score(&t, NAN), "-");
    cr_assert_str_eq(format_score(&t, -INFINITY), "-");
}

Test(format, parses_whole_numbers)
{
    uint64_t n = 42;
    cr_assert(parse_u64("18446744073709551615", 0, UINT64_MAX, &n) && n == UINT64_MAX);
    cr_assert(parse_u64("007", 1, 9, &n) && n == 7);
    static const char *const bad[] = {"",
                                      " 1",
                                      "1 ",
                                      "+1",
                                      "-1",
                                      "1.0",
                                      "0x1",
                                      "1e3",
                                      "18446744073709551616",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_not(parse_u64(bad[i], 0, UINT64_MAX, &n), "'%s'", bad[i]);
    cr_assert_not(parse_u64("10", 1, 9, &n));
    cr_assert_not(parse_u64("0", 1, 9, &n));
    cr_assert_eq(n, 7);
}

Test(format, parses_numbers)
{
    double x = 42;
    cr_assert(parse_number("-0.25", -1, 1, &x) && x == -0.25);
    cr_assert(parse_number("1e-3", 0, 1, &x) && x == 1e-3);
    static const char *const bad[] = {"", " 1", "1 ", "x", "nan", "inf", "1e999", "2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_not(parse_number(bad[i], 0, 1, &x), "'%s'", bad[i]);
}

Test(format, parses_addresses)
{
    char host[32];
    uint16_t port = 0;
    cr_assert(parse_address("localhost:7000", host, sizeof host, &port));
    cr_assert_str_eq(host, "localhost");
    cr_assert_eq(port, 7000);
    cr_assert(parse_address("[::1]:65535", host, sizeof host, &port));
    cr_assert_str_eq(host, "::1");
    cr_assert_eq(port, 65535);
    static const char *const bad[] = {"",
                                      "localhost",
                                      ":1",
                                      "a:",
                                      "a:0",
                                      "a:65536",
                                      "a:http",
                                      "::1:80",
                                      "[]:80",
                                      "[a:80",
                                      "a:-1",
                                      "a: 1",
                                      "a-host-name-that-is-longer-than-the-room:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_not(parse_address(bad[i], host, sizeof host, &port), "'%s'", bad[i]);
}

Test(latency, small_values_are_exact)
{
    struct latency *l = calloc(1, sizeof *l);
    cr_assert_eq(latency_percentile(l, 0.5), 0);
    cr_assert_eq(latency_mean(l), 0);
    for (uint64_t ns = 100; ns >= 1; ns--)
        latency_add(l, ns);
    cr_assert_eq(latency_percentile(l, 0), 1);
    cr_assert_eq(latency_percentile(l, 0.5), 50);
    cr_assert_eq(latency_percentile(l, 0.99), 99);
    cr_assert_eq(latency_percentile(l, 0.999), 100);
    cr_assert_eq(latency_percentile(l, 1), 100);
    cr_assert_eq(latency_mean(l), 50.5);
    cr_assert(l->min_ns == 1 && l->max_ns == 100);
    free(l);
}

/* Against a sorted list, over every magnitude: never too low, at most 1/128 too high. */
Test(latency, large_values_are_near)
{
    enum { N = 5000 };
    struct latency *l = calloc(1, sizeof *l);
    uint64_t *sorted = malloc(N * sizeof *sorted), state = 1;
    for (int i = 0; i < N; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sorted[i] = state >> (i % 64);
        latency_add(l, sorted[i]);
    }
    for (int i = 1; i < N; i++)
        for (int k = i; k && sorted[k - 1] > sorted[k]; k--) {
            uint64_t swap = sorted[k];
            sorted[k] = sorted[k - 1];
            sorted[k - 1] = swap;
        }
    for (int i = 1; i <= 1000; i++) {
        uint64_t want = sorted[(i * N + 999) / 1000 - 1], got = latency_percentile(l, i / 1000.0);
        cr_assert(got >= want && got - want <= want / 128, "%d/1000: %lu, not %lu", i,
                  (unsigned long)got, (unsigned long)want);
    }
    cr_assert_eq(latency_percentile(l, 1), sorted[N - 1]);
    free(sorted);
    free(l);
}

Test(progress, line_fits_the_terminal)
{
    char line[256];
    progress_line(line, sizeof line, 50000, 117659, 1536, 500000000, 80);
    cr_assert_str_eq(
        line, "[==========>             ]  42 %  50,000 / 117,659 rows  146 MiB/s  677 ms left");
    for (unsigned width = 20; width < 200; width++)
        for (uint64_t done = 0; done <= 1000000; done += 250000) {
            progress_line(line, sizeof line, done, 1000000, 400, 1000000000 * done / 9, width);
            cr_assert(table_width(line) <= width, "%u: %s", width, line);
        }
    progress_line(line, sizeof line, 5 << 20, 20 << 20, 0, 500000000, 80);
    cr_assert_str_eq(
        line, "[======>                  ]  25 %  5.00 MiB / 20.0 MiB  10.0 MiB/s  1.50 s left");
    progress_line(line, sizeof line, 0, 0, 4, 0, 80);
    cr_assert_str_eq(line, "0 rows");
    progress_line(line, sizeof line, 5 << 20, 0, 0, 500000000, 80); /* a pipe */
    cr_assert_str_eq(line, "5.00 MiB  10.0 MiB/s");
    progress_part_line(line, sizeof line, "sorted", .25, 500000000, 60);
    cr_assert_str_eq(line, "[=======>                      ]  25 %  sorted  1.50 s left");
    progress_part_line(line, sizeof line, "sorted", 0, 0, 30);
    cr_assert_str_eq(line, "[             ]   0 %  sorted");
}

Test(format, ratios)
{
    cr_assert_str_eq(format_ratio(&t, 1.048), "1.05");
    cr_assert_str_eq(format_ratio(&t, 9.996), "10.0");
    cr_assert_str_eq(format_ratio(&t, 1234.4), "1234");
    cr_assert_str_eq(format_ratio(&t, 0), "-");
    cr_assert_str_eq(format_ratio(&t, (double)NAN), "-");
    cr_assert_str_eq(format_ratio(&t, (double)INFINITY), "-");
    cr_assert_str_eq(format_ratio(&t, 2e300), "2.0e+300");
}

Test(format, fine_nanoseconds)
{
    cr_assert_str_eq(format_fine_ns(&t, 0.0001), "0.0001 ns");
    cr_assert_str_eq(format_fine_ns(&t, 0.15), "0.15 ns");
    cr_assert_str_eq(format_fine_ns(&t, 250), "250 ns");
    cr_assert_str_eq(format_fine_ns(&t, 999.7), "1.00 µs");
    cr_assert_str_eq(format_fine_ns(&t, 25e3), "25.0 µs");
    cr_assert_str_eq(format_fine_ns(&t, 0), "-");
    cr_assert_str_eq(format_fine_ns(&t, -1), "-");
    cr_assert_str_eq(format_fine_ns(&t, (double)NAN), "-");
    cr_assert_str_eq(format_fine_ns(&t, 1e300), "11574 d 01 h");
}

Test(format, rates)
{
    cr_assert_str_eq(format_rate(&t, 0.025, "B/s"), "40.0 GB/s");
    cr_assert_str_eq(format_rate(&t, 0.00025, "B/s"), "4.00 TB/s");
    cr_assert_str_eq(format_rate(&t, 1.00001, "/s"), "1.00 G/s");
    cr_assert_str_eq(format_rate(&t, 2e9, "/s"), "0.50 /s");
    cr_assert_str_eq(format_rate(&t, 2e5, "B/s"), "5.00 kB/s");
    cr_assert_str_eq(format_rate(&t, 0, "B/s"), "-");
    cr_assert_str_eq(format_rate(&t, 1e-300, "B/s"), "-");
    cr_assert_str_eq(format_rate(&t, (double)NAN, "B/s"), "-");
}
