#include "tests/support/sched_mix_report.h"

#include <stdio.h>

enum { MIX_SEED = 20260401, COLD_FIRST = 200, JUDGED_PASSES = 3 };
enum { DECIDED_S = 20, FORCED_S = 150, LOADED_S = 60 /* a guess: nothing limits it */ };

static struct mix mix;
static struct mix_runs runs; /* cold asks the same again; what was measured forced holds for both */
static bool forced;

static void prepare(const struct sched_bench *b)
{
    if (!mix.requests) {
        mix_init(&mix, b, MIX_SEED);
        mix_runs_init(&runs, &mix, b);
    }
    mix_forget_decided(&runs);
}

/* What is decided comes before: the daemon would learn from the same requests. */
static void force_once(struct sched_daemon *d)
{
    if (!forced) mix_force(&runs, d, FORCED_S);
    forced = true;
}

static void report(struct sched_bench *b, const char *section, unsigned first)
{
    if (b->dump) mix_dump(b->dump, section, &runs);
    b->wrong += mix.other_bits;
    mix_report(b, &runs, first);
    mix.other_bits = 0;
}

void sched_mix(struct sched_bench *b)
{
    struct sched_daemon d;
    sched_title("mix", "requests one at a time: where they went, and where they had better gone",
                LOADED_S + (1 + JUDGED_PASSES) * DECIDED_S + FORCED_S);
    prepare(b);
    sched_daemon_start(&d, b, mix_rows(&mix), NULL);
    sched_daemon_calibrated(&d, b);
    mix_load(&mix, &d);
    mix_warm(&mix, &d);
    runs.warm = 1;
    for (unsigned pass = 0; pass < runs.warm + JUDGED_PASSES; pass++)
        mix_decide(&runs, &d, DECIDED_S);
    sched_print_scheduler(&d);
    force_once(&d);
    report(b, "mix", 0);
    sched_daemon_stop(&d);
}

void sched_cold(struct sched_bench *b)
{
    struct sched_daemon d;
    sched_title("cold", "the same without calibration, model or replicas; its first 200 not judged",
                LOADED_S + DECIDED_S + (forced ? 0 : FORCED_S));
    prepare(b);
    sched_daemon_start(&d, b, mix_rows(&mix), (const char *const[]){"sched.calibrate=false", NULL});
    mix_load(&mix, &d);
    mix_decide(&runs, &d, DECIDED_S);
    sched_print_scheduler(&d);
    if (!forced) mix_warm(&mix, &d);
    force_once(&d);
    if (mix.count > COLD_FIRST)
        report(b, "cold", COLD_FIRST);
    else
        printf("  too few requests to judge after the first %d\n", COLD_FIRST);
    sched_daemon_stop(&d);
}
