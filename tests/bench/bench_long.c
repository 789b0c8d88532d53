/* bench_long: requests of seconds, clusters by both rules and a covariance: what the recalls of
 * another client of the same space take meanwhile, p50, p99 and worst beside the same recalls
 * alone, and how long after a cancel they end. Without a device it runs on the CPU. Exit 1 for
 * errors alone: a figure that misses its target is told. */
#include <argp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_bench.h"

enum { K = 10, POOL = 64, SAMPLES_MAX = 1 << 18, PACE_US = 50000, EACH = 20 };
#define P99_MS    20.0
#define CANCEL_MS 100.0

static struct sched_bench run = {.dimension = 768, .rows_max = 20000};
static unsigned seconds = 5, cancels = 200;
static uint64_t clustered = 5000;
static const char *only;
static float *pool; /* POOL random queries */

/* ---------------------------------------------------------------- times */

struct times {
    double ms[SAMPLES_MAX];
    size_t count;
};

static struct times *times_make(void)
{
    struct times *t = calloc(1, sizeof *t);
    if (!t) bench_fail("times", "no memory");
    return t;
}

struct figures {
    double p50, p99, worst;
    size_t count;
};

static struct figures figures_take(struct times *t)
{
    struct figures f = {0};
    if (t->count)
        f = (struct figures){bench_percentile(t->ms, t->count, 50),
                             bench_percentile(t->ms, t->count, 99), t->ms[t->count - 1], t->count};
    free(t);
    return f;
}

static void tell(const char *what, struct figures f)
{
    printf("  %-44s %9.2f %9.2f %9.2f ms %7zu", what, f.p50, f.p99, f.worst, f.count);
    fflush(stdout);
}

/* ---------------------------------------------------------------- what is long */

static ea_cluster_question clusters_by(ea_cluster_rule rule)
{
    return (ea_cluster_question){.collection = "planted", .rule = rule};
}

static ea_status ask_centroid(ea_client *c, const ea_send_options *how, uint64_t *id)
{
    const ea_cluster_question q = clusters_by(EA_CLUSTER_CENTROID);
    return ea_cluster_send(c, &q, how, id);
}

static ea_status ask_average(ea_client *c, const ea_send_options *how, uint64_t *id)
{
    const ea_cluster_question q = clusters_by(EA_CLUSTER_AVERAGE);
    return ea_cluster_send(c, &q, how, id);
}

static ea_status ask_covariance(ea_client *c, const ea_send_options *how, uint64_t *id)
{
    static char name[SCHED_ROWS_NAME];
    sched_name(run.rows_max, name);
    return ea_covariance_send(c, &(ea_covariance_question){.collection = name}, how, id);
}

static const struct longer {
    const char *name;
    ea_status (*ask)(ea_client *c, const ea_send_options *how, uint64_t *id);
} longer[] = {
    {"clusters by centroids", ask_centroid},
    {"clusters by average", ask_average},
    {"covariances", ask_covariance},
};

static void note_status(ea_client *c, const ea_answer *answer, void *user)
{
    (void)c;
    *(ea_status *)user = answer->status;
}

/* Waits until c's only request has been answered. */
static void finish(ea_client *c)
{
    while (ea_pending(c))
        sched_check(ea_pump(c, -1), c, "wait");
}

/* Asks once, and cancels it after cancel_us; negative: never. Returns the milliseconds from the
 * question, or from the cancel, to the answer; *status: of that. */
static double ask_once(ea_client *c, const struct longer *l, int64_t cancel_us, ea_status *status)
{
    const ea_send_options how = {.callback = note_status, .user = status};
    uint64_t id;
    double began = bench_now_s();
    sched_check(l->ask(c, &how, &id), c, l->name);
    if (cancel_us >= 0) {
        double until = began + (double)cancel_us / 1e6;
        while (ea_pending(c) && bench_now_s() < until)
            sched_check(ea_pump(c, (int64_t)((until - bench_now_s()) * 1e6) + 1), c, "wait");
        began = bench_now_s();
        if (ea_pending(c)) (void)ea_cancel(c, id);
    }
    finish(c);
    return (bench_now_s() - began) * 1e3;
}

/* ---------------------------------------------------------------- recalls */

