/* bench_recall: a recall in one request beside the three that it replaces (kNN, spread, fetch), in
 * one run, in turns: what the client waits for, and what the daemon computes. 20,000 rows of 768
 * numbers in clusters, 160,000 edges, two workers; --quick: fewer of each. Times are
 * milliseconds.
 *
 * --gpu DEVICE: on that one ("sim": the simulated one), 100,000 rows and 1,000,000 edges; beside a
 * daemon without a GPU, whose answers must have the same bits; and 64 connections that recall at
 * the same time. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "client/engram_accel.h"
#include "kernels/recall.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { ROUNDS_MAX = 2000, D = 768, CUES = 64, CLUSTER = 40, K = 100, BEST = 100 };
enum { CONNECTIONS = 64, LOAD_ROWS = 10000, CROWD_TIMES_MAX = 20000 };

static struct {
    uint64_t rows, edges;
    unsigned rounds;
} size = {20000, 160000, 200};

static ea_client *c, *peer; /* peer: of a daemon without a GPU; NULL: there is none */
static float *rows, cues[CUES * D];
static double target_ms = 5;
static bool on_gpu;

static void check(ea_status st, const char *what)
{
    if (st) bench_fail(what, ea_error_text(c));
}

/* ---------------------------------------------------------------- what is there */

static void put(ea_client *to, const uint64_t *ids, const ea_graph_edges *edges)
{
    check(ea_collection_create(to, "rows", D, EA_COSINE, NULL), "create");
    for (uint64_t first = 0; first < size.rows; first += LOAD_ROWS) {
        uint64_t n = size.rows - first < LOAD_ROWS ? size.rows - first : LOAD_ROWS;
        check(ea_upsert(to,
                        &(ea_rows){.collection = "rows",
                                   .ids = ids + first,
                                   .rows = rows + first * D,
                                   .count = n,
                                   .dimension = D},
                        NULL),
              "upsert");
    }
    check(ea_graph_create(to, "links", NULL), "graph");
    check(ea_graph_add_edges(to, "links", edges, NULL), "edges");
}

/* Rows lie around centers, so that a cue has some tens of neighbours above 0.4. */
static void load(void)
{
    uint64_t seed = 1;
    uint64_t *ids = malloc(size.rows * sizeof *ids);
    uint64_t *sources = malloc(size.edges * sizeof *sources);
    uint64_t *targets = malloc(size.edges * sizeof *targets);
    float *weights = malloc(size.edges * sizeof *weights), center[D] = {0};
    rows = malloc(size.rows * D * sizeof *rows);
    for (uint64_t i = 0; i < size.rows; i++) {
        ids[i] = i;
        for (uint32_t k = 0; k < D && i % CLUSTER == 0; k++)
            center[k] = bench_random_float(&seed);
        for (uint32_t k = 0; k < D; k++)
            rows[i * D + k] = center[k] + bench_random_float(&seed);
    }
    for (uint64_t i = 0; i < size.edges; i++) {
        sources[i] = bench_random(&seed) % size.rows;
        targets[i] = bench_random(&seed) % size.rows;
        weights[i] = (float)(bench_random(&seed) % 1000) / 1000;
    }
    for (uint32_t i = 0; i < CUES; i++)
        for (uint32_t k = 0; k < D; k++)
            cues[i * D + k] =
                rows[(i * 311 % size.rows) * D + k] + 0.5F * bench_random_float(&seed);
    const ea_graph_edges edges = {
        .sources = sources, .targets = targets, .weights = weights, .count = size.edges};
    put(c, ids, &edges);
    if (peer) put(peer, ids, &edges);
    free(ids);
    free(sources);
    free(targets);
    free(weights);
}

/* ---------------------------------------------------------------- in turns */

enum column { ONE, ONE_RUN, THREE, KNN, SPREAD, FETCH, PING, COLUMNS };
static double times[COLUMNS][ROUNDS_MAX];

static double ms_of(const ea_meta *m)
{
    return (double)m->run_ns * 1e-6;
}

static ea_recall_question question_of(const float *cue, const ea_spread_options *how)
{
    return (ea_recall_question){.collection = "rows",
                                .graph = "links",
                                .cues = cue,
                                .cue_count = 1,
                                .dimension = D,
                                .results = BEST,
                                .k = K,
                                .spread = how,
                                .ignore_embeddings = how->mode == EA_ENGRAM && !how->embeddings};
}

