/* bench_fair: what spaces do to each other, and what the daemon does for a long time or with too
 * little VRAM. Each line has a figure, its unit, its target, their ratio and PASS or miss; every
 * answer is compared with the CPU's. --sim runs it over the simulated device, whose times mean
 * little. Exit 1 for wrong answers and errors alone. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/support/fair_bench.h"

enum { GPU_ROWS = 300000, CPU_ROWS = 20000, SIM_ROWS = 4000, QUICK = 5 };

struct section {
    const char *name;
    void (*run)(struct fair_bench *b);
};

static const struct section sections[] = {
    {"fair", fair_fair}, {"weights", fair_weights}, {"vram", fair_vram},
    {"grab", fair_grab}, {"larger", fair_larger},   {"soak", fair_soak},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static struct fair_bench bench = {.run = {.dimension = 768}, .batch_queries = 16};
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
    struct sched_bench *b = &bench.run;
    switch (key) {
    case 'q': b->quick = true; return 0;
    case 's': b->simulated = true; return 0;
    case 'o': choose(value, state); return 0;
    case 't': bench.seconds = (unsigned)number(value, 2, 86400, state); return 0;
    case 'r': b->rows_max = number(value, 100, 1000000, state); return 0;
    case 'd': b->dimension = (uint32_t)number(value, 1, 4096, state); return 0;
    case 'b': bench.batch_queries = (uint32_t)number(value, 1, 1024, state); return 0;
    case 'S':
        if (b->setting_count == SCHED_SETTINGS_MAX) argp_error(state, "too many --set");
        b->settings[b->setting_count++] = value;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static bool look_for_gpu(void)
{
    struct sched_daemon d;
    static ea_info info;
    sched_daemon_start(&d, &bench.run, 0, NULL);
    bool ready = sched_daemon_gpu_ready(&d);
    sched_check(ea_get_info(d.client, &info), d.client, "info");
    printf("gpu: %s\ncpu: %u workers, %s\n", info.gpu, info.workers, info.kernels);
    fflush(stdout);
    sched_daemon_stop(&d);
    return ready;
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"quick", 'q', NULL, 0, "Fewer rows and less time, for a first look", 0},
        {"sim", 's', NULL, 0, "Over the simulated device", 0},
        {"only", 'o', "NAME", 0,
         "This section: fair, weights, vram, grab, larger, soak (may be repeated)", 0},
        {"seconds", 't', "N", 0, "Length of soak (600; 20 with --quick), and of vram (30 at most)",
         0},
        {"rows-max", 'r', "N", 0,
         "Rows of a large collection (100000; less with --quick, --sim and on the CPU alone)", 0},
        {"dimension", 'd', "N", 0, "Of all vectors (768)", 0},
        {"batch-queries", 'b', "N", 0,
         "Of every fourth request in soak's batch phases; the others have one (16)", 0},
        {"set", 'S', "KEY=VALUE", 0, "A setting of every daemon", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    unsetenv("STATE_DIRECTORY"); /* no model is to be found there */
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    struct sched_bench *b = &bench.run;
    b->has_gpu = look_for_gpu();
    if (!b->rows_max)
        b->rows_max = (b->simulated ? SIM_ROWS
                       : b->has_gpu ? GPU_ROWS
                                    : CPU_ROWS) /
                      (b->quick ? QUICK : 1);
    float *pool = sched_random_floats((uint64_t)FAIR_POOL_ROWS * b->dimension, 99);
    bench.pool = pool;
    double start = bench_now_s();
    for (unsigned i = 0; i < SECTIONS; i++) {
        if (!chosen(&sections[i])) continue;
        double began = bench_now_s();
        sections[i].run(&bench);
        printf("  (%s took %.0f s)\n", sections[i].name, bench_now_s() - began);
        fflush(stdout);
    }
    printf("\n%u targets met, %u missed; %u wrong answers and errors; %.0f s\n", b->met, b->missed,
           b->wrong, bench_now_s() - start);
    free(pool);
    return b->wrong ? 1 : 0;
}