static struct figures recall(const struct sched_daemon *d, unsigned every_us, double for_s)
{
    char name[SCHED_ROWS_NAME];
    struct times *t = times_make();
    double start = bench_now_s();
    sched_name(run.rows_max, name);
    for (unsigned i = 0; bench_now_s() < start + for_s && t->count < SAMPLES_MAX; i++) {
        double began = bench_now_s();
        ea_result r = {0};
        sched_check(ea_knn(d->client,
                           &(ea_knn_question){.collection = name,
                                              .queries = pool + (size_t)(i % POOL) * run.dimension,
                                              .query_count = 1,
                                              .dimension = run.dimension,
                                              .k = K},
                           &r),
                    d->client, "kNN");
        ea_result_free(&r);
        t->ms[t->count++] = (bench_now_s() - began) * 1e3;
        double left_s = began + every_us / 1e6 - bench_now_s();
        if (left_s > 0) usleep((useconds_t)(left_s * 1e6));
    }
    return figures_take(t);
}

struct at_work {
    const struct sched_daemon *daemon;
    const struct longer *what;
    pthread_t thread;
    atomic_bool stop;
    struct times *times;
};

/* One after the other; the last one is cancelled. */
static void *work(void *argument)
{
    struct at_work *w = argument;
    ea_client *c = sched_daemon_client(w->daemon);
    while (!atomic_load(&w->stop)) {
        ea_status status = EA_OK;
        const ea_send_options how = {.callback = note_status, .user = &status};
        uint64_t id;
        double began = bench_now_s();
        sched_check(w->what->ask(c, &how, &id), c, w->what->name);
        while (ea_pending(c) && !atomic_load(&w->stop))
            sched_check(ea_pump(c, 10000), c, "wait");
        if (ea_pending(c)) (void)ea_cancel(c, id);
        finish(c);
        if (status && status != EA_CANCELLED) bench_fail(w->what->name, ea_error_text(c));
        if (!status && w->times->count < SAMPLES_MAX)
            w->times->ms[w->times->count++] = (bench_now_s() - began) * 1e3;
    }
    ea_close(c);
    return NULL;
}

static void run_beside(const struct sched_daemon *d, const struct longer *l, bool paced,
                       const struct figures *alone)
{
    struct at_work w = {.daemon = d, .what = l, .times = times_make()};
    if (pthread_create(&w.thread, NULL, work, &w)) bench_fail("thread", "it cannot be started");
    usleep(50000);
    struct figures f = recall(d, paced ? PACE_US : 0, seconds);
    atomic_store(&w.stop, true);
    pthread_join(w.thread, NULL);
    struct figures its = figures_take(w.times);
    tell(paced ? "recalls, 20 a second" : "recalls without pause", f);
    printf("   p50 %5.2f x alone%s, p99 %s %.0f ms\n", f.p50 / alone->p50,
           f.p50 <= 3 * alone->p50 ? "" : " (MISSED: <= 3)",
           f.p99 <= P99_MS ? "<=" : "MISSED:", P99_MS);
    tell("  what they are beside, whole ones", its);
    printf("\n");
}

/* ---------------------------------------------------------------- cancels */

static void run_cancels(const struct sched_daemon *d, const struct longer *l, double whole_ms)
{
    struct times *t = times_make();
    ea_client *c = sched_daemon_client(d);
    uint64_t state = 17, memory = 0;
    ea_stats stats = {0};
    sched_check(ea_get_stats(c, &stats), c, "stats");
    memory = stats.memory_bytes_used;
    for (unsigned i = 0; i < cancels; i++) {
        double share = bench_random_float(&state) * 0.5 + 0.5;
        ea_status status = EA_OK;
        double ms = ask_once(c, l, (int64_t)(share * whole_ms * 1e3), &status);
        if (status == EA_CANCELLED)
            t->ms[t->count++] = ms;
        else if (status)
            bench_fail(l->name, ea_error_text(c));
    }
    sched_check(ea_get_stats(c, &stats), c, "stats");
    struct figures f = figures_take(t);
    tell("from a cancel to the answer", f);
    printf("   %s 100 ms; memory in use: %+lld bytes\n",
           f.worst <= CANCEL_MS ? "worst <=" : "MISSED: worst",
           (long long)stats.memory_bytes_used - (long long)memory);
    fflush(stdout);
    ea_close(c);
}

/* ---------------------------------------------------------------- the program */

