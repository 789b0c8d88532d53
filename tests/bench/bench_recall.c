/* bench_recall: a recall in one request beside the three that it replaces (kNN, spread, fetch), in
 * one run, in turns: what the client waits for, and what the daemon computes. 20,000 rows of 768
 * numbers in clusters, 160,000 edges, two workers; --quick: fewer of each. Times are
 * milliseconds. */
#include <string.h>

#include "client/engram_accel.h"
#include "kernels/recall.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { ROUNDS_MAX = 2000, D = 768, CUES = 64, CLUSTER = 40, K = 100, BEST = 100 };

static struct {
    uint64_t rows, edges;
    unsigned rounds;
} size = {20000, 160000, 200};

static ea_client *c;
static float *rows, cues[CUES * D];

static void check(ea_status st, const char *what)
{
    if (st) bench_fail(what, ea_error_text(c));
}

/* ---------------------------------------------------------------- what is there */

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
    check(ea_collection_create(c, "rows", D, EA_COSINE, NULL), "create");
    check(
        ea_upsert(
            c,
            &(ea_rows){
                .collection = "rows", .ids = ids, .rows = rows, .count = size.rows, .dimension = D},
            NULL),
        "upsert");
    check(ea_graph_create(c, "links", NULL), "graph");
    check(ea_graph_add_edges(
              c, "links",
              &(ea_graph_edges){
                  .sources = sources, .targets = targets, .weights = weights, .count = size.edges},
              NULL),
          "edges");
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

static void ask_one(const float *cue, const ea_spread_options *how, unsigned round,
                    ea_recall_result *r)
{
    ea_recall_question q = {.collection = "rows",
                            .graph = "links",
                            .cues = cue,
                            .cue_count = 1,
                            .dimension = D,
                            .results = BEST,
                            .k = K,
                            .spread = how,
                            .ignore_embeddings = how->mode == EA_ENGRAM && !how->embeddings};
    double start = bench_now_s();
    check(ea_recall(c, &q, r), "recall");
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
    met &= bench_row("p50: beside 5 ms", a, "5.000", one / 5, false, 1);
    return met;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
        size.rows = 4000;
        size.edges = 32000;
        size.rounds = 60;
    }
    struct daemon_process d;
    const char *settings[] = {"workers.count=2", "gpu.devices=none", NULL};
    daemon_start(&d, settings);
    ea_options o = {.socket_path = d.socket_path};
    check(ea_open(&o, &c), "open");
    load();
    const ea_spread_options engram = {.mode = EA_ENGRAM},
                            similar = {.mode = EA_ENGRAM, .embeddings = "rows"},
                            linear = {.mode = EA_LINEAR, .hops = 3};
    bool met = measure("engram", &engram);
    met &= measure("engram, with embeddings", &similar);
    met &= measure("linear, 3 hops", &linear);
    ea_close(c);
    daemon_stop(&d);
    free(rows);
    return !met;
}
