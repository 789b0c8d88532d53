/* durations: counts of nanoseconds in buckets whose bounds an operator states, with their sum: what
 * a Prometheus histogram is made of.
 * Owner:  the caller; all zero is empty.
 * Thread: one at a time; the bounds are const once parsed.
 * Errors: durations_parse: false, nothing is written. */
#ifndef ENGRAM_BASE_DURATIONS_H
#define ENGRAM_BASE_DURATIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { DURATIONS_BOUNDS_MAX = 24 };

struct duration_bounds {
    uint32_t count;
    uint64_t ns[DURATIONS_BOUNDS_MAX]; /* they rise */
};

struct durations {
    uint64_t sum_ns;
    /* The last one counts what lies beyond all bounds. */
    uint64_t buckets[DURATIONS_BOUNDS_MAX + 1];
};

/* Reads "50 100 250": 1 to 24 whole numbers of microseconds from 1 to 10^9 that rise. out may be
 * NULL. */
bool durations_parse(const char *text, struct duration_bounds *out);

/* A value on a bound counts below it. */
static inline void durations_add(struct durations *d, const struct duration_bounds *bounds,
                                 uint64_t ns)
{
    uint32_t i = 0;
    while (i < bounds->count && ns > bounds->ns[i])
        i++;
    d->buckets[i]++;
    d->sum_ns += ns;
}

#endif
