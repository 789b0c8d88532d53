/* bench_attractor: completions by an attractor of 768 dimensions with 50 patterns, 256 numbers of
 * each cue known, over a daemon's socket.
 *
 *   bench_attractor SOCKET [--runs N] [--stored N]
 *                                       a table: batches of 1, 8, 64 and 1,000, and what ran them;
 *                                       N runs each (50); with the nearest of N stored rows (0)
 *   bench_attractor SOCKET --serve | --serve-scattered
 *                                       for bench_attractor_peers.py: reads lines of COUNT REPEATS,
 *                                       prints the seconds of one: the clock's, the daemon's own
 *                                       (run_ns) and its processors' */
#include <dirent.h>
#include <string.h>

#include "client/engram_accel.h"
#include "tests/bench/bench.h"

enum { DIMENSION = 768, KNOWN = 256, PATTERNS = 50, CUES_MAX = 1000, WARM = 20 };

struct rig {
    ea_client *client;
    uint32_t daemon;
    float *cues;
    uint8_t mask[DIMENSION];
    const char *stored; /* a collection; NULL: none */
    ea_engine_completed result;
};

static void need(struct rig *r, ea_status status, const char *what)
{
    if (status) bench_fail(what, ea_error_text(r->client));
}

/* Of all threads of the daemon, so far. */
static double daemon_cpu_s(const struct rig *r)
{
    char path[96];
    double all = 0;
    snprintf(path, sizeof path, "/proc/%u/task", r->daemon);
    DIR *tasks = opendir(path);
    for (struct dirent *d; tasks && (d = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/%u/task/%.16s/schedstat", r->daemon, d->d_name);
        FILE *f = d->d_name[0] == '.' ? NULL : fopen(path, "r");
        double ns = 0;
        if (f && fscanf(f, "%lf", &ns) == 1) all += ns;
        if (f) fclose(f);
    }
    if (tasks) closedir(tasks);
    return all * 1e-9;
}

/* Known numbers are the first ones, or every third. */
static void rig_open(struct rig *r, const char *socket, bool scattered)
{
    ea_options options = {.socket_path = socket, .timeout_us = EA_NO_TIMEOUT};
    ea_info info;
    uint64_t seed = 1;
    memset(r, 0, sizeof *r);
    if (ea_open(&options, &r->client)) bench_fail(socket, "no handle");
    need(r, ea_get_info(r->client, &info), socket);
    r->daemon = info.process_id;
    r->cues = malloc(sizeof *r->cues * DIMENSION * CUES_MAX);
    if (!r->cues) bench_fail("cues", "out of memory");
    for (size_t i = 0; i < (size_t)DIMENSION * CUES_MAX; i++)
        r->cues[i] = bench_random_float(&seed);
    for (size_t i = 0; i < KNOWN; i++)
        r->mask[scattered ? 3 * i : i] = 1;
    (void)ea_attractor_drop(r->client, "bench");
    need(r,
         ea_attractor_create(r->client, "bench", &(ea_attractor_shape){.dimension = DIMENSION},
                             NULL),
         "create");
    const ea_learn_question learn = {
        .attractor = "bench", .rows = r->cues, .count = PATTERNS, .dimension = DIMENSION};
    need(r, ea_attractor_learn(r->client, &learn, NULL), "learn");
}

/* Random rows, of which the nearest is found for each state. */
static void store(struct rig *r, uint64_t count)
{
    enum { AT_ONCE = 1000 };
    float *rows = malloc(sizeof *rows * DIMENSION * AT_ONCE);
    uint64_t ids[AT_ONCE], seed = 2;
    if (!rows) bench_fail("rows", "out of memory");
    (void)ea_collection_drop(r->client, "bench");
    need(r, ea_collection_create(r->client, "bench", DIMENSION, EA_COSINE, NULL), "create");
    for (uint64_t first = 0; first < count; first += AT_ONCE) {
        uint64_t n = count - first < AT_ONCE ? count - first : AT_ONCE;
        for (uint64_t i = 0; i < n; i++)
            ids[i] = first + i;
        for (size_t i = 0; i < n * DIMENSION; i++)
            rows[i] = bench_random_float(&seed);
        const ea_rows some = {
            .collection = "bench", .ids = ids, .rows = rows, .count = n, .dimension = DIMENSION};
        need(r, ea_upsert(r->client, &some, NULL), "upsert");
    }
    r->stored = "bench";
    free(rows);
}

struct seconds {
    double clock, run, cpu;
};

static struct seconds ask(struct rig *r, uint64_t count, uint64_t repeats)
{
    const ea_engine_question q = {.attractor = "bench",
                                  .cues = r->cues,
                                  .count = count,
                                  .dimension = DIMENSION,
                                  .mask = r->mask,
                                  .mask_rows = 1,
                                  .collection = r->stored};
    struct seconds s = {bench_now_s(), 0, daemon_cpu_s(r)};
    for (uint64_t i = 0; i < repeats; i++) {
        need(r, ea_complete_engine(r->client, &q, &r->result), "complete");
        s.run += (double)r->result.meta->run_ns * 1e-9;
    }
    double n = (double)repeats;
    return (struct seconds){(bench_now_s() - s.clock) / n, s.run / n,
                            (daemon_cpu_s(r) - s.cpu) / n};
}

static void serve(struct rig *r)
{
    unsigned long long count, repeats;
    puts("ready");
    fflush(stdout);
    while (scanf("%llu %llu", &count, &repeats) == 2 && count <= CUES_MAX) {
        struct seconds s = ask(r, count, repeats);
        printf("%.9f %.9f %.9f\n", s.clock, s.run, s.cpu);
        fflush(stdout);
    }
}

/* Of the last answer. */
static const char *backend_of(const struct rig *r)
{
    return r->result.meta->backend == EA_BACKEND_GPU ? "gpu" : "cpu";
}

/* The first requests also bring what they read to a card. */
static void table(struct rig *r, size_t runs)
{
    static const uint64_t counts[] = {1, 8, 64, 1000};
    double *clock = malloc(runs * sizeof *clock), *cpu = malloc(runs * sizeof *cpu);
    double *run = malloc(runs * sizeof *run);
    if (!clock || !cpu || !run) bench_fail("runs", "out of memory");
    printf("completion, %d dimensions, %d known; milliseconds\n%8s %10s %10s %10s %12s\n",
           DIMENSION, KNOWN, "cues", "p50", "p99", "run", "cpu");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ask(r, counts[i], runs < WARM ? runs : WARM);
        for (size_t k = 0; k < runs; k++) {
            struct seconds s = ask(r, counts[i], 1);
            clock[k] = s.clock;
            cpu[k] = s.cpu;
            run[k] = s.run;
        }
        double middle = bench_percentile(clock, runs, 50), late = bench_percentile(clock, runs, 99);
        printf("%8llu %10.3f %10.3f %10.3f %12.3f  %s\n", (unsigned long long)counts[i],
               middle * 1e3, late * 1e3, bench_percentile(run, runs, 50) * 1e3,
               bench_percentile(cpu, runs, 50) * 1e3, backend_of(r));
    }
    free(clock);
    free(run);
    free(cpu);
}

int main(int argc, char **argv)
{
    struct rig r;
    if (argc < 2) bench_fail("usage", "bench_attractor SOCKET [--serve | --runs N | --stored N]");
    bool scattered = argc == 3 && strcmp(argv[2], "--serve-scattered") == 0;
    uint64_t runs = 50, stored = 0;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--runs") == 0) runs = strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--stored") == 0) stored = strtoul(argv[i + 1], NULL, 10);
    }
    rig_open(&r, argv[1], scattered);
    if (stored) store(&r, stored);
    if (scattered || (argc == 3 && strcmp(argv[2], "--serve") == 0))
        serve(&r);
    else
        table(&r, runs ? runs : 1);
    ea_engine_completed_free(&r.result);
    free(r.cues);
    ea_close(r.client);
    return 0;
}