static void ask_one(const float *cue, const ea_spread_options *how, unsigned round,
                    ea_recall_result *r)
{
    ea_recall_question q = question_of(cue, how);
    double start = bench_now_s();
    check(ea_recall(c, &q, r), "recall");
    if (on_gpu && r->meta->backend != EA_BACKEND_GPU)
        bench_fail("recall: not on the GPU", ea_reason_name(r->meta->reason));
    times[ONE][round] = (bench_now_s() - start) * 1e3;
    times[ONE_RUN][round] = ms_of(r->meta);
}

static void ask_three(const float *cue, const ea_spread_options *how, unsigned round,
                      const ea_recall_result *same)
{
    const float threshold = RECALL_THRESHOLD;
    float activations[K];
    ea_result hits = {0}, fetched = {0};
    ea_spread_result s = {0};
    ea_spread_options best = *how;
    best.k = BEST;
    double start = bench_now_s();
    check(ea_knn(c,
                 &(ea_knn_question){.collection = "rows",
                                    .queries = cue,
                                    .query_count = 1,
                                    .dimension = D,
                                    .k = K,
                                    .threshold = &threshold},
                 &hits),
          "knn");
    uint64_t seeds = hits.counts[0];
    for (uint64_t i = 0; i < seeds; i++)
        activations[i] = recall_activation(hits.scores[i], threshold, RECALL_WIDTH);
    check(ea_spread(c, "links", &best,
                    &(ea_seeds){.ids = hits.ids, .activations = activations, .count = seeds}, &s),
          "spread");
    check(ea_fetch(c, "rows", s.ids, s.count, &fetched), "fetch");
    times[THREE][round] = (bench_now_s() - start) * 1e3;
    times[KNN][round] = ms_of(hits.meta);
    times[SPREAD][round] = ms_of(s.meta);
    times[FETCH][round] = ms_of(fetched.meta);
    if (seeds != same->seeds[0] || s.touched[0] != same->touched[0])
        bench_fail("recall", "not what the three are");
    ea_result_free(&hits);
    ea_result_free(&fetched);
    ea_spread_result_free(&s);
}

static double p50(enum column column, unsigned rounds)
{
    return bench_percentile(times[column], rounds, 50);
}

static bool measure(const char *name, const ea_spread_options *how)
{
    double touched = 0, seeds = 0, stages[3] = {0};
    for (unsigned i = 0; i < size.rounds; i++) {
        const float *cue = cues + i % CUES * D;
        ea_recall_result r = {0};
        ask_one(cue, how, i, &r);
        ask_three(cue, how, i, &r);
        double start = bench_now_s();
        check(ea_ping(c), "ping");
        times[PING][i] = (bench_now_s() - start) * 1e3;
        touched += (double)r.touched[0] / size.rounds;
        seeds += r.seeds[0] / (double)size.rounds;
        stages[0] += (double)r.seek_ns * 1e-6 / size.rounds;
        stages[1] += (double)r.spread_ns * 1e-6 / size.rounds;
        stages[2] += (double)r.rank_ns * 1e-6 / size.rounds;
        ea_recall_result_free(&r);
    }
    double one = p50(ONE, size.rounds), three = p50(THREE, size.rounds);
    double parts = p50(KNN, size.rounds) + p50(SPREAD, size.rounds) + p50(FETCH, size.rounds);
    double bound = parts * 1.1 + p50(PING, size.rounds);
    char a[32], b[32];
    printf(
        "\n%s: %.0f seeds, %.0f nodes touched; runs %.3f ms (means: seeds %.3f, spread %.3f, "
        "scores %.3f); p99 %.3f\n  three: runs of kNN %.3f, spread %.3f, fetch %.3f; ping %.3f\n",
        name, seeds, touched, p50(ONE_RUN, size.rounds), stages[0], stages[1], stages[2],
        bench_percentile(times[ONE], size.rounds, 99), p50(KNN, size.rounds),
        p50(SPREAD, size.rounds), p50(FETCH, size.rounds), p50(PING, size.rounds));
    bench_header(name);
    snprintf(a, sizeof a, "%.3f", one);
    snprintf(b, sizeof b, "%.3f", bound);
    bool met =
        bench_row("p50: beside 1.1 x its parts' runs + a round trip", a, b, one / bound, false, 1);
    snprintf(b, sizeof b, "%.3f", three);
    met &= bench_row("p50: beside three requests", a, b, one / three, false, 1);
    snprintf(b, sizeof b, "%.3f", target_ms);
    met &= bench_row("p50: beside what is wanted", a, b, one / target_ms, false, 1);
    return met;
}

