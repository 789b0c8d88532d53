/* bench_stall: a short client's recalls beside every kind of long request and writer of the same
 * space: p50, p99 and worst of each, beside the same recalls alone, and what the long ones pay;
 * with --graph spreads beside every kind of writer of their graph. Without a device it runs on the
 * CPU. Exit 1 for errors alone: a figure that misses its target is told. */
#include <argp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench_times.h"
#include "tests/support/sched_bench.h"

enum { K = 10, POOL = 64, PACE_US = 50000, ROW_EVERY_US = 20000, REASONS = 32 };

static struct sched_bench run = {.dimension = 768, .rows_max = 20000};
static unsigned seconds = 10;
static const char *only;
static float *pool; /* POOL random queries */

/* ---------------------------------------------------------------- who disturbs */

enum kind { NOBODY, READER, WRITER };

struct disturber {
    enum kind kind;
    uint64_t count;    /* queries of a reader, rows of a writer */
    unsigned every_us; /* 0: without pause */
};

struct at_work {
    const struct sched_daemon *daemon;
    struct disturber what;
    const char *rows_name;
    pthread_t thread;
    atomic_bool stop;
    struct times *times;
};

static float *pool_of(uint64_t count, uint64_t seed)
{
    return sched_random_floats(count * run.dimension, seed);
}

/* Why it ran where it ran. */
static ea_reason read_once(ea_client *c, const char *name, const float *queries, uint64_t count)
{
    ea_result r = {0};
    sched_check(ea_knn(c,
                       &(ea_knn_question){.collection = name,
                                          .queries = queries,
                                          .query_count = count,
                                          .dimension = run.dimension,
                                          .k = K},
                       &r),
                c, "kNN");
    bool on_gpu = r.meta->backend == EA_BACKEND_GPU;
    ea_reason reason = on_gpu ? EA_REASON_NONE : r.meta->reason;
    ea_result_free(&r);
    return reason;
}

static void write_once(ea_client *c, const char *name, const float *rows, const uint64_t *ids,
                       uint64_t count)
{
    sched_check(ea_upsert(c,
                          &(ea_rows){.collection = name,
                                     .ids = ids,
                                     .rows = rows,
                                     .count = count,
                                     .dimension = run.dimension},
                          NULL),
                c, "upsert");
}

static void *disturb(void *argument)
{
    struct at_work *w = argument;
    ea_client *c = sched_daemon_client(w->daemon);
    float *values = pool_of(w->what.count, 5);
    uint64_t *ids = calloc(w->what.count, sizeof *ids);
    if (!ids) bench_fail("ids", "no memory");
    for (uint64_t i = 0; i < w->what.count; i++)
        ids[i] = i;
    while (!atomic_load(&w->stop)) {
        double began = bench_now_s();
        if (w->what.kind == READER)
            read_once(c, w->rows_name, values, w->what.count);
        else
            write_once(c, w->rows_name, values, ids, w->what.count);
        times_add(w->times, began);
        double left_s = began + w->what.every_us / 1e6 - bench_now_s();
        if (left_s > 0) usleep((useconds_t)(left_s * 1e6));
    }
    free(values);
    free(ids);
    ea_close(c);
    return NULL;
}

static void begin(struct at_work *w, const struct sched_daemon *d, const char *name,
                  struct disturber what)
{
    *w = (struct at_work){.daemon = d, .what = what, .rows_name = name, .times = times_make()};
    if (what.kind != NOBODY && pthread_create(&w->thread, NULL, disturb, w))
        bench_fail("thread", "it cannot be started");
}

static struct figures end(struct at_work *w)
{
    atomic_store(&w->stop, true);
    if (w->what.kind != NOBODY) pthread_join(w->thread, NULL);
    struct figures f = figures_of(w->times);
    free(w->times);
    return f;
}

/* ---------------------------------------------------------------- recalls */

/* Tells which recalls ran on the CPU although there is a card. */
static void tell_reasons(const size_t *counts)
{
    if (!run.has_gpu) return;
    for (unsigned i = 1; i < REASONS; i++)
        if (counts[i]) printf("    %zu on the CPU: %s\n", counts[i], ea_reason_name((ea_reason)i));
}

/* Recalls for for_s seconds, one every every_us; 0: one after the other. */
static struct figures recall(const struct sched_daemon *d, const char *name, unsigned every_us,
                             double for_s)
{
    struct times *t = times_make();
    size_t reasons[REASONS] = {0};
    double start = bench_now_s();
    for (unsigned i = 0; bench_now_s() < start + for_s; i++) {
        double began = bench_now_s();
        ea_reason why = read_once(d->client, name, pool + (size_t)(i % POOL) * run.dimension, 1);
        times_add(t, began);
        reasons[(unsigned)why < REASONS ? why : 0]++;
        double left_s = began + every_us / 1e6 - bench_now_s();
        if (left_s > 0) usleep((useconds_t)(left_s * 1e6));
    }
    tell_reasons(reasons);
    struct figures f = figures_of(t);
    free(t);
    return f;
}

