/* bench_bind_grid: binds through the Unix socket, a table of dimensions and numbers of pairs: the
 * CPU beside the card, p50 in milliseconds, of rows that are sent along and of rows of two
 * collections, whose results are stored in a third. Needs a GPU (exit 77 without); --sim runs the
 * same over the simulated device, whose times mean nothing. --quick shortens it. What the card gave
 * back to the CPU has a star. */
#include <argp.h>
#include <string.h>

#include "client/engram_accel.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { PAIRS_MAX = 10000, D_MAX = 4096, SAMPLES_MAX = 1000, WARM = 3, NO_GPU = 77 };

static const uint32_t dimensions[] = {512, 768, 1000, 1024, 2048, 4096};
static const uint64_t counts[] = {1, 10, 100, 1000, PAIRS_MAX};
enum { DIMENSIONS = sizeof dimensions / sizeof *dimensions };
enum { COUNTS = sizeof counts / sizeof *counts };

static struct {
    bool simulated;
    double seconds; /* of each figure */
    uint64_t pairs_max;
    const char *device;
} options = {.seconds = 1, .pairs_max = PAIRS_MAX, .device = "gpu.devices=0"};

static float *rows_a, *rows_b;
static uint64_t ids[PAIRS_MAX];

static void check(ea_status st, ea_client *c, const char *what)
{
    if (st) bench_fail(what, c ? ea_error_text(c) : ea_status_name(st));
}

static ea_client *open_client(const struct daemon_process *d)
{
    ea_client *c;
    check(ea_open(&(ea_options){.socket_path = d->socket_path}, &c), NULL, "ea_open");
    check(ea_connect(c), c, "ea_connect");
    return c;
}

static const char *const names[] = {"a", "b", "c"};

static void make(ea_client *c, uint32_t d)
{
    for (int i = 0; i < 3; i++) {
        check(ea_collection_create(c, names[i], d, EA_DOT, NULL), c, "create");
        ea_rows rows = {.collection = names[i],
                        .ids = ids,
                        .rows = i ? rows_b : rows_a,
                        .count = options.pairs_max,
                        .dimension = d};
        if (i < 2) check(ea_upsert(c, &rows, NULL), c, "upsert");
    }
}

static void drop(ea_client *c)
{
    for (int i = 0; i < 3; i++)
        check(ea_collection_drop(c, names[i]), c, "drop");
}

struct figure {
    double ms;
    bool given_back; /* the CPU answered in the card's place */
};

static ea_backend ask(ea_client *c, uint32_t d, uint64_t count, bool kept, ea_hrr_result *out)
{
    ea_operand a = {.rows = rows_a, .count = count}, b = {.rows = rows_b, .count = count};
    if (kept) {
        a = (ea_operand){.collection = "a", .ids = ids, .count = count};
        b = (ea_operand){.collection = "b", .ids = ids, .count = count};
    }
    const ea_into into = {.collection = "c", .ids = ids};
    const ea_bind_question question = {
        .a = &a, .b = &b, .dimension = d, .into = kept ? &into : NULL};
    check(ea_bind(c, &question, out), c, "bind");
    return out->meta->backend;
}

static struct figure measure(ea_client *c, uint32_t d, uint64_t count, bool kept, ea_backend by)
{
    static double ms[SAMPLES_MAX];
    struct figure f = {0};
    ea_hrr_result out = {0};
    size_t samples = 0;
    for (int i = 0; i < WARM; i++)
        ask(c, d, count, kept, &out);
    for (double end_s = bench_now_s() + options.seconds; samples < SAMPLES_MAX;) {
        double began_s = bench_now_s();
        if (began_s >= end_s && samples) break;
        f.given_back |= ask(c, d, count, kept, &out) != by;
        ms[samples++] = (bench_now_s() - began_s) * 1e3;
    }
    ea_hrr_result_free(&out);
    f.ms = bench_percentile(ms, samples, 50);
    return f;
}

static void print_row(ea_client *cpu, ea_client *card, uint32_t d, uint64_t count)
{
    printf("| %u | %llu |", d, (unsigned long long)count);
    for (int kept = 0; kept < 2; kept++) {
        struct figure ours = measure(cpu, d, count, kept, EA_BACKEND_CPU);
        struct figure theirs = measure(card, d, count, kept, EA_BACKEND_GPU);
        printf(" %.3f | %.3f%s | %.2f |", ours.ms, theirs.ms, theirs.given_back ? " *" : "",
               ours.ms / theirs.ms);
    }
    printf("\n");
    fflush(stdout);
}

static void print_table(ea_client *cpu, ea_client *card)
{
    printf("| d | pairs | sent: CPU | card | ratio | kept: CPU | card | ratio |\n"
           "|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < DIMENSIONS; i++) {
        make(cpu, dimensions[i]);
        make(card, dimensions[i]);
        for (size_t k = 0; k < COUNTS && counts[k] <= options.pairs_max; k++)
            print_row(cpu, card, dimensions[i], counts[k]);
        drop(cpu);
        drop(card);
    }
}

static bool has_card(ea_client *c)
{
    static ea_info info;
    double end_s = bench_now_s() + 60;
    do {
        check(ea_get_info(c, &info), c, "info");
        if (info.gpu_count && info.gpus[0].state == EA_GPU_READY) return true;
    } while (info.gpu_count && info.gpus[0].state == EA_GPU_STARTING && bench_now_s() < end_s);
    return false;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 's':
        options.simulated = true;
        options.device = "gpu.devices=sim";
        return 0;
    case 'q':
        options.seconds = 0.05;
        options.pairs_max = 1000;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    const struct argp_option known[] = {
        {"sim", 's', NULL, 0, "a simulated card", 0},
        {"quick", 'q', NULL, 0, "a twentieth of a second for each figure, up to 1,000 pairs", 0},
        {0}};
    const struct argp argp = {known, parse, NULL, "Times binds, the CPU beside a card.",
                              NULL,  NULL,  NULL};
    argp_parse(&argp, argc, argv, 0, NULL, NULL);

    size_t numbers = (size_t)options.pairs_max * D_MAX;
    uint64_t seed = 1;
    rows_a = malloc(numbers * sizeof *rows_a);
    rows_b = malloc(numbers * sizeof *rows_b);
    if (!rows_a || !rows_b) bench_fail("rows", "no memory");
    for (size_t i = 0; i < numbers; i++) {
        rows_a[i] = bench_random_float(&seed);
        rows_b[i] = bench_random_float(&seed);
    }
    for (uint64_t i = 0; i < PAIRS_MAX; i++)
        ids[i] = i;
    struct daemon_process on_cpu, on_card;
    const char *const forced[] = {options.device, "gpu.force=gpu", "gpu.min_pairs=1",
                                  "sched.calibrate=false", NULL};
    daemon_start(&on_cpu, (const char *const[]){"gpu.devices=none", "sched.calibrate=false", NULL});
    daemon_start(&on_card, forced);
    ea_client *cpu = open_client(&on_cpu), *card = open_client(&on_card);
    bool there = has_card(card);
    if (there)
        print_table(cpu, card);
    else
        fprintf(stderr, "bench_bind_grid: no GPU is ready; --sim runs the simulated one\n");
    ea_close(cpu);
    ea_close(card);
    daemon_stop(&on_cpu);
    daemon_stop(&on_card);
    free(rows_a);
    free(rows_b);
    return there ? 0 : NO_GPU;
}
