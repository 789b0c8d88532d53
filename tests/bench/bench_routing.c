/* bench_routing: where requests go, how fast that follows what changes, what batching brings and
 * costs. Each line has a figure, its unit, its target, their ratio and PASS or miss. What needs a
 * GPU is left out where there is none; --sim runs it over the simulated device, whose times mean
 * little. Exit 1 for wrong answers and errors alone, 77 when there was nothing to measure. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_bench.h"
#include "tests/support/sched_mix_pass.h"

enum {
    NOTHING = 77,
    CPU_ROWS = 100000,
    SIM_ROWS = 10000,
    QUICK_ROWS = 31623,
    QUICK_REQUESTS = 400
};

struct section {
    const char *name;
    void (*run)(struct sched_bench *b);
    bool needs_gpu;
};

static const struct section sections[] = {
    {"mix", sched_mix, true},      {"cold", sched_cold, true},    {"slow", sched_slow, true},
    {"batch", sched_batch, false}, {"alone", sched_alone, false}, {"decide", sched_decide, false},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static struct sched_bench bench = {.dimension = 768, .hogs = 12, .rounds = 5};
static const char *only[SECTIONS];
static unsigned only_count;

static void choose(const char *name, struct argp_state *state)
{
    for (unsigned i = 0; i < SECTIONS; i++)
        if (strcmp(sections[i].name, name) == 0 && only_count < SECTIONS) {
            only[only_count++] = sections[i].name;
            return;
        }
    argp_error(state, "--only: no section %s", name);
}

static bool chosen(const struct section *s)
{
    for (unsigned i = 0; i < only_count; i++)
        if (strcmp(only[i], s->name) == 0) return true;
    return only_count == 0;
}

static uint64_t number(const char *value, uint64_t min, uint64_t max, struct argp_state *state)
{
    char *end;
    unsigned long long n = strtoull(value, &end, 10);
    if (*end || n < min || n > max) argp_error(state, "%s: not a number that fits here", value);
    return n;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    switch (key) {
    case 'q': bench.quick = true; return 0;
    case 's': bench.simulated = true; return 0;
    case 'o': choose(value, state); return 0;
    case 'D': bench.dump = value; return 0;
    case 'r': bench.rows_max = number(value, 1, 10000000, state); return 0;
    case 'd': bench.dimension = (uint32_t)number(value, 1, 4096, state); return 0;
    case 'n': bench.requests = (unsigned)number(value, 1, 100000, state); return 0;
    case 'R': bench.rounds = (unsigned)number(value, 1, MIX_ROUNDS_MAX, state); return 0;
    case 'p': bench.pause_us = (unsigned)number(value, 0, 1000000, state); return 0;
    case 'h': bench.hogs = (unsigned)number(value, 1, 160, state); return 0;
    case 'S':
        if (bench.setting_count == SCHED_SETTINGS_MAX) argp_error(state, "too many --set");
        bench.settings[bench.setting_count++] = value;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static bool look_for_gpu(void)
{
    struct sched_daemon d;
    sched_daemon_start(&d, &bench, 0, NULL);
    bool ready = sched_daemon_gpu_ready(&d);
    static ea_info info;
    sched_check(ea_get_info(d.client, &info), d.client, "info");
    printf("gpu: %s\ncpu: %u workers, %s\n", info.gpu, info.workers, info.kernels);
    fflush(stdout);
    sched_daemon_stop(&d);
    return ready;
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"quick", 'q', NULL, 0, "Fewer rows and requests, for a first look", 0},
        {"sim", 's', NULL, 0, "Over the simulated device", 0},
        {"dump", 'D', "FILE", 0, "Every request of mix and cold, a line each", 0},
        {"only", 'o', "NAME", 0,
         "This section: mix, cold, slow, batch, alone, decide (may be repeated)", 0},
        {"rows-max", 'r', "N", 0,
         "Rows of the largest collection (1000000; less with --quick, --sim "
         "and on the CPU alone)",
         0},
        {"dimension", 'd', "N", 0, "Of all vectors (768)", 0},
        {"requests", 'n', "N", 0, "Requests of the mix (2000)", 0},
        {"rounds", 'R', "N", 0, "Passes of the mix forced to each backend, at most 15 (5)", 0},
        {"pause-us", 'p', "N", 0, "Before each request of the mix (0)", 0},
        {"hogs", 'h', "N", 0, "Processes that crowd a real card in `slow`, at most (12)", 0},
        {"set", 'S', "KEY=VALUE", 0, "A setting of every daemon", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    unsetenv("STATE_DIRECTORY"); /* no model is to be found there */
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    bench.has_gpu = look_for_gpu();
    if (!bench.requests) bench.requests = bench.quick ? QUICK_REQUESTS : 2000;
    if (!bench.rows_max)
        bench.rows_max = bench.simulated ? SIM_ROWS
                         : bench.quick   ? QUICK_ROWS
                         : bench.has_gpu ? 1000000
                                         : CPU_ROWS;
    unsigned ran = 0;
    double start = bench_now_s();
    for (unsigned i = 0; i < SECTIONS; i++) {
        if (!chosen(&sections[i])) continue;
        if (sections[i].needs_gpu && !bench.has_gpu) {
            printf("\n%s: SKIP: no GPU\n", sections[i].name);
            continue;
        }
        double began = bench_now_s();
        sections[i].run(&bench);
        printf("  (%s took %.0f s)\n", sections[i].name, bench_now_s() - began);
        ran++;
    }
    printf("\n%u targets met, %u missed; %u wrong answers; %.0f s\n", bench.met, bench.missed,
           bench.wrong, bench_now_s() - start);
    return bench.wrong ? 1 : ran ? 0 : NOTHING;
}