struct scene {
    const char *name;
    struct disturber first, second;
    double p99_ms; /* at most */
};

static const struct scene scenes[] = {
    {"512 queries", {READER, 512, 0}, {0}, 20},
    {"4,096 queries", {READER, 4096, 0}, {0}, 20},
    {"21,845 queries", {READER, 21845, 0}, {0}, 20},
    {"one row every 20 ms", {WRITER, 1, ROW_EVERY_US}, {0}, 25},
    {"1,024 queries and one row every 20 ms", {WRITER, 1, ROW_EVERY_US}, {READER, 1024, 0}, 25},
    {"10,000 rows without pause", {WRITER, 10000, 0}, {0}, 25},
};

static void tell(const char *what, struct figures f, const struct figures *alone, double p99_ms)
{
    printf("  %-52s %9.2f %9.2f %9.2f ms %7zu", what, f.p50, f.p99, f.worst, f.count);
    if (alone)
        printf("   p50 %5.2f x alone%s, p99 %s %.0f ms", f.p50 / alone->p50,
               f.p50 <= 3 * alone->p50 ? "" : " (MISSED: <= 3)",
               f.p99 <= p99_ms ? "<=" : "MISSED:", p99_ms);
    printf("\n");
    fflush(stdout);
}

static void run_scene(const struct sched_daemon *d, const char *name, const struct scene *s,
                      const struct figures *alone)
{
    struct at_work first, second;
    /* How long it takes when nobody recalls. */
    begin(&first, d, name, s->first);
    begin(&second, d, name, s->second);
    double quiet_s = s->first.count > 4096 ? seconds * 2.0 : seconds / 2.0;
    usleep((useconds_t)(quiet_s * 1e6));
    struct figures first_alone = end(&first), second_alone = end(&second);

    printf("beside %s\n", s->name);
    for (int paced = 1; paced >= 0; paced--) {
        begin(&first, d, name, s->first);
        begin(&second, d, name, s->second);
        usleep(100000);
        double started = bench_now_s();
        struct figures f =
            recall(d, name, paced ? PACE_US : 0, s->first.count > 4096 ? seconds * 2.0 : seconds);
        double lasted_ms = (bench_now_s() - started) * 1e3;
        struct figures one = end(&first), two = end(&second);
        tell(paced ? "recalls, 20 a second" : "recalls without pause", f, &alone[paced], s->p99_ms);
        tell(paced ? "  what disturbs, beside 20 recalls a second"
                   : "  beside recalls without pause",
             one, NULL, 0);
        if (s->first.kind == READER)
            printf("    %.2f x (its time alone %.1f ms + the recalls' run time)\n",
                   one.p50 /
                       (first_alone.p50 + (double)f.count * alone[1].p50 * one.p50 / lasted_ms),
                   first_alone.p50);
        else
            printf("    alone p50 %.2f, p99 %.2f ms\n", first_alone.p50, first_alone.p99);
        if (s->second.kind != NOBODY) {
            tell("  the second one", two, NULL, 0);
            printf("    alone p50 %.2f ms\n", second_alone.p50);
        }
    }
}

/* ---------------------------------------------------------------- graphs */

/* Each writes once; i rises. Edges that come and go have the weight -1. */
enum { DEGREE = 8, SEEDS = 64, HOPS = 4, SETS = 256, DELTA_EVERY_US = 1000 };
static uint64_t nodes;
static bool graphs;

static void edges_of(uint64_t first, uint64_t count, uint64_t *sources, uint64_t *targets,
                     float *weights, float weight)
{
    uint64_t state = first * 2654435761u + 12345;
    for (uint64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sources[i] = (first + i) % nodes;
        targets[i] = (state >> 33) % nodes;
        weights[i] = weight != 0 ? weight : 0.1f + (float)(state >> 40 & 0xff) * 0x1p-9f;
    }
}

static void add_random(ea_client *c, uint64_t first, uint64_t count, float weight)
{
    uint64_t *sources = malloc(count * sizeof *sources), *targets = malloc(count * sizeof *targets);
    float *weights = malloc(count * sizeof *weights);
    if (!sources || !targets || !weights) bench_fail("edges", "no memory");
    edges_of(first, count, sources, targets, weights, weight);
    ea_graph_edges e = {.sources = sources, .targets = targets, .weights = weights, .count = count};
    sched_check(ea_graph_add_edges(c, "links", &e, NULL), c, "add edges");
    free(sources);
    free(targets);
    free(weights);
}

