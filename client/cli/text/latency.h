/* latency: a histogram of durations in fixed memory, and percentiles from it.
 * Owner:  the caller's struct (59 KiB); zeroed is empty.
 * Thread: one at a time.
 * Errors: none. Values below 256 ns are exact, above it a percentile is at most 1/128 too high;
 *         minimum, maximum and sum are exact.
 * Source: the log-linear buckets of HdrHistogram. */
#ifndef ENGRAM_CLI_TEXT_LATENCY_H
#define ENGRAM_CLI_TEXT_LATENCY_H

#include <stdint.h>

#define LATENCY_BUCKETS (58 * 128)

struct latency {
    uint64_t buckets[LATENCY_BUCKETS];
    uint64_t count, sum_ns, min_ns, max_ns;
};

void latency_add(struct latency *l, uint64_t ns);
/* Returns the least recorded value that is at least as large as `fraction` (0..1) of all values
 * (nearest rank), rounded up to the end of its bucket; 0 when empty. */
uint64_t latency_percentile(const struct latency *l, double fraction);
double latency_mean(const struct latency *l);

#endif
