/* bench_versions: what versions cost in memory: a reader that keeps the first version of a
 * collection beside a writer that writes all of its rows anew, 20 times, in batches and in one
 * request each time: the most that the heap held of the collection meanwhile, and what is left
 * afterwards. The bodies of requests are told apart: they are the clients', in flight. Exit 1 for
 * errors alone: a figure that misses its target is told. */
#include <argp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_bench.h"

enum { K = 10, TRIAL_QUERIES = 256, PAGE = 4096, WAIT_US = 500, GIVEN_BACK_S = 10 };

static struct sched_bench run = {.dimension = 768, .rows_max = 20000};
static double seconds = 6;
static unsigned rewrites = 20;
static uint64_t batch_rows = 1000;

static uint64_t heap_used(ea_client *c, uint64_t *peak)
{
    static ea_stats stats;
    sched_check(ea_get_stats(c, &stats), c, "stats");
    if (peak) *peak = stats.memory_bytes_peak;
    return stats.memory_bytes_used;
}

static uint64_t body_bytes_of(uint64_t rows)
{
    return (rows * (run.dimension * sizeof(float) + sizeof(uint64_t)) + PAGE - 1) / PAGE * PAGE;
}

/* ---------------------------------------------------------------- the reader */

struct reader {
    const struct sched_daemon *daemon;
    const char *rows_name;
    const float *queries;
    uint64_t count, version;
    double took_s;
    pthread_t thread;
    atomic_bool done;
};

static void *read_long(void *argument)
{
    struct reader *r = argument;
    ea_client *c = sched_daemon_client(r->daemon);
    ea_result result = {0};
    double began = bench_now_s();
    ea_knn_question q = {.collection = r->rows_name,
                         .queries = r->queries,
                         .query_count = r->count,
                         .dimension = run.dimension,
                         .k = K};
    sched_check(ea_knn(c, &q, &result), c, "kNN");
    r->took_s = bench_now_s() - began;
    r->version = result.meta->version;
    atomic_store(&r->done, true);
    ea_result_free(&result);
    ea_close(c);
    return NULL;
}

/* As many queries as last about so long. */
static uint64_t queries_for(const struct sched_daemon *d, const char *name)
{
    float *queries = sched_random_floats((uint64_t)TRIAL_QUERIES * run.dimension, 4);
    struct reader trial = {
        .daemon = d, .rows_name = name, .queries = queries, .count = TRIAL_QUERIES};
    read_long(&trial); /* warm */
    read_long(&trial);
    free(queries);
    return (uint64_t)(seconds / trial.took_s * TRIAL_QUERIES) + TRIAL_QUERIES;
}

/* Starts it. Returns the bytes of the heap once its body is there and it works. */
static uint64_t reader_start(struct reader *r)
{
    uint64_t before = heap_used(r->daemon->client, NULL), body = body_bytes_of(r->count) / 100 * 99;
    if (pthread_create(&r->thread, NULL, read_long, r)) bench_fail("thread", "none starts");
    while (heap_used(r->daemon->client, NULL) < before + body && !atomic_load(&r->done))
        usleep(WAIT_US);
    usleep(100000);
    return heap_used(r->daemon->client, NULL);
}

/* ---------------------------------------------------------------- the writer */

static void on_written(ea_client *c, const ea_answer *answer, void *user)
{
    *(uint64_t *)user = answer->status ? 0 : answer->result->meta->version;
    sched_check(answer->status, c, "upsert");
}

/* One request each. Returns the version that it has made. */
static uint64_t write_all(ea_client *c, const char *name, const uint64_t *ids, const float *rows,
                          uint64_t at_once)
{
    uint64_t version = 0;
    const ea_send_options how = {.callback = on_written, .user = &version};
    for (uint64_t first = 0, n; first < run.rows_max; first += n) {
        n = run.rows_max - first < at_once ? run.rows_max - first : at_once;
        ea_rows what = {.collection = name,
                        .ids = ids + first,
                        .rows = rows + first * run.dimension,
                        .count = n,
                        .dimension = run.dimension};
        sched_check(ea_upsert_send(c, &what, &how, NULL), c, "upsert");
        while (ea_pending(c))
            sched_check(ea_pump(c, -1), c, "upsert");
    }
    return version;
}

