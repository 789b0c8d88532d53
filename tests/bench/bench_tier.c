/* bench_tier: a collection three times as large as the card's budget (gpu.memory_mib), of which
 * only what codes its rows is there (reason shadow_only): 1 and 128 queries at a time on the CPU
 * and on the card, and whether the answers are the same. Needs a GPU (exit 77 without); --sim has
 * the simulated device. */
#include <argp.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_bench.h"

enum { K = 10, MANY = 128, SETS = 8, ALONE = 64, WARM = 4, NO_GPU = 77, READY_S = 60 };

static struct sched_bench run = {.dimension = 768};
static uint64_t budget_mib = 1024, rows;
static unsigned rounds = 20;

/* ---------------------------------------------------------------- asking */

static ea_result ask(const struct sched_daemon *d, const float *queries, uint64_t count)
{
    char name[SCHED_ROWS_NAME];
    ea_result r = {0};
    sched_name(rows, name);
    ea_knn_question q = {.collection = name,
                         .queries = queries,
                         .query_count = count,
                         .dimension = d->dimension,
                         .k = K};
    sched_check(ea_knn(d->client, &q, &r), d->client, "kNN");
    return r;
}

/* Times of one size, and what it answered. */
struct side {
    double p50_us, p99_us, run_us;
    unsigned elsewhere; /* requests that another backend answered */
    uint64_t digests[ALONE];
};

static struct side measure(const struct sched_daemon *d, const float *queries, uint64_t each,
                           unsigned sets, unsigned times, ea_backend where)
{
    struct side s = {0};
    double *took = calloc((size_t)sets * times, sizeof *took);
    unsigned count = 0;
    if (!took) bench_fail("bench_tier", "no memory");
    for (unsigned n = 0; n < times; n++)
        for (unsigned i = 0; i < sets; i++) {
            double start = bench_now_s();
            ea_result r = ask(d, queries + i * each * d->dimension, each);
            took[count++] = (bench_now_s() - start) * 1e6;
            s.run_us += (double)r.meta->run_ns / 1e3 / (sets * times);
            s.elsewhere += r.meta->backend != where;
            uint64_t digest = sched_digest(&r);
            if (n && s.digests[i] != digest)
                bench_fail("bench_tier", "two answers to one question");
            s.digests[i] = digest;
            ea_result_free(&r);
        }
    s.p50_us = bench_percentile(took, count, 50);
    s.p99_us = bench_percentile(took, count, 99);
    free(took);
    return s;
}

static void tell(const char *what, const struct side *s)
{
    printf("    %-8s p50 %9.1f, p99 %9.1f, ran %9.1f us%s\n", what, s->p50_us, s->p99_us, s->run_us,
           s->elsewhere ? "; NOT all there" : "");
}

static unsigned compare(const char *what, const struct side *cpu, const struct side *card,
                        unsigned sets)
{
    unsigned differ = 0;
    for (unsigned i = 0; i < sets; i++)
        differ += cpu->digests[i] != card->digests[i];
    printf("  %s: %.1f x the CPU's rate (asked: 10), %u of %u answers differ\n", what,
           cpu->p50_us / card->p50_us, differ, sets);
    tell("CPU", cpu);
    tell("card", card);
    fflush(stdout);
    return differ;
}

/* Asks until the card answers. */
static void wait_for_card(const struct sched_daemon *d, const float *query)
{
    double start = bench_now_s();
    const char *reason = "none";
    for (bool there = false; !there;) {
        ea_result r = ask(d, query, 1);
        there = r.meta->backend == EA_BACKEND_GPU;
        reason = ea_reason_name(r.meta->reason);
        ea_result_free(&r);
        if (!there && bench_now_s() > start + READY_S)
            bench_fail("the card does not answer", reason);
        if (!there) usleep(5000);
    }
    printf("  on the card after %.2f s\n", bench_now_s() - start);
}