/* Groups of EACH rows around random centres. */
static void load_planted(const struct sched_daemon *d)
{
    enum { BLOCK = 1000 };
    float *centres = sched_random_floats((clustered / EACH + 1) * run.dimension, 3);
    float *rows = sched_random_floats((uint64_t)BLOCK * run.dimension, 4);
    uint64_t ids[BLOCK], state = 9;
    sched_check(ea_collection_create(d->client, "planted", run.dimension, EA_COSINE, NULL),
                d->client, "create");
    for (uint64_t first = 0; first < clustered; first += BLOCK) {
        uint64_t count = clustered - first < BLOCK ? clustered - first : BLOCK;
        for (uint64_t i = 0; i < count; i++) {
            const float *centre = centres + (first + i) % (clustered / EACH) * run.dimension;
            ids[i] = first + i;
            for (uint32_t k = 0; k < run.dimension; k++)
                rows[i * run.dimension + k] = centre[k] + 0.4f * bench_random_float(&state);
        }
        const ea_rows some = {.collection = "planted",
                              .ids = ids,
                              .rows = rows,
                              .count = count,
                              .dimension = run.dimension};
        sched_check(ea_upsert(d->client, &some, NULL), d->client, "upsert");
    }
    free(rows);
    free(centres);
}

static void measure(void)
{
    struct sched_daemon d;
    const char *const settings[] = {run.has_gpu ? "workers.pin=false" : "gpu.devices=none",
                                    "sched.calibrate=false", NULL};
    sched_daemon_start(&d, &run, 3 * run.rows_max + 20 * clustered, settings);
    sched_load(&d, run.rows_max);
    load_planted(&d);
    printf("recalls: kNN k = %d, 1 query, %llu x %u; clusters of %llu x %u, covariances of the "
           "first\n  %-44s %9s %9s %12s %7s\n",
           K, (unsigned long long)run.rows_max, run.dimension, (unsigned long long)clustered,
           run.dimension, "", "p50", "p99", "worst", "count");
    recall(&d, 0, 1); /* warm */
    struct figures alone[2] = {recall(&d, 0, seconds), recall(&d, PACE_US, seconds)};
    tell("alone, 20 a second", alone[1]);
    printf("\n");
    tell("alone, without pause", alone[0]);
    printf("\n");
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        const struct longer *l = &longer[i];
        ea_status status = EA_OK;
        if (only && !strstr(l->name, only)) continue;
        ask_once(d.client, l, -1, &status);
        double whole_ms = ask_once(d.client, l, -1, &status);
        printf("beside %s, %.0f ms alone\n", l->name, whole_ms);
        for (int paced = 1; paced >= 0; paced--)
            run_beside(&d, l, paced, &alone[paced]);
        run_cancels(&d, l, whole_ms);
    }
    sched_daemon_stop(&d);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    switch (key) {
    case 'q': seconds = 1, clustered = 1000, cancels = 20; return 0;
    case 's': run.simulated = run.has_gpu = true; return 0;
    case 'g': run.has_gpu = true; return 0;
    case 't': seconds = (unsigned)atoi(value); return seconds ? 0 : EINVAL;
    case 'r': run.rows_max = strtoull(value, NULL, 10); return run.rows_max ? 0 : EINVAL;
    case 'c': clustered = strtoull(value, NULL, 10); return clustered >= EACH ? 0 : EINVAL;
    case 'C': cancels = (unsigned)atoi(value); return cancels ? 0 : EINVAL;
    case 'o': only = value; return 0;
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
        {"quick", 'q', NULL, 0, "A second a figure and small clusters, for a first look", 0},
        {"sim", 's', NULL, 0, "With the simulated device", 0},
        {"gpu", 'g', NULL, 0, "With the first GPU", 0},
        {"seconds", 't', "N", 0, "How long recalls are measured (5)", 0},
        {"rows", 'r', "N", 0, "Rows of the collection (20000)", 0},
        {"clustered", 'c', "N", 0, "Rows that are clustered (5000)", 0},
        {"cancels", 'C', "N", 0, "How often each is cancelled (200)", 0},
        {"only", 'o', "TEXT", 0, "Long requests with TEXT in their name", 0},
        {"set", 'S', "KEY=VALUE", 0, "A setting of the daemon", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    unsetenv("STATE_DIRECTORY"); /* no model is to be found there */
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    pool = sched_random_floats((uint64_t)POOL * run.dimension, 99);
    measure();
    free(pool);
    return 0;
}
