/* bench_bind: holographic operations through the Unix socket, one request after the other: p50 and
 * p99 of pairs and lists that come with the request, beside the times that memory engines ask for,
 * and of a ping, which tells how much of them is two processes waking each other. --quick shortens
 * it. */
#include <argp.h>
#include <stdlib.h>

#include "client/engram_accel.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { DIMENSION = 1024, ROWS_MAX = 1000, SAMPLES_MAX = 4000, WARM = 50 };

static double seconds = 3; /* of each figure */

static void check(ea_status st, ea_client *c, const char *what)
{
    if (st) bench_fail(what, c ? ea_error_text(c) : ea_status_name(st));
}

static void ask_ping(ea_client *c, const float *rows, uint64_t count, ea_hrr_result *out)
{
    check(ea_ping(c), c, "ping");
}

static void ask_bind(ea_client *c, const float *rows, uint64_t count, ea_hrr_result *out)
{
    const ea_operand a = {.rows = rows, .count = count};
    const ea_operand b = {.rows = rows + (size_t)ROWS_MAX * DIMENSION, .count = count};
    const ea_bind_question question = {.a = &a, .b = &b, .dimension = DIMENSION};
    check(ea_bind(c, &question, out), c, "bind");
}

static void ask_superpose(ea_client *c, const float *rows, uint64_t count, ea_hrr_result *out)
{
    const ea_operand a = {.rows = rows, .count = count};
    const ea_list_question question = {.a = &a, .dimension = DIMENSION, .normalize = true};
    check(ea_superpose(c, &question, out), c, "superpose");
}

static void ask_permute(ea_client *c, const float *rows, uint64_t count, ea_hrr_result *out)
{
    const ea_operand a = {.rows = rows, .count = count};
    const ea_permute_question question = {.a = &a, .dimension = DIMENSION, .shift = 1};
    check(ea_permute(c, &question, out), c, "permute");
}

static void ask_random(ea_client *c, const float *rows, uint64_t count, ea_hrr_result *out)
{
    const ea_random_question question = {.seed = 1, .count = count, .dimension = DIMENSION};
    check(ea_random(c, &question, out), c, "random");
}

static const struct figure {
    const char *name;
    void (*ask)(ea_client *c, const float *rows, uint64_t count, ea_hrr_result *out);
    uint64_t rows;
    double at_most_ms;
} figures[] = {
    {"ping", ask_ping, 0, 0.04},
    {"bind, 1 pair", ask_bind, 1, 0.04},
    {"superpose, a list of 10", ask_superpose, 10, 0.06},
    {"permute, 1 row", ask_permute, 1, 0.04},
    {"random, 1 row", ask_random, 1, 0.04},
    {"bind, 100 pairs", ask_bind, 100, 0.8},
    {"bind, 1,000 pairs", ask_bind, 1000, 8},
    {"superpose, a list of 1,000", ask_superpose, 1000, 1},
};

static void measure(ea_client *c, const struct figure *f, const float *rows)
{
    static double ms[SAMPLES_MAX];
    size_t count = 0;
    ea_hrr_result out = {0};
    for (int i = 0; i < WARM; i++)
        f->ask(c, rows, f->rows, &out);
    for (double end_s = bench_now_s() + seconds; count < SAMPLES_MAX;) {
        double began_s = bench_now_s();
        if (began_s >= end_s && count) break;
        f->ask(c, rows, f->rows, &out);
        ms[count++] = (bench_now_s() - began_s) * 1e3;
    }
    double p50 = bench_percentile(ms, count, 50);
    char ours[48], target[32];
    snprintf(ours, sizeof ours, "%.3f, %.3f ms", p50, bench_percentile(ms, count, 99));
    snprintf(target, sizeof target, "%.2f ms", f->at_most_ms);
    bench_row(f->name, ours, target, p50 / f->at_most_ms, false, 1.0);
    ea_hrr_result_free(&out);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    if (key != 'q') return ARGP_ERR_UNKNOWN;
    seconds = 0.5;
    return 0;
}

int main(int argc, char **argv)
{
    const struct argp_option known[] = {{"quick", 'q', NULL, 0, "half a second for each figure", 0},
                                        {0}};
    const struct argp argp = {
        known, parse, NULL, "Times holographic operations through the socket.", NULL, NULL, NULL};
    argp_parse(&argp, argc, argv, 0, NULL, NULL);

    size_t numbers = 2 * (size_t)ROWS_MAX * DIMENSION;
    float *rows = malloc(numbers * sizeof *rows);
    uint64_t seed = 1;
    if (!rows) bench_fail("rows", "no memory");
    for (size_t i = 0; i < numbers; i++)
        rows[i] = bench_random_float(&seed);
    struct daemon_process d;
    daemon_start(&d, NULL);
    ea_client *c;
    check(ea_open(&(ea_options){.socket_path = d.socket_path}, &c), NULL, "ea_open");
    check(ea_connect(c), c, "ea_connect");
    bench_header(
        "holographic operations through the Unix socket, d = 1,024, p50 and p99; peer: the "
        "target of the p50");
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        measure(c, &figures[i], rows);
    ea_close(c);
    daemon_stop(&d);
    free(rows);
    return 0;
}