static void delta_once(ea_client *c, uint64_t i)
{
    uint64_t source = i * 7919 % nodes, target = (source * 31 + 7) % nodes;
    float delta = 0.001f, low = 0, high = 1, sum;
    ea_graph_edges e = {.sources = &source,
                        .targets = &target,
                        .weights = &delta,
                        .count = 1,
                        .create = true,
                        .low = &low,
                        .high = &high};
    sched_check(ea_graph_add_weights(c, "links", &e, &sum, NULL), c, "add weights");
}

static void scale_once(ea_client *c, uint64_t i)
{
    sched_check(ea_graph_scale(c, "links", i % 2 ? 2.0f : 0.5f, NULL), c, "scale");
}

static void prune_once(ea_client *c, uint64_t i)
{
    add_random(c, i * 1000, 1000, -1);
    sched_check(ea_graph_prune(c, "links", -0.25f, NULL), c, "prune");
}

static void load_once(ea_client *c, uint64_t i)
{
    add_random(c, i, nodes, -1);
    sched_check(ea_graph_prune(c, "links", -0.25f, NULL), c, "prune");
}

/* Not a writer: sets of seeds, each of which reaches a part of the graph. */
static void ask_sets(ea_client *c, uint64_t i)
{
    uint64_t ids[SETS], offsets[SETS + 1];
    ea_spread_options how = {.mode = EA_LINEAR, .hops = HOPS, .k = K};
    for (uint64_t k = 0; k <= SETS; k++)
        offsets[k] = k;
    for (uint64_t k = 0; k < SETS; k++)
        ids[k] = (i * SETS + k) * 7919 % nodes;
    ea_spread_result r = {0};
    sched_check(ea_spread(c, "links", &how,
                          &(ea_seeds){.offsets = offsets, .sets = SETS, .ids = ids, .count = SETS},
                          &r),
                c, "spread of many sets");
    ea_spread_result_free(&r);
}

static const struct graph_scene {
    const char *name;
    void (*write)(ea_client *c, uint64_t i);
    unsigned every_us;
    bool deltas; /* beside 1,000 deltas of one edge a second */
} graph_scenes[] = {
    {"1,000 deltas of one edge a second", delta_once, DELTA_EVERY_US, false},
    {"scale without pause", scale_once, 0, false},
    {"1,000 edges come, prune takes them, without pause", prune_once, 0, false},
    {"an edge for each node comes, prune takes them", load_once, 0, false},
    {"spreads of 256 sets without pause", ask_sets, 0, false},
    {"spreads of 256 sets, and 1,000 deltas a second", ask_sets, 0, true},
};

struct graph_writer {
    const struct sched_daemon *daemon;
    const struct graph_scene *scene;
    pthread_t thread;
    atomic_bool stop;
    struct times *times;
};

static void *write_graph(void *argument)
{
    struct graph_writer *w = argument;
    ea_client *c = sched_daemon_client(w->daemon);
    double due = bench_now_s();
    for (uint64_t i = 0; !atomic_load(&w->stop); i++) {
        double began = bench_now_s();
        w->scene->write(c, i);
        times_add(w->times, began);
        due += w->scene->every_us / 1e6;
        if (due > bench_now_s()) usleep((useconds_t)((due - bench_now_s()) * 1e6));
    }
    ea_close(c);
    return NULL;
}

static struct figures spread(const struct sched_daemon *d)
{
    struct times *t = times_make();
    size_t reasons[REASONS] = {0};
    uint64_t ids[SEEDS];
    float threshold = 0;
    ea_spread_options how = {.mode = EA_LINEAR, .hops = HOPS, .threshold = &threshold, .k = K};
    double start = bench_now_s();
    for (uint64_t i = 0; bench_now_s() < start + seconds; i++) {
        for (uint64_t k = 0; k < SEEDS; k++)
            ids[k] = (i * SEEDS + k) * 104729 % nodes;
        double began = bench_now_s();
        ea_spread_result r = {0};
        sched_check(
            ea_spread(d->client, "links", &how, &(ea_seeds){.ids = ids, .count = SEEDS}, &r),
            d->client, "spread");
        times_add(t, began);
        unsigned why = r.meta->backend == EA_BACKEND_GPU ? 0 : (unsigned)r.meta->reason;
        reasons[why < REASONS ? why : 0]++;
        ea_spread_result_free(&r);
    }
    tell_reasons(reasons);
    struct figures f = figures_of(t);
    free(t);
    return f;
}

static void writer_start(struct graph_writer *w, const struct sched_daemon *d,
                         const struct graph_scene *s)
{
    *w = (struct graph_writer){.daemon = d, .scene = s, .times = times_make()};
    if (pthread_create(&w->thread, NULL, write_graph, w))
        bench_fail("thread", "it cannot be started");
}

static void writer_stop(struct graph_writer *w, const char *what)
{
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    if (what) tell(what, figures_of(w->times), NULL, 0);
    free(w->times);
}

