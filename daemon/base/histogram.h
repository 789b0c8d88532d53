/* histogram: counts of nanoseconds in buckets whose width is 1/32 of their size, so that a
 * percentile is off by 3 % at most, at 8 KiB and one increment each.
 * Owner:  the caller; all zero is empty.
 * Thread: one at a time.
 * Errors: none; values past 2^36 ns (68 s) count in the last bucket, max stays exact. */
#ifndef ENGRAM_BASE_HISTOGRAM_H
#define ENGRAM_BASE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_STEP_LOG2 = 5, HISTOGRAM_VALUE_LOG2 = 36 };
enum {
    HISTOGRAM_BUCKETS = (HISTOGRAM_VALUE_LOG2 - HISTOGRAM_STEP_LOG2 + 1) << HISTOGRAM_STEP_LOG2
};

struct histogram {
    uint64_t count;
    uint64_t max;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
/* Returns the bound below which percent (0..100) of all values lie, rounded up to the end of its
 * bucket; 0 when empty. */
uint64_t histogram_percentile(const struct histogram *h, double percent);
static inline uint64_t histogram_max(const struct histogram *h)
{
    return h->max;
}

#endif
