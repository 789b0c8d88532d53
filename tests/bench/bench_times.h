/* bench_times: how long each of many calls took, and what is told of them. Everything is static
 * inline.
 * Owner:  who makes them, and frees them.
 * Thread: one.
 * Errors: end the program. */
#ifndef ENGRAM_TESTS_BENCH_TIMES_H
#define ENGRAM_TESTS_BENCH_TIMES_H

#include <stdlib.h>

#include "tests/bench/bench.h"

enum { SAMPLES_MAX = 1 << 20 };

struct times {
    double ms[SAMPLES_MAX]; /* malloc'ed with the struct, so that pages are taken as needed */
    size_t count;
};

static inline struct times *times_make(void)
{
    struct times *t = calloc(1, sizeof *t);
    if (!t) bench_fail("times", "no memory");
    return t;
}

static inline void times_add(struct times *t, double began_s)
{
    if (t->count < SAMPLES_MAX) t->ms[t->count++] = (bench_now_s() - began_s) * 1e3;
}

struct figures {
    double p50, p99, worst;
    size_t count;
};

static inline struct figures figures_of(struct times *t)
{
    if (!t->count) return (struct figures){0};
    return (struct figures){bench_percentile(t->ms, t->count, 50),
                            bench_percentile(t->ms, t->count, 99), t->ms[t->count - 1], t->count};
}

#endif
