/* bench_managed [--rows N] [--samples N] [--quick] [--sim]: unified memory (gpu.memory = managed)
 * beside device memory, through the Unix socket: kNN of 1, 128 and 1,024 queries, and an upsert and
 * a query in turn; whether answers are the same. The two daemons, one after the other, each over
 * the same rows. Needs a GPU (exit 77 without); --sim has the simulated device, whose times mean
 * nothing. */
#include <argp.h>
#include <string.h>
#include <unistd.h>

#include "client/engram_accel.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { DIMENSION = 768, K = 10, KINDS = 4, SAMPLES_MAX = 1000, PART = 16384, NO_GPU = 77 };
#define TARGET 1.05

static struct {
    uint64_t rows;
    unsigned samples;
    bool simulated;
} options = {.rows = 300000, .samples = 60};

static const uint64_t query_counts[KINDS] = {1, 128, 1024, 1};
static const char *const kind_names[KINDS] = {"1 query", "128 queries", "1,024 queries",
                                              "1,000 rows upserted, then 1 query"};

/* Of one daemon. */
struct side {
    const char *memory;
    struct daemon_process daemon;
    ea_client *client;
    double p50_us[KINDS], p99_us[KINDS];
    ea_result last[KINDS];
};

static void check(ea_status st, ea_client *c, const char *what)
{
    if (st) bench_fail(what, c ? ea_error_text(c) : ea_status_name(st));
}

static float *random_floats(uint64_t count, uint64_t seed)
{
    float *values = malloc(count * sizeof *values);
    if (!values) bench_fail("rows", "no memory");
    for (uint64_t i = 0; i < count; i++)
        values[i] = bench_random_float(&seed);
    return values;
}

/* The collection's, made when they are first wanted. */
static const float *all_rows(void)
{
    static float *rows;
    if (!rows) rows = random_floats(options.rows * DIMENSION, 1);
    return rows;
}

static void upsert(struct side *s, const float *rows, uint64_t first, uint64_t count)
{
    static uint64_t ids[PART];
    for (uint64_t i = 0; i < count; i++)
        ids[i] = first + i + 1;
    check(ea_upsert(s->client,
                    &(ea_rows){.collection = "rows",
                               .ids = ids,
                               .rows = rows,
                               .count = count,
                               .dimension = DIMENSION},
                    NULL),
          s->client, "upsert");
}

static void ask(struct side *s, const float *queries, uint64_t count, ea_result *r)
{
    check(ea_knn(s->client,
                 &(ea_knn_question){.collection = "rows",
                                    .queries = queries,
                                    .query_count = count,
                                    .dimension = DIMENSION,
                                    .k = K},
                 r),
          s->client, "knn");
}

/* Asks until the GPU answers, and then until what it makes beside the rows is there. */
static void warm(struct side *s, const float *queries)
{
    double end = bench_now_s() + 20, settled = 0;
    ea_result r = {0};
    while (bench_now_s() < end && (settled == 0 || bench_now_s() < settled)) {
        ask(s, queries, 1, &r);
        if (settled == 0 && r.meta->backend == EA_BACKEND_GPU) settled = bench_now_s() + 1.5;
        usleep(200);
    }
    if (settled == 0) bench_fail("knn", "the GPU did not take it up");
    ea_result_free(&r);
}

static void measure(struct side *s, int kind, const float *queries, const float *rows)
{
    static double times[SAMPLES_MAX];
    unsigned elsewhere = 0;
    bool writes = kind == KINDS - 1;
    for (int i = -5; i < (int)options.samples; i++) {
        double start = bench_now_s();
        if (writes) upsert(s, rows, (uint64_t)(i + 5) % 8 * 1000, 1000);
        ask(s, queries, query_counts[kind], &s->last[kind]);
        if (i < 0) continue;
        times[i] = (bench_now_s() - start) * 1e6;
        elsewhere += s->last[kind].meta->backend != EA_BACKEND_GPU;
    }
    s->p50_us[kind] = bench_percentile(times, options.samples, 50);
    s->p99_us[kind] = bench_percentile(times, options.samples, 99);
    printf("    %s, %s: p50 %.1f us, p99 %.1f us, %u not on the GPU\n", s->memory, kind_names[kind],
           s->p50_us[kind], s->p99_us[kind], elsewhere);
    fflush(stdout);
}