static void run_graph_scene(const struct sched_daemon *d, const struct graph_scene *s,
                            const struct figures *alone)
{
    const char *what = s->write == ask_sets ? "many sets" : "writer";
    for (int with = 0; with < 2; with++) {
        struct graph_writer w, deltas;
        char name[64];
        snprintf(name, sizeof name, with ? "  the %s" : "the %s alone", what);
        writer_start(&w, d, s);
        if (s->deltas) writer_start(&deltas, d, &graph_scenes[0]);
        if (!with) usleep(seconds * 500000);
        struct figures f = with ? spread(d) : (struct figures){0};
        if (with) printf("beside %s\n", s->name);
        if (with) tell("spreads", f, alone, alone->p99 + 20);
        writer_stop(&w, name);
        if (s->deltas) writer_stop(&deltas, with ? "  the deltas" : "the deltas beside that");
    }
}

static void run_graphs(const struct sched_daemon *d)
{
    sched_check(ea_graph_create(d->client, "links", NULL), d->client, "create");
    add_random(d->client, 0, nodes * DEGREE, 0);
    printf("spreads: %d hops from %d seeds, all nodes kept, %llu nodes x %d edges\n"
           "  %-52s %9s %9s %12s %7s\n",
           HOPS, SEEDS, (unsigned long long)nodes, DEGREE, "", "p50", "p99", "worst", "count");
    spread(d);
    struct figures alone = spread(d);
    tell("alone, without pause", alone, NULL, 0);
    for (size_t i = 0; i < sizeof graph_scenes / sizeof *graph_scenes; i++)
        if (!only || strstr(graph_scenes[i].name, only))
            run_graph_scene(d, &graph_scenes[i], &alone);
}

/* ---------------------------------------------------------------- the program */

static void start(struct sched_daemon *d, uint64_t rows)
{
    const char *const settings[] = {run.has_gpu ? "workers.pin=false" : "gpu.devices=none",
                                    "sched.calibrate=false", NULL};
    sched_daemon_start(d, &run, rows, settings);
}

static void measure_graphs(void)
{
    struct sched_daemon d;
    start(&d, nodes);
    run_graphs(&d);
    sched_daemon_stop(&d);
}

static void measure_recalls(void)
{
    struct sched_daemon d;
    char name[SCHED_ROWS_NAME];
    start(&d, run.rows_max * 3);
    sched_load(&d, run.rows_max);
    sched_name(run.rows_max, name);
    printf("recalls: kNN k = %d, 1 query, %llu x %u, the same space\n  %-52s %9s %9s %12s %7s\n", K,
           (unsigned long long)run.rows_max, run.dimension, "", "p50", "p99", "worst", "count");
    recall(&d, name, 0, 1); /* warm */
    struct figures alone[2] = {recall(&d, name, 0, seconds), recall(&d, name, PACE_US, seconds)};
    tell("alone, 20 a second", alone[1], NULL, 0);
    tell("alone, without pause", alone[0], NULL, 0);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!only || strstr(scenes[i].name, only)) run_scene(&d, name, &scenes[i], alone);
    sched_daemon_stop(&d);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    switch (key) {
    case 'q': seconds = 2; return 0;
    case 'G': graphs = true; return 0;
    case 'n': nodes = strtoull(value, NULL, 10); return nodes ? 0 : EINVAL;
    case 's': run.simulated = run.has_gpu = true; return 0;
    case 'g': run.has_gpu = true; return 0;
    case 't':
        seconds = (unsigned)atoi(value);
        return seconds ? 0 : (argp_error(state, "--seconds: at least 1"), EINVAL);
    case 'r': run.rows_max = strtoull(value, NULL, 10); return run.rows_max ? 0 : EINVAL;
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
        {"quick", 'q', NULL, 0, "Two seconds a figure, for a first look", 0},
        {"graph", 'G', NULL, 0, "Only spreads beside writers of their graph", 0},
        {"nodes", 'n', "N", 0, "Nodes of the graph (1000000; with --quick 100000)", 0},
        {"sim", 's', NULL, 0, "With the simulated device", 0},
        {"gpu", 'g', NULL, 0, "With the first GPU", 0},
        {"seconds", 't', "N", 0, "How long a figure is measured (10)", 0},
        {"rows", 'r', "N", 0, "Rows of the collection (20000)", 0},
        {"only", 'o', "TEXT", 0, "Scenes with TEXT in their name", 0},
        {"set", 'S', "KEY=VALUE", 0, "A setting of the daemon", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    unsetenv("STATE_DIRECTORY"); /* no model is to be found there */
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    pool = pool_of(POOL, 99);
    if (!nodes) nodes = seconds <= 2 ? 100000 : 1000000;
    if (!graphs) measure_recalls();
    if (graphs || !only) measure_graphs();
    free(pool);
    return 0;
}
