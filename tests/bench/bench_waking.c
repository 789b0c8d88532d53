/* bench_waking: what is lost between sleepers: one client that asks one question after the other,
 * its time less the run's, and what watching costs the daemon, the GPU process and the client; at
 * 100 requests a second, and idle; and what 64 connections get. Needs a GPU (exit 77 without);
 * --sim has the simulated device, whose runs take --run-us. */
#include <argp.h>
#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/gpu_scene.h"
#include "tests/support/sched_bench.h"

enum { K = 10, SAMPLES_MAX = 200000, NO_GPU = 77, PACE_US = 10000, SIM_ROWS = 200 };

static struct sched_bench run = {.rows_max = 1000000, .dimension = 768};
static double seconds = 5;
static char sim_text[64] = "gpu.sim=vram_mib=4096 run_us=700";
static unsigned watch_percent;
static uint64_t only_rows; /* 0: all sizes */

/* ---------------------------------------------------------------- processor time */

enum { SIDES = 3 };
static const char *const sides[SIDES] = {"daemon", "GPU process", "client"};

static double used_s(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct usage {
    double at_s, used[SIDES];
};

static struct usage usage_now(const struct sched_daemon *d)
{
    pid_t daemon = d->process.pid;
    return (struct usage){bench_now_s(),
                          {used_s(daemon), used_s(gpu_process_of(daemon)), used_s(0)}};
}

/* In percent of a core. */
static void tell_usage(const struct sched_daemon *d, const struct usage *from)
{
    struct usage to = usage_now(d);
    printf("    processor time:");
    for (int i = 0; i < SIDES; i++)
        printf(" %s %.2f %%%s", sides[i],
               100 * (to.used[i] - from->used[i]) / (to.at_s - from->at_s),
               i + 1 < SIDES ? "," : "\n");
    fflush(stdout);
}

/* ---------------------------------------------------------------- one client alone */

static double beside_us[SAMPLES_MAX], queue_us[SAMPLES_MAX], all_us[SAMPLES_MAX];

static void tell(const char *what, double *values, unsigned count)
{
    printf("    %-24s p50 %8.1f, p90 %8.1f, p99 %8.1f us\n", what,
           bench_percentile(values, count, 50), bench_percentile(values, count, 90),
           bench_percentile(values, count, 99));
}

static ea_client *open_client(const struct sched_daemon *d)
{
    ea_client *c;
    ea_options o = {.socket_path = d->process.socket_path, .watch_percent = watch_percent};
    sched_check(ea_open(&o, &c), NULL, "ea_open");
    sched_check(ea_connect(c), c, "ea_connect");
    return c;
}

/* pause_us: between the beginnings of two questions; 0: none. */
static void ask(const struct sched_daemon *d, uint64_t rows, const float *query, unsigned pause_us)
{
    char name[SCHED_ROWS_NAME];
    ea_client *c = open_client(d);
    ea_result r = {0};
    unsigned count = 0, elsewhere = 0;
    double run_us = 0;
    struct usage from = {0};
    sched_name(rows, name);
    ea_knn_question q = {
        .collection = name, .queries = query, .query_count = 1, .dimension = d->dimension, .k = K};
    for (int i = 0; i < 200; i++) /* what is foreseen is learnt */
        sched_check(ea_knn(c, &q, &r), c, "kNN");
    from = usage_now(d);
    double until = from.at_s + seconds, next = from.at_s;
    while (count < SAMPLES_MAX && bench_now_s() < until) {
        double start = bench_now_s();
        sched_check(ea_knn(c, &q, &r), c, "kNN");
        all_us[count] = (bench_now_s() - start) * 1e6;
        beside_us[count] = all_us[count] - (double)r.meta->run_ns / 1e3;
        queue_us[count] = (double)r.meta->queue_ns / 1e3;
        run_us += (double)r.meta->run_ns / 1e3;
        elsewhere += r.meta->backend != EA_BACKEND_GPU;
        count++;
        next += pause_us * 1e-6;
        double left = next - bench_now_s();
        if (pause_us && left > 0) usleep((useconds_t)(left * 1e6));
    }
    printf("  %llu rows, %s: %u requests, %u not on the GPU, ran %.1f us\n",
           (unsigned long long)rows, pause_us ? "100 a second" : "one after the other", count,
           elsewhere, run_us / count);
    tell("at the client", all_us, count);
    tell("  less run", beside_us, count);
    tell("queue", queue_us, count);
    tell_usage(d, &from);
    ea_result_free(&r);
    ea_close(c);
}

/* 64 connections with one query each, one after the other. */
static void crowd(struct sched_daemon *d, uint64_t rows)
{
    printf("  %llu rows, 64 connections, one query each\n", (unsigned long long)rows);
    struct usage from = usage_now(d);
    double rate = sched_crowd(d, rows, run.simulated ? "gpu" : "none", seconds);
    struct usage to = usage_now(d);
    double answers = rate * (to.at_s - from.at_s);
    printf("    a request (about): daemon %.1f us, GPU process %.1f us, client %.1f us\n",
           1e6 * (to.used[0] - from.used[0]) / answers, 1e6 * (to.used[1] - from.used[1]) / answers,
           1e6 * (to.used[2] - from.used[2]) / answers);
    tell_usage(d, &from);
}

/* How often the threads of a process have gone to sleep. */
static uint64_t sleeps_of(pid_t pid)
{
    char path[300], line[128];
    unsigned long long all = 0, count;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = pid > 0 ? opendir(path) : NULL;
    for (struct dirent *e; threads && (e = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/status", pid, e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (f && fgets(line, sizeof line, f))
            if (sscanf(line, "voluntary_ctxt_switches: %llu", &count) == 1) all += count;
        if (f) fclose(f);
    }
    if (threads) closedir(threads);
    return all;
}

/* Twice: at first, what is put away after work counts, too. */
static void idle(const struct sched_daemon *d)
{
    pid_t daemon = d->process.pid, gpu = gpu_process_of(daemon);
    usleep(500000);
    for (int again = 0; again < 2; again++) {
        struct usage from = usage_now(d);
        uint64_t sleeps = sleeps_of(daemon), gpu_sleeps = sleeps_of(gpu);
        usleep((useconds_t)(seconds * 1e6));
        printf("  idle%s: the daemon wakes %.1f, the GPU process %.1f times a second\n",
               again ? ", later" : " after work", (double)(sleeps_of(daemon) - sleeps) / seconds,
               (double)(sleeps_of(gpu) - gpu_sleeps) / seconds);
        tell_usage(d, &from);
    }
}

/* ---------------------------------------------------------------- the program */

static error_t parse(int key, char *value, struct argp_state *state)
{
    switch (key) {
    case 'q': seconds = 2; return 0;
    case 's': run.simulated = true; return 0;
    case 'u':
        snprintf(sim_text, sizeof sim_text, "gpu.sim=vram_mib=4096 run_us=%s", value);
        return 0;
    case 'r': only_rows = (uint64_t)atoll(value); return 0;
    case 'w': watch_percent = atoi(value) ? (unsigned)atoi(value) : EA_WATCH_NEVER; return 0;
    case 'S':
        if (run.setting_count == SCHED_SETTINGS_MAX) argp_error(state, "too many --set");
        run.settings[run.setting_count++] = value;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"quick", 'q', NULL, 0, "Two seconds a figure, for a first look", 0},
        {"sim", 's', NULL, 0, "Over the simulated device", 0},
        {"run-us", 'u', "N", 0, "How long its runs take (700)", 0},
        {"rows", 'r', "N", 0, "One client, one request after another, over so many rows; no more",
         0},
        {"watch", 'w', "PERCENT", 0, "The client's share for watching; 0: never", 0},
        {"set", 'S', "KEY=VALUE", 0, "A setting of the daemon", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    unsetenv("STATE_DIRECTORY"); /* no model is to be found there */
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    static const uint64_t real[] = {1000, 10000, 100000, 1000000}, simulated[] = {SIM_ROWS};
    const uint64_t *rows = only_rows ? &only_rows : run.simulated ? simulated : real;
    size_t sizes = only_rows || run.simulated ? 1 : sizeof real / sizeof *real;
    struct sched_daemon d;
    const char *const settings[] = {run.simulated ? sim_text : "workers.pin=false",
                                    run.simulated ? "sched.calibrate=false" : "gpu.devices=0",
                                    "gpu.min_pairs=1", NULL};
    run.has_gpu = false;
    if (run.simulated) run.dimension = 32;
    sched_daemon_start(&d, &run, 2 * run.rows_max, settings);
    if (!sched_daemon_gpu_ready(&d)) {
        printf("SKIP: no GPU\n");
        sched_daemon_stop(&d);
        return NO_GPU;
    }
    run.has_gpu = true;
    if (!run.simulated) sched_daemon_calibrated(&d, &run);
    float *query = sched_random_floats(run.dimension, 7);
    for (size_t i = 0; i < sizes; i++) {
        sched_load(&d, rows[i]);
        if (!sched_warm_replica(&d, rows[i])) bench_fail("replica", "it is missing");
    }
    sched_daemon_force(&d, "gpu");
    for (size_t i = 0; i < sizes; i++)
        ask(&d, rows[i], query, 0);
    if (!only_rows) {
        ask(&d, rows[sizes - 1], query, PACE_US);
        crowd(&d, rows[sizes - 1]);
        idle(&d);
    }
    sched_daemon_stop(&d);
    free(query);
    return 0;
}