/* ---------------------------------------------------------------- on a GPU */

/* Asks until replicas are there. */
static void warm(const ea_spread_options *how)
{
    ea_recall_question q = question_of(cues, how);
    ea_recall_result r = {0};
    double until = bench_now_s() + 60;
    do {
        check(ea_recall(c, &q, &r), "recall");
        if (bench_now_s() > until)
            bench_fail("the GPU does not answer", ea_reason_name(r.meta->reason));
    } while (r.meta->backend != EA_BACKEND_GPU);
    ea_recall_result_free(&r);
}

/* Both daemons' answers to all cues, in one request and one by one. Returns the numbers that
 * differ. */
static uint64_t differences(const ea_spread_options *how, uint64_t *numbers)
{
    uint64_t differ = 0;
    for (uint32_t i = 0; i <= CUES; i++) {
        ea_recall_question q = question_of(cues + i % CUES * D, how);
        ea_recall_result a = {0}, b = {0};
        if (i == CUES) q.cue_count = CUES;
        check(ea_recall(c, &q, &a), "recall");
        check(ea_recall(peer, &q, &b), "recall, on the CPU");
        if (a.count != b.count || memcmp(a.offsets, b.offsets, (a.lists + 1) * 8) != 0)
            bench_fail(how->mode == EA_LINEAR ? "linear" : "engram", "other counts than the CPU's");
        for (uint64_t k = 0; k < a.count; k++)
            differ += a.ids[k] != b.ids[k] ||
                      memcmp(&a.activations[k], &b.activations[k], 4) != 0 ||
                      memcmp(&a.scores[k], &b.scores[k], 4) != 0 || a.marks[k] != b.marks[k] ||
                      a.depths[k] != b.depths[k];
        for (uint64_t k = 0; k < a.lists; k++)
            differ += a.touched[k] != b.touched[k] || a.hops[k] != b.hops[k] ||
                      a.seeds[2 * k] != b.seeds[2 * k] || a.truncated[k] != b.truncated[k];
        *numbers += 5 * a.count;
        ea_recall_result_free(&a);
        ea_recall_result_free(&b);
    }
    return differ;
}

struct crowd {
    pthread_t thread;
    const char *socket_path;
    const ea_spread_options *how;
    atomic_bool *stop;
    uint32_t number;
    uint64_t asked, on_gpu, several;
    double *times;
};

static void *recall_on(void *user)
{
    struct crowd *w = user;
    ea_client *own;
    ea_recall_result r = {0};
    ea_options o = {.socket_path = w->socket_path};
    if (ea_open(&o, &own)) bench_fail("crowd", "open");
    while (!atomic_load(w->stop) && w->asked < CROWD_TIMES_MAX) {
        ea_recall_question q = question_of(cues + (w->number * 7 + w->asked) % CUES * D, w->how);
        double start = bench_now_s();
        if (ea_recall(own, &q, &r)) bench_fail("crowd", ea_error_text(own));
        w->times[w->asked++] = (bench_now_s() - start) * 1e3;
        w->on_gpu += r.meta->backend == EA_BACKEND_GPU;
        w->several += r.meta->batch > 1;
    }
    ea_recall_result_free(&r);
    ea_close(own);
    return NULL;
}

