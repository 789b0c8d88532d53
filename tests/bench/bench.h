/* bench: what the measuring programs share: a clock, medians, a table of ratios with targets.
 * Owner:  each program. Thread: one. Errors: a failed step ends the program with a message. */
#ifndef ENGRAM_TESTS_BENCH_H
#define ENGRAM_TESTS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double bench_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Sorts values; the p-th percentile (50: the median). */
static inline double bench_percentile(double *values, size_t count, double p)
{
    qsort(values, count, sizeof *values, bench_compare);
    size_t i = (size_t)((double)(count - 1) * p / 100 + 0.5);
    return values[i];
}

static inline void bench_fail(const char *what, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

/* Splitmix64: the same numbers everywhere. */
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static inline float bench_random_float(uint64_t *state)
{
    return (float)(bench_random(state) >> 40) / 8388608.0f - 1.0f;
}

static inline void bench_header(const char *title)
{
    printf("\n%s\n  %-52s %14s %14s %8s %8s\n", title, "", "ours", "peer", "ratio", "target");
}

/* ratio is already oriented so that `at_least ? higher : lower` is better. */
static inline bool bench_row(const char *what, const char *ours, const char *peer, double ratio,
                             bool at_least, double target)
{
    bool met = at_least ? ratio >= target : ratio <= target;
    printf("  %-52s %14s %14s %7.2fx %s%.2fx %s\n", what, ours, peer, ratio,
           at_least ? ">=" : "<=", target, met ? "ok" : "MISSED");
    fflush(stdout);
    return met;
}

#endif