/* What the daemon says by itself, of many queries, for which a card is always faster. */
static void tell_reason(const struct sched_daemon *d, const float *queries)
{
    ea_result r = ask(d, queries, MANY);
    printf("  not forced: %s, %s; %llu of %llu pairs scored\n", ea_backend_name(r.meta->backend),
           ea_reason_name(r.meta->reason), (unsigned long long)r.meta->survived,
           (unsigned long long)r.meta->screened);
    ea_result_free(&r);
}

/* ---------------------------------------------------------------- the program */

static error_t parse(int key, char *value, struct argp_state *state)
{
    switch (key) {
    case 'b': budget_mib = strtoull(value, NULL, 10); return 0;
    case 'n': rounds = (unsigned)strtoul(value, NULL, 10); return 0;
    case 's': run.simulated = true; return 0;
    case 'S':
        if (run.setting_count == SCHED_SETTINGS_MAX) argp_error(state, "too many --set");
        run.settings[run.setting_count++] = value;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static unsigned run_all(struct sched_daemon *d)
{
    float *queries = sched_random_floats((uint64_t)SETS * MANY * d->dimension, 7);
    double start = bench_now_s();
    sched_load(d, rows);
    printf("  %llu x %u loaded in %.1f s: %.2f GiB, of a budget of %.2f\n",
           (unsigned long long)rows, d->dimension, bench_now_s() - start,
           (double)rows * d->dimension * 4 / 1073741824, (double)budget_mib / 1024);
    sched_daemon_force(d, "cpu");
    for (unsigned i = 0; i < WARM; i++) { /* the CPU makes its own rows in int8 */
        ea_result many = ask(d, queries, MANY), one = ask(d, queries, 1);
        ea_result_free(&many);
        ea_result_free(&one);
    }
    struct side cpu[2] = {measure(d, queries, 1, ALONE, 1, EA_BACKEND_CPU),
                          measure(d, queries, MANY, SETS, 1, EA_BACKEND_CPU)};
    sched_daemon_force(d, "gpu");
    wait_for_card(d, queries);
    (void)measure(d, queries, MANY, SETS, 1, EA_BACKEND_GPU);
    struct side card[2] = {measure(d, queries, 1, ALONE, rounds, EA_BACKEND_GPU),
                           measure(d, queries, MANY, SETS, rounds, EA_BACKEND_GPU)};
    unsigned differ = compare("1 query", &cpu[0], &card[0], ALONE);
    differ += compare("128 queries", &cpu[1], &card[1], SETS);
    sched_daemon_force(d, "none");
    tell_reason(d, queries);
    free(queries);
    return differ;
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"budget", 'b', "MIB", 0, "Of the card (1024; with --sim, 16)", 0},
        {"rounds", 'n', "N", 0, "How often each question is asked of the card (20)", 0},
        {"sim", 's', NULL, 0, "Over the simulated device", 0},
        {"set", 'S', "KEY=VALUE", 0, "A setting of the daemon", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    unsetenv("STATE_DIRECTORY"); /* no model is to be found there */
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    if (run.simulated && budget_mib == 1024) budget_mib = 16;
    rows = 3 * (budget_mib << 20) / (run.dimension * sizeof(float));
    char memory[64];
    snprintf(memory, sizeof memory, "gpu.memory_mib=%llu", (unsigned long long)budget_mib);
    const char *const settings[] = {memory, "sched.calibrate=false", "gpu.min_pairs=1", NULL};
    struct sched_daemon d;
    sched_daemon_start(&d, &run, 2 * rows, settings);
    if (!sched_daemon_gpu_ready(&d)) {
        printf("SKIP: no GPU\n");
        sched_daemon_stop(&d);
        return NO_GPU;
    }
    unsigned differ = run_all(&d);
    printf("tier: %u answers differ: %s\n", differ, differ ? "FAIL" : "ok");
    sched_daemon_stop(&d);
    return differ != 0;
}