static bool measure_crowd(const char *name, const char *socket_path, const ea_spread_options *how,
                          double seconds)
{
    static struct crowd crowd[CONNECTIONS];
    double *all = malloc((uint64_t)CONNECTIONS * CROWD_TIMES_MAX * sizeof *all);
    uint64_t asked = 0, gpu = 0, several = 0;
    atomic_bool stop = false;
    double start = bench_now_s();
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        crowd[i] = (struct crowd){.socket_path = socket_path,
                                  .how = how,
                                  .stop = &stop,
                                  .number = i,
                                  .times = malloc(CROWD_TIMES_MAX * sizeof(double))};
        pthread_create(&crowd[i].thread, NULL, recall_on, &crowd[i]);
    }
    while (bench_now_s() - start < seconds)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    atomic_store(&stop, true);
    double took = bench_now_s() - start;
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        pthread_join(crowd[i].thread, NULL);
        memcpy(all + asked, crowd[i].times, crowd[i].asked * sizeof *all);
        asked += crowd[i].asked;
        gpu += crowd[i].on_gpu;
        several += crowd[i].several;
        free(crowd[i].times);
    }
    double rate = (double)asked / took, p99 = bench_percentile(all, asked, 99);
    char a[32], b[32];
    printf("\n%s, %d connections: %.0f %% on the GPU, %.0f %% beside others in a batch; p50 %.3f\n",
           name, CONNECTIONS, 100.0 * (double)gpu / (double)asked,
           100.0 * (double)several / (double)asked, bench_percentile(all, asked, 50));
    bench_header(name);
    snprintf(a, sizeof a, "%.0f", rate);
    bool met = bench_row("recalls a second", a, "5000", rate / 5000, true, 1);
    snprintf(b, sizeof b, "%.3f", p99);
    met &= bench_row("p99", b, "10.000", p99 / 10, false, 1);
    free(all);
    return met;
}

static void start(struct daemon_process *d, const char *const *settings, ea_client **client)
{
    daemon_start(d, settings);
    ea_options o = {.socket_path = d->socket_path};
    check(ea_open(&o, client), "open");
}

static const ea_spread_options engram = {.mode = EA_ENGRAM},
                               similar = {.mode = EA_ENGRAM, .embeddings = "rows"},
                               linear = {.mode = EA_LINEAR, .hops = 3};

static bool measure_gpu(const char *device)
{
    char devices[64];
    snprintf(devices, sizeof devices, "gpu.devices=%s", device);
    const char *settings[] = {devices, "gpu.force=gpu", "memory.max_mib=16384", NULL};
    const char *without[] = {"gpu.devices=none", "memory.max_mib=16384", NULL};
    const struct {
        const char *name;
        const ea_spread_options *how;
    } ways[] = {{"engram", &engram}, {"engram, with embeddings", &similar}, {"linear", &linear}};
    struct daemon_process d, other;
    uint64_t numbers = 0, differ = 0;
    bool met = true;
    start(&other, without, &peer);
    start(&d, settings, &c);
    load();
    for (int i = 0; i < 3; i++) {
        warm(ways[i].how);
        differ += differences(ways[i].how, &numbers);
    }
    printf("bits: %llu of %llu numbers differ from the CPU's: %s\n", (unsigned long long)differ,
           (unsigned long long)numbers, differ ? "FAIL" : "ok");
    ea_close(peer);
    daemon_stop(&other);
    on_gpu = true;
    target_ms = 0.25;
    for (int i = 0; i < 3; i++)
        met &= measure(ways[i].name, ways[i].how);
    for (int i = 0; i < 3; i++)
        met &= measure_crowd(ways[i].name, d.socket_path, ways[i].how, 4);
    ea_close(c);
    daemon_stop(&d);
    return met && !differ;
}

static bool measure_cpu(void)
{
    struct daemon_process d;
    const char *settings[] = {"workers.count=2", "gpu.devices=none", NULL};
    start(&d, settings, &c);
    load();
    bool met = measure("engram", &engram);
    met &= measure("engram, with embeddings", &similar);
    met &= measure("linear, 3 hops", &linear);
    ea_close(c);
    daemon_stop(&d);
    return met;
}

int main(int argc, char **argv)
{
    const char *device = NULL;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        quick |= strcmp(argv[i], "--quick") == 0;
        if (strcmp(argv[i], "--gpu") == 0 && i + 1 < argc) device = argv[++i];
    }
    if (device) {
        size.rows = 100000;
        size.edges = 1000000;
    }
    if (quick) {
        size.rows = 4000;
        size.edges = 32000;
        size.rounds = 60;
    }
    bool met = device ? measure_gpu(device) : measure_cpu();
    free(rows);
    return !met;
}
