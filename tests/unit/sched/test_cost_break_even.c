/* The break-even that the model tells, on a machine that was measured: an NVIDIA H200 and 16 Xeon
 * cores, 2026-11-28: the trials of its calibration, and how long kNN over rows of 768 took on
 * either backend later. */
#include "daemon/sched/cost.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

struct trial_time {
    uint64_t rows;
    uint32_t dimension;
    uint64_t queries, ns;
};

#define TRIALS 13
static const struct trial_time calibrated[2][TRIALS] = {
    {{64, 256, 1, 13575},
     {64, 256, 8, 20853},
     {64, 256, 64, 242490},
     {1024, 256, 1, 105107},
     {1024, 256, 8, 192464},
     {1024, 256, 64, 779863},
     {8192, 32, 1, 157307},
     {8192, 32, 16, 480060},
     {8192, 32, 64, 1629516},
     {16384, 256, 1, 284262},
     {16384, 256, 2, 311811},
     {16384, 256, 8, 456956},
     {16384, 256, 64, 2078562}},
    {{64, 256, 1, 36387},
     {64, 256, 8, 49235},
     {64, 256, 64, 64642},
     {1024, 256, 1, 19712},
     {1024, 256, 8, 65395},
     {1024, 256, 64, 93041},
     {8192, 32, 1, 28151},
     {8192, 32, 16, 79758},
     {8192, 32, 64, 127330},
     {16384, 256, 1, 31676},
     {16384, 256, 2, 74960},
     {16384, 256, 8, 79816},
     {16384, 256, 64, 188680}},
};

/* Microseconds; between them, and beyond them, in proportion of the logarithms. */
#define MEASURED 8
static const double measured_rows[MEASURED] = {64, 128, 256, 1000, 4000, 16000, 64000, 262144};
static const struct {
    uint64_t queries;
    double us[2][MEASURED]; /* CPU, GPU */
} measured[] = {
    {1, {{9, 19, 76, 103, 133, 178, 395, 1183}, {18, 18, 22, 25, 26, 33, 50, 83}}},
    {8, {{104, 136, 201, 225, 244, 495, 1303, 4343}, {60, 67, 65, 98, 109, 110, 111, 156}}},
    {64, {{464, 556, 806, 1013, 1423, 2003, 3883, 9483}, {152, 134, 147, 208, 264, 376, 183, 226}}},
};
enum { WIDTHS = sizeof measured / sizeof *measured };

static struct work knn(uint64_t rows, uint32_t dimension, uint64_t queries)
{
    return (struct work){.operation = OPERATION_KNN,
                         .stride = dimension,
                         .k = 10,
                         .gpu_able = true,
                         .queries = queries,
                         .rows = rows,
                         .pairs = rows * queries,
                         .bytes_in = queries * dimension * 4,
                         .bytes_out = queries * 124};
}

/* A brief request runs where it was received, and its time is in proportion to its rows. */
static double took_ns(size_t width, enum backend_id b, const struct work *w)
{
    const double *us = measured[width].us[b == BACKEND_GPU];
    if (b == BACKEND_CPU && work_is_brief(w)) return 1e3 * (2 + 0.13 * (double)w->pairs);
    double rows = (double)w->rows;
    size_t at = b == BACKEND_CPU && !width ? 2 : 0; /* the first two were brief */
    while (at + 2 < MEASURED && measured_rows[at + 1] < rows)
        at++;
    double part = log(rows / measured_rows[at]) / log(measured_rows[at + 1] / measured_rows[at]);
    double slope = log(us[at + 1] / us[at]) * (part < 0 ? 0 : part);
    return 1e3 * us[at] * exp(slope);
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* As runs of one kind, one after the other, do: each up to a fifth off. */
static void see(struct cost_model *m, size_t width, uint64_t rows, enum backend_id b, int runs,
                uint64_t *chance)
{
    struct work w = knn(rows, 768, measured[width].queries);
    for (int i = 0; i < runs; i++) {
        double off = 0.8 + 0.4 * (double)(random_next(chance) >> 40) / (1 << 24);
        uint64_t ns = (uint64_t)(took_ns(width, b, &w) * off);
        cost_observe(m, b, &w, ns, ns);
    }
}

static struct cost_model *calibrate(void)
{
    struct cost_model *m = malloc(sizeof *m);
    cr_assert(m);
    cost_init(m, 16);
    for (int b = 0; b < 2; b++) {
        struct cost_sample samples[TRIALS];
        for (int i = 0; i < TRIALS; i++) {
            const struct trial_time *t = &calibrated[b][i];
            samples[i] = (struct cost_sample){knn(t->rows, t->dimension, t->queries), t->ns};
            samples[i].work.bytes_in = 0;
        }
        cost_fit(m, b ? BACKEND_GPU : BACKEND_CPU, OPERATION_KNN, samples, TRIALS);
    }
    return m;
}

static uint64_t crossover(const struct cost_model *m, size_t width)
{
    struct work like = knn(100000, 768, measured[width].queries);
    return cost_crossover_rows(m, &like, UINT64_C(1) << 26);
}

/* From how many rows on the card was faster: 125, 21, and one. Above 170 rows of one query workers
 * are woken, and twenty rows below that, times are as good as equal. */
static void check(const struct cost_model *m, const char *when)
{
    static const uint64_t least[WIDTHS] = {100, 17, 1}, most[WIDTHS] = {172, 25, 2};
    for (size_t width = 0; width < WIDTHS; width++) {
        uint64_t rows = crossover(m, width);
        cr_expect(rows >= least[width] && rows <= most[width], "%s, %llu queries: from %llu rows",
                  when, (unsigned long long)measured[width].queries, (unsigned long long)rows);
    }
}

Test(cost_break_even, told_after_calibration)
{
    struct cost_model *m = calibrate();
    check(m, "calibrated");
    free(m);
}

/* As `engram-accel bench --report` does: thousands of runs of one size on one backend, then on the
 * other, then of the next size. What few sizes have in common is not what all sizes have. */
Test(cost_break_even, stays_where_it_is_when_few_sizes_are_asked)
{
    struct cost_model *m = calibrate();
    uint64_t chance = 88172645463325252;
    static const uint64_t sizes[WIDTHS][6] = {
        {1000, 10000, 50000, 181, 90, 128}, {22, 11, 16, 19, 21, 20}, {1, 2, 4, 50000, 2, 1}};
    for (size_t width = 0; width < WIDTHS; width++)
        for (int i = 0; i < 6; i++) {
            for (int round = 0; round < 3; round++) {
                see(m, width, sizes[width][i], BACKEND_CPU, 700, &chance);
                see(m, width, sizes[width][i], BACKEND_GPU, 1000, &chance);
            }
            check(m, "asked");
        }
    free(m);
}
