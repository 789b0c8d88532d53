/* bench_graph: graphs and spreads as clients see them, through the socket: what one spread takes
 * from few seeds, and from many sets at once, and how many of the requests ran on a GPU; what edges
 * take that are added in bulk and one at a time. The daemon is this build's, with built-in
 * predictions and the default bound of memory; ENGRAM_TEST_GPU=auto gives it a GPU.
 *   bench_graph [--quick] */
#include <string.h>

#include "client/engram_accel.h"
#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { DEGREE = 8, SEEDS = 3, SETS = 256, BEST = 10, ISLAND = 40, REPEATS_MAX = 4000 };

struct made {
    ea_client *client;
    char name[16];
    uint32_t nodes;
    uint64_t edges, *sources, *targets;
    float *weights;
    uint64_t random;
};

static void check(ea_status st, ea_client *c, const char *what)
{
    if (st) bench_fail(what, ea_error_text(c));
}

/* island: 0: edges lie between any nodes; otherwise within so many neighbours, in lists of
 * equal length. */
static void make_graph(struct made *m, ea_client *c, uint32_t nodes, uint32_t island)
{
    *m = (struct made){.client = c, .nodes = nodes, .edges = (uint64_t)nodes * DEGREE};
    m->sources = malloc(m->edges * sizeof *m->sources);
    m->targets = malloc(m->edges * sizeof *m->targets);
    m->weights = malloc(m->edges * sizeof *m->weights);
    for (uint64_t i = 0; i < m->edges; i++) {
        m->sources[i] = bench_random(&m->random) % nodes;
        m->targets[i] = bench_random(&m->random) % nodes;
        if (island) {
            m->sources[i] = i / DEGREE;
            m->targets[i] = m->sources[i] / island * island + bench_random(&m->random) % island;
        }
        m->weights[i] = (float)(bench_random(&m->random) % 1000 + 1) / 1000.0f;
    }
    snprintf(m->name, sizeof m->name, "g%u", nodes);
    check(ea_graph_create(c, m->name, NULL), c, "create");
    double start_s = bench_now_s();
    check(ea_graph_add_edges(c, m->name,
                             &(ea_graph_edges){.sources = m->sources,
                                               .targets = m->targets,
                                               .weights = m->weights,
                                               .count = m->edges},
                             NULL),
          c, "add");
    double took_s = bench_now_s() - start_s;
    printf("\n%u nodes, %llu edges: added in %.3f s, %.2f million edges a second\n", nodes,
           (unsigned long long)m->edges, took_s, (double)m->edges / took_s / 1e6);
}

static void drop_graph(struct made *m)
{
    check(ea_graph_drop(m->client, m->name), m->client, "drop");
    free(m->sources);
    free(m->targets);
    free(m->weights);
}

/* Each from other seeds. one_us: what a request of one set takes; most_us: 0: no target. Median
 * us. */
static double time_spreads(struct made *m, ea_spread_mode mode, uint32_t hops, uint64_t sets,
                           unsigned repeats, double most_us, double one_us)
{
    static double us[REPEATS_MAX];
    uint64_t seeds[SETS * SEEDS], offsets[SETS + 1], entries = 0, on_gpu = 0;
    ea_spread_options options = {.mode = mode, .hops = hops, .k = BEST};
    ea_spread_result r = {0};
    for (uint64_t s = 0; s <= sets; s++)
        offsets[s] = s * SEEDS;
    for (unsigned i = 0; i < repeats; i++) {
        for (uint64_t s = 0; s < sets * SEEDS; s++)
            seeds[s] = m->sources[bench_random(&m->random) % m->edges];
        double start_s = bench_now_s();
        check(ea_spread(m->client, m->name, &options,
                        &(ea_seeds){
                            .offsets = offsets, .sets = sets, .ids = seeds, .count = sets * SEEDS},
                        &r),
              m->client, "spread");
        us[i] = (bench_now_s() - start_s) * 1e6;
        entries += r.count;
        on_gpu += r.meta->backend == EA_BACKEND_GPU;
    }
    ea_spread_result_free(&r);
    double p50 = bench_percentile(us, repeats, 50), p99 = bench_percentile(us, repeats, 99);
    printf("  %-7s %4u %5llu %12.1f %12.1f %8.0f %6.1f", mode == EA_LINEAR ? "linear" : "engram",
           hops, (unsigned long long)sets, p50, p99, (double)entries / repeats,
           100 * (double)on_gpu / repeats);
    if (most_us > 0) printf("   <= %.0f %s", most_us, p50 <= most_us ? "ok" : "MISSED");
    if (sets > 1)
        printf("   %.1f x as many a second as one by one, >= 8 %s", sets * one_us / p50,
               sets * one_us / p50 >= 8 ? "ok" : "MISSED");
    putchar('\n');
    fflush(stdout);
    return p50;
}