/* Returns the last version. */
static uint64_t write_often(const struct sched_daemon *d, const char *name, uint64_t at_once)
{
    ea_client *c = sched_daemon_client(d);
    float *rows = sched_random_floats(run.rows_max * run.dimension, 3);
    uint64_t *ids = malloc(run.rows_max * sizeof *ids), version = 0;
    if (!ids) bench_fail("ids", "no memory");
    for (uint64_t i = 0; i < run.rows_max; i++)
        ids[i] = i;
    double began = bench_now_s(), every_s = seconds > 10 ? seconds * 0.8 / rewrites : 0;
    for (unsigned i = 0; i < rewrites; i++) {
        version = write_all(c, name, ids, rows, at_once);
        double left_s = began + (i + 1) * every_s - bench_now_s();
        if (left_s > 0) usleep((useconds_t)(left_s * 1e6));
    }
    free(ids);
    free(rows);
    ea_close(c);
    return version;
}

/* ---------------------------------------------------------------- a scene */

/* Until the heap is as it was, or the time is up: what old versions leave is freed on a worker. */
static uint64_t used_after(ea_client *c, uint64_t before)
{
    double end = bench_now_s() + GIVEN_BACK_S;
    uint64_t used;
    do {
        usleep(WAIT_US);
        used = heap_used(c, NULL);
    } while (used > before && bench_now_s() < end);
    return used;
}

static void tell(const char *what, double times, double most)
{
    printf("  %-52s %6.2f x", what, times);
    if (most > 0) printf("   <= %.2f %s", most, times <= most ? "ok" : "MISSED");
    printf("\n");
    fflush(stdout);
}

static void run_scene(const char *title, uint64_t at_once)
{
    const char *const settings[] = {"gpu.devices=none", "sched.calibrate=false",
                                    "limits.request_body_mib=1024", "memory.max_mib=16384", NULL};
    struct sched_daemon d;
    char name[SCHED_ROWS_NAME];
    sched_daemon_start(&d, &run, run.rows_max, settings);
    uint64_t empty = heap_used(d.client, NULL);
    sched_load(&d, run.rows_max);
    sched_name(run.rows_max, name);
    struct reader r = {.daemon = &d, .rows_name = name, .count = queries_for(&d, name)};
    float *queries = sched_random_floats(r.count * run.dimension, 5);
    r.queries = queries;

    uint64_t alone = heap_used(d.client, NULL), with_reader = reader_start(&r), peak;
    double began = bench_now_s(), all = (double)(alone - empty);
    uint64_t version = write_often(&d, name, at_once);
    double wrote_s = bench_now_s() - began;
    bool covered = !atomic_load(&r.done);
    heap_used(d.client, &peak);
    pthread_join(r.thread, NULL);
    uint64_t after = used_after(d.client, alone);

    printf("%s: %u times in %.1f s, beside a reader of %.1f s%s%s\n", title, rewrites, wrote_s,
           r.took_s, covered ? "" : " (TOO SHORT)",
           r.version < version ? "" : " (NOT of an older version)");
    double most = 1 + ((double)peak - (double)with_reader) / all;
    double body = (double)body_bytes_of(at_once < run.rows_max ? at_once : run.rows_max) / all;
    tell("at most, in times of the collection", most - body, 2.1);
    tell("  with the body of the write", most, 0);
    tell("afterwards", (double)(after - empty) / all, 1.01);
    sched_daemon_stop(&d);
    free(queries);
}

/* ---------------------------------------------------------------- the program */

static error_t parse(int key, char *value, struct argp_state *state)
{
    switch (key) {
    case 'q': seconds = 3, rewrites = 5; return 0;
    case 't': seconds = atof(value); return seconds > 0 ? 0 : EINVAL;
    case 'r': run.rows_max = strtoull(value, NULL, 10); return run.rows_max ? 0 : EINVAL;
    case 'd': run.dimension = (uint32_t)atoi(value); return run.dimension ? 0 : EINVAL;
    case 'b': batch_rows = strtoull(value, NULL, 10); return batch_rows ? 0 : EINVAL;
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
        {"quick", 'q', NULL, 0, "A reader of 3 seconds and 5 times", 0},
        {"seconds", 't', "N", 0, "How long the reader reads, about (6)", 0},
        {"rows", 'r', "N", 0, "Rows of the collection (20000)", 0},
        {"dimension", 'd', "N", 0, "Floats of a row (768)", 0},
        {"batch", 'b', "N", 0, "Rows of a batch (1000)", 0},
        {"set", 'S', "KEY=VALUE", 0, "A setting of the daemon", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    unsetenv("STATE_DIRECTORY"); /* no model is to be found there */
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    char title[80];
    printf("a reader keeps a version of %llu x %u, a writer writes all rows anew\n",
           (unsigned long long)run.rows_max, run.dimension);
    snprintf(title, sizeof title, "in batches of %llu rows", (unsigned long long)batch_rows);
    run_scene(title, batch_rows);
    run_scene("in one request", run.rows_max);
    return 0;
}