static bool has_gpu(const struct side *s)
{
    for (int i = 0; i < 1000; i++) {
        ea_info info;
        check(ea_get_info(s->client, &info), s->client, "info");
        bool ready = info.gpu_count && info.gpus[0].state == EA_GPU_READY;
        if (ready) printf("gpu: %s\n", info.gpu);
        if (ready) return true;
        if (!info.gpu_count || info.gpus[0].state == EA_GPU_ABSENT) return false;
        usleep(10000);
    }
    return false;
}

/* False: there is no GPU. */
static bool run(struct side *s, const float *queries)
{
    char memory[64];
    snprintf(memory, sizeof memory, "gpu.memory=%s", s->memory);
    const char *settings[] = {options.simulated ? "gpu.devices=sim" : "gpu.devices=0", memory,
                              "memory.max_mib=8192", "gpu.sim=vram_mib=4096", NULL};
    daemon_start(&s->daemon, settings);
    ea_options o = {.socket_path = s->daemon.socket_path};
    check(ea_open(&o, &s->client), NULL, "ea_open");
    check(ea_connect(s->client), s->client, "ea_connect");
    bool found = has_gpu(s);
    if (found) {
        const float *rows = all_rows();
        check(ea_collection_create(s->client, "rows", DIMENSION, EA_COSINE, NULL), s->client,
              "create");
        for (uint64_t i = 0; i < options.rows; i += PART)
            upsert(s, rows + i * DIMENSION, i, options.rows - i < PART ? options.rows - i : PART);
        warm(s, queries);
        ea_stats stats;
        check(ea_get_stats(s->client, &stats), s->client, "stats");
        printf("    %s: %.2f GiB of replicas\n", s->memory,
               (double)stats.gpus[0].replica_bytes / (double)(1 << 30));
        for (int kind = 0; kind < KINDS; kind++)
            measure(s, kind, queries, rows + options.rows / 2 * DIMENSION);
    }
    ea_close(s->client);
    daemon_stop(&s->daemon);
    return found;
}

/* Prints the table; false: a target was missed, or answers differ. */
static bool report(struct side *device, struct side *managed)
{
    bool met = true;
    bench_header("kNN, k = 10: managed (peer: device)");
    for (int kind = 0; kind < KINDS; kind++) {
        char ours[32], theirs[32];
        const ea_result *a = &device->last[kind], *b = &managed->last[kind];
        uint64_t places = a->rows * a->columns;
        snprintf(ours, sizeof ours, "%.1f us", managed->p50_us[kind]);
        snprintf(theirs, sizeof theirs, "%.1f us", device->p50_us[kind]);
        met &= bench_row(kind_names[kind], ours, theirs,
                         managed->p50_us[kind] / device->p50_us[kind], false, TARGET);
        if (a->rows == b->rows && a->columns == b->columns &&
            !memcmp(a->ids, b->ids, places * sizeof *a->ids) &&
            !memcmp(a->scores, b->scores, places * sizeof *a->scores))
            continue;
        printf("    %s: answers DIFFER\n", kind_names[kind]);
        met = false;
    }
    return met;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    (void)state;
    switch (key) {
    case 'r': options.rows = strtoull(value, NULL, 10); return 0;
    case 'n':
        options.samples = (unsigned)strtoul(value, NULL, 10);
        if (options.samples < 1 || options.samples > SAMPLES_MAX) options.samples = SAMPLES_MAX;
        return 0;
    case 'q':
        options.rows = 100000;
        options.samples = 20;
        return 0;
    case 's': options.simulated = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option list[] = {{"rows", 'r', "N", 0, "of the collection", 0},
                                              {"samples", 'n', "N", 0, "of each kind", 0},
                                              {"quick", 'q', NULL, 0, "fewer of both", 0},
                                              {"sim", 's', NULL, 0, "the simulated device", 0},
                                              {0}};
    const struct argp argp = {.options = list, .parser = parse};
    if (argp_parse(&argp, argc, argv, 0, NULL, NULL)) return 2;
    if (options.rows < 16000) options.rows = 16000;
    float *queries = random_floats(1024 * DIMENSION, 2);
    struct side device = {.memory = "device"}, managed = {.memory = "managed"};
    bool found = run(&device, queries) && run(&managed, queries);
    if (!found) printf("SKIP: no GPU\n");
    bool met = found && report(&device, &managed);
    for (int kind = 0; kind < KINDS; kind++) {
        ea_result_free(&device.last[kind]);
        ea_result_free(&managed.last[kind]);
    }
    free(queries);
    return !found ? NO_GPU : !met;
}
