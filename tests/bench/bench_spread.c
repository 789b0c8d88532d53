/* bench_spread: hops of mode linear and spreads of both modes on the CPU, over WordNet (if it is
 * here) and made-up graphs: each kernel beside the scalar one, one thread and two, few nodes beside
 * all.
 *   bench_spread [--quick]
 *   bench_spread --serve FOLDER GRAPH THREADS    for bench_spread_peers.py: writes the graph into
 *       FOLDER, then answers each line that it reads, "hop" or "sums", with the seconds of that
 *       over all nodes: of the clock, and of this thread */
#include "kernels/vectors.h"
#include "tests/bench/bench.h"
#include "tests/support/spread_bench.h"

#include <string.h>

/* ---------------------------------------------------------------- hops over everything */

struct timing {
    double pull_s, hop_s; /* the sums alone; all of a hop */
};

static struct timing time_hops(struct spread_bench *s, const struct spread_kernels *kernels,
                               uint32_t threads, uint32_t hops)
{
    struct timing t;
    double *times = calloc(hops, sizeof *times);
    spread_bench_start(s, kernels, threads);
    for (uint32_t i = 0; i < hops; i++)
        times[i] = spread_bench_pull(s);
    t.pull_s = bench_percentile(times, hops, 50);
    for (uint32_t i = 0; i < hops; i++)
        times[i] = spread_bench_hop(s);
    t.hop_s = bench_percentile(times, hops, 50);
    spread_bench_stop(s);
    free(times);
    return t;
}

static void show_hops(struct spread_bench *s, bool quick)
{
    const struct vector_kernels *variant;
    uint32_t hops = quick ? 5 : 21;
    double edges = (double)s->sample.graph.edges;
    printf("\n%s: %u nodes, %.0f edges; a hop over all of them\n", s->name, s->sample.graph.nodes,
           edges);
    printf("  %-10s %8s %12s %12s %12s %9s\n", "kernel", "threads", "sums", "whole hop",
           "ns an edge", "x scalar");
    double scalar_s = 0;
    for (size_t v = 0; (variant = vectors_variant(v)); v++) {
        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct timing t = time_hops(s, spread_kernels_for(variant->name), threads, hops);
            if (v == 0 && threads == 1) scalar_s = t.hop_s;
            printf("  %-10s %8u %10.3fms %10.3fms %12.2f %8.2fx\n", variant->name, threads,
                   t.pull_s * 1e3, t.hop_s * 1e3, t.hop_s * 1e9 / edges, scalar_s / t.hop_s);
            fflush(stdout);
        }
    }
}

/* ---------------------------------------------------------------- from one seed */

/* The median seconds of a spread from one node, over many nodes, each warm. */
static double time_seeds(struct spread_bench *s, enum spread_mode mode, uint32_t hops,
                         enum spread_hop how, double *touched)
{
    enum { SEEDS = 41, RUNS = 3 };
    double times[SEEDS], counts[SEEDS];
    for (uint32_t i = 0; i < SEEDS; i++) {
        double best = 1e9;
        for (uint32_t run = 0; run < RUNS; run++) {
            double took = spread_bench_from(s, mode, hops, how, i, &counts[i]);
            if (took < best) best = took;
        }
        times[i] = best;
    }
    *touched = bench_percentile(counts, SEEDS, 50);
    return bench_percentile(times, SEEDS, 50);
}

static bool compare_seeds(struct spread_bench *s, double target)
{
    double touched, all;
    double sparse = time_seeds(s, SPREAD_LINEAR, 3, SPREAD_HOP_CHOSEN, &touched);
    double dense = time_seeds(s, SPREAD_LINEAR, 3, SPREAD_HOP_PULL, &all);
    char title[96], ours[32], peer[32];
    snprintf(title, sizeof title, "%s, 3 hops from a seed, %.3f %% touched", s->name,
             100 * touched / s->sample.graph.nodes);
    snprintf(ours, sizeof ours, "%.1f us", sparse * 1e6);
    snprintf(peer, sizeof peer, "%.0f us", dense * 1e6);
    return bench_row(title, ours, peer, dense / sparse, true, target);
}

static void show_engram(struct spread_bench *s)
{
    for (uint32_t hops = 2; hops <= 4; hops++) {
        double touched, took = time_seeds(s, SPREAD_ENGRAM, hops, SPREAD_HOP_CHOSEN, &touched);
        printf("  %-28s %u hops %10.1f us %10.0f touched\n", s->name, hops, took * 1e6, touched);
    }
}

/* ---------------------------------------------------------------- */

static double thread_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int serve(const char *folder, const char *name, uint32_t threads)
{
    struct spread_bench s;
    char line[64];
    if (!spread_bench_open(&s, name)) bench_fail("bench_spread", "no such graph");
    spread_bench_start(&s, spread_kernels_for(vectors_choose("auto")->name), threads);
    spread_bench_write(&s, folder);
    puts("ready");
    for (fflush(stdout); fgets(line, sizeof line, stdin); fflush(stdout)) {
        double start = thread_now_s();
        double took = line[0] == 's' ? spread_bench_pull(&s) : spread_bench_hop(&s);
        printf("%.9f %.9f\n", took, thread_now_s() - start);
    }
    spread_bench_stop(&s);
    spread_bench_close(&s);
    return 0;
}

int main(int count, char **arguments)
{
    static const char *const graphs[] = {"wordnet", "uniform", "power"};
    bool quick = count > 1 && !strcmp(arguments[1], "--quick"), met = true;
    if (count == 5 && !strcmp(arguments[1], "--serve"))
        return serve(arguments[2], arguments[3], (uint32_t)atoi(arguments[4]));
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        struct spread_bench s;
        if (!spread_bench_open(&s, graphs[i])) {
            printf("SKIP %s: it is not on this machine\n", graphs[i]);
            continue;
        }
        show_hops(&s, quick);
        bench_header("Mode linear: few nodes; peer: the same in whole hops");
        met &= compare_seeds(&s, i == 2 ? 20.0 : 1.0);
        printf("Mode engram, from a seed\n");
        show_engram(&s);
        spread_bench_close(&s);
    }
    return met ? 0 : 1;
}