static void time_all(struct made *m, unsigned repeats, double most_us)
{
    printf("  %-7s %4s %5s %12s %12s %8s %6s   %s\n", "mode", "hops", "sets", "p50 us", "p99 us",
           "entries", "GPU %", "target");
    for (ea_spread_mode mode = EA_LINEAR; mode <= EA_ENGRAM; mode++)
        for (uint32_t hops = 1; hops <= 4; hops++) {
            double one_us = time_spreads(m, mode, hops, 1, repeats, hops == 1 ? most_us : 0, 0);
            time_spreads(m, mode, hops, SETS, repeats / 20 + 2, 0, one_us);
        }
}

/* One seed, which reaches its island alone: what it touches is known by then only. */
static void time_islands(struct made *m, unsigned repeats)
{
    static double us[REPEATS_MAX];
    ea_spread_options options = {.hops = 4, .k = BEST};
    ea_spread_result r = {0};
    for (options.mode = EA_LINEAR; options.mode <= EA_ENGRAM; options.mode++) {
        for (unsigned i = 0; i < repeats; i++) {
            uint64_t seed = m->sources[bench_random(&m->random) % m->edges];
            double start_s = bench_now_s();
            check(ea_spread(m->client, m->name, &options,
                            &(ea_seeds){.sets = 1, .ids = &seed, .count = 1}, &r),
                  m->client, "spread");
            us[i] = (bench_now_s() - start_s) * 1e6;
        }
        double p50 = bench_percentile(us, repeats, 50), p99 = bench_percentile(us, repeats, 99);
        printf("  %-7s 4 hops over islands of %d: p50 %.1f us, p99 %.1f us   <= 35 %s\n",
               options.mode == EA_LINEAR ? "linear" : "engram", ISLAND, p50, p99,
               p50 <= 35 ? "ok" : "MISSED");
    }
    ea_spread_result_free(&r);
}

/* One edge a request, a spread after each. */
static void time_updates(struct made *m, unsigned repeats)
{
    static double us[REPEATS_MAX];
    ea_spread_options options = {.mode = EA_ENGRAM, .hops = 1};
    ea_spread_result r = {0};
    for (unsigned i = 0; i < repeats; i++) {
        uint64_t at = bench_random(&m->random) % m->edges;
        double start_s = bench_now_s();
        check(ea_graph_add_edges(m->client, m->name,
                                 &(ea_graph_edges){.sources = &m->sources[at],
                                                   .targets = &m->targets[at],
                                                   .weights = &m->weights[at],
                                                   .count = 1,
                                                   .replace = true},
                                 NULL),
              m->client, "add one");
        us[i] = (bench_now_s() - start_s) * 1e6;
        check(ea_spread(m->client, m->name, &options,
                        &(ea_seeds){.sets = 1, .ids = &m->sources[at], .count = 1}, &r),
              m->client, "spread");
    }
    ea_spread_result_free(&r);
    double p50 = bench_percentile(us, repeats, 50), p99 = bench_percentile(us, repeats, 99);
    printf("  an edge replaced: p50 %.1f us, p99 %.1f us\n", p50, p99);
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    unsigned repeats = quick ? 400 : REPEATS_MAX;
    struct daemon_process d;
    ea_client *c;
    daemon_start(
        &d, (const char *[]){"memory.max_mib=0", "sched.predict=true", "gpu.force=none", NULL});
    check(ea_open(&(ea_options){.socket_path = d.socket_path}, &c), NULL, "open");
    const struct {
        uint32_t nodes;
        double most_us;
    } sizes[] = {{1000, 60}, {10000, 70}, {1000000, 200}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct made m;
        make_graph(&m, c, sizes[i].nodes, 0);
        time_all(&m, repeats, sizes[i].most_us);
        time_updates(&m, repeats);
        drop_graph(&m);
    }
    struct made m;
    make_graph(&m, c, sizes[2].nodes, ISLAND);
    time_islands(&m, repeats);
    drop_graph(&m);
    ea_close(c);
    daemon_stop(&d);
    return 0;
}
