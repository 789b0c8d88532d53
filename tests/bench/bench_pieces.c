/* bench_pieces: how long a worker works on large requests in one piece, before it looks at what
 * others wait for: the thread's own time, so that a busy machine does not matter. */
#include <argp.h>
#include <string.h>
#include <time.h>

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "tests/bench/bench.h"
#include "tests/support/pieces.h"

enum { WIDE = 768, NARROW = 32, HEAP_GIB = 6, HOPS = 4, DEGREE = 8, RUNS = 3 };
#define PIECE_MS 2.0

static uint64_t rows_max = 1000000;
static const char *only;

struct room {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *wide, *narrow; /* of rows_max / 20 and rows_max rows */
    struct graph *graph;              /* of rows_max nodes */
    uint64_t *ids;                    /* 0, 1, 2 ... 2 * rows_max, scattered */
    uint64_t *targets;
    float *values;
};

static float *random_floats(uint64_t count)
{
    float *p = aligned_alloc(64, (count * sizeof *p + 63) / 64 * 64);
    if (!p) bench_fail("floats", "no memory");
    uint64_t state = 7;
    for (uint64_t i = 0; i < count; i++)
        p[i] = bench_random_float(&state);
    return p;
}

static struct collection *fill(struct room *r, const char *name, uint32_t dimension, uint64_t rows)
{
    struct collection *c;
    struct failure f = {0};
    struct upsert_counts counts;
    if (store_collection_create(r->store, r->space, name, dimension, METRIC_COSINE, &f, &c) ||
        collection_upsert(c, r->ids, r->values, rows, &counts, &f))
        bench_fail(name, f.text);
    return c;
}

static struct job job_of(struct room *r, enum operation operation)
{
    return (struct job){.operation = operation,
                        .space = r->space,
                        .heap = r->heap,
                        .kernels = vectors_choose("auto"),
                        .worker_count = 2,
                        .reply_bytes_max = UINT64_C(1) << 30};
}

static struct tensor floats(const struct room *r, uint64_t rows, uint64_t columns)
{
    return (struct tensor){DTYPE_FLOAT32, rows, columns, r->values};
}

static struct tensor numbers(uint64_t *data, uint64_t count)
{
    return (struct tensor){DTYPE_UINT64, count, 1, data};
}

/* ---------------------------------------------------------------- a case */

/* Runs a job of each of RUNS drafts, and tells. */
static void measure(const char *what, struct room *r, struct job (*draft)(struct room *r))
{
    struct pieces p = {.timed = true};
    double longest[RUNS];
    if (only && !strstr(what, only)) return;
    for (int run = 0; run < RUNS; run++) {
        struct job j = draft(r);
        uint64_t first = p.count;
        struct collection *c = j.writer && !j.graph ? (struct collection *)j.resident : NULL;
        if (c) collection_expect_write(c);
        if (pieces_run(&p, &j)) bench_fail(what, j.failure.text);
        if (c) collection_publish(c);
        if (c) gone_free(r->heap, collection_take_gone(c));
        heap_give(r->heap, &j.result.block);
        longest[run] = 0;
        for (uint64_t i = first; i < p.count; i++)
            if (p.ms[i] > longest[run]) longest[run] = p.ms[i];
    }
    double all = 0;
    for (uint64_t i = 0; i < p.count; i++)
        all += p.ms[i];
    double median = bench_percentile(longest, RUNS, 50);
    double p99 = bench_percentile(p.ms, p.count, 99);
    printf("  %-46s %9.1f ms %8llu %9.3f %9.3f ms%s\n", what, all / RUNS,
           (unsigned long long)(p.count / RUNS), p99, median,
           p99 <= PIECE_MS ? "" : "  MISSED: p99 <= 2 ms");
    fflush(stdout);
    pieces_finish(&p);
}

/* ---------------------------------------------------------------- reading rows */

static struct job on(struct room *r, struct collection *c, enum operation operation)
{
    struct job j = job_of(r, operation);
    j.resident = collection_resident(c);
    j.collection = collection_now(c);
    return j;
}

static struct job knn(struct room *r, struct collection *c, uint64_t queries, uint32_t k)
{
    struct job j = on(r, c, OPERATION_KNN);
    j.request.queries = floats(r, queries, collection_dimension(j.collection));
    j.request.k = k;
    return j;
}

static struct job knn_many(struct room *r)
{
    return knn(r, r->wide, 1024, 10);
}

static struct job knn_long(struct room *r)
{
    return knn(r, r->narrow, 1, 16384);
}

static struct job knn_of_ids(struct room *r)
{
    struct job j = knn(r, r->narrow, 1, 10);
    j.request.filter_ids = numbers(r->ids, rows_max);
    return j;
}

static struct job similarity_all(struct room *r)
{
    struct job j = on(r, r->narrow, OPERATION_SIMILARITY);
    j.request.queries = floats(r, 8, NARROW);
    return j;
}

static struct job similarity_matches(struct room *r)
{
    struct job j = similarity_all(r);
    j.request.queries.rows = 1;
    j.request.has_threshold = true;
    j.request.threshold = -1;
    return j;
}

static struct job score_ids(struct room *r)
{
    struct job j = on(r, r->narrow, OPERATION_SCORE_CANDIDATES);
    j.request.queries = floats(r, 1, NARROW);
    j.request.ids = numbers(r->ids, rows_max);
    j.request.k = 1000;
    return j;
}

static struct job fetch(struct room *r)
{
    struct job j = on(r, r->narrow, OPERATION_FETCH);
    j.request.ids = numbers(r->ids, rows_max);
    return j;
}

static struct job average(struct room *r)
{
    struct job j = on(r, r->narrow, OPERATION_WEIGHTED_AVERAGE);
    j.request.ids = numbers(r->ids, rows_max);
    j.request.weights = floats(r, rows_max, 1);
    return j;
}

static struct job norms(struct room *r)
{
    struct job j = job_of(r, OPERATION_NORMS);
    j.request.rows = floats(r, rows_max, NARROW);
    return j;
}

/* ---------------------------------------------------------------- writing rows */

static struct job upsert(struct room *r, struct collection *c, uint64_t *ids, uint64_t count)
{
    struct job j = on(r, c, OPERATION_UPSERT);
    j.writer = true;
    j.request.ids = numbers(ids, count);
    j.request.rows = floats(r, count, collection_dimension(j.collection));
    return j;
}

static struct job upsert_same(struct room *r)
{
    return upsert(r, r->wide, r->ids, rows_max / 100);
}

static struct job upsert_all(struct room *r)
{
    return upsert(r, r->narrow, r->ids, rows_max);
}

static struct job upsert_new(struct room *r)
{
    static uint64_t done;
    done += rows_max / RUNS;
    return upsert(r, r->narrow, r->ids + rows_max + done - rows_max / RUNS, rows_max / RUNS);
}

static struct job delete_many(struct room *r)
{
    static uint64_t done;
    struct job j = on(r, r->narrow, OPERATION_DELETE);
    j.writer = true;
    done += rows_max / RUNS;
    j.request.ids = numbers(r->ids + done - rows_max / RUNS, rows_max / RUNS);
    return j;
}

/* ---------------------------------------------------------------- graphs */

static struct job on_graph(struct room *r, enum operation operation)
{
    struct job j = job_of(r, operation);
    j.resident = graph_resident(r->graph);
    j.graph = graph_now(r->graph);
    return j;
}

static struct job change_edges(struct room *r, enum operation operation, uint64_t count)
{
    struct job j = on_graph(r, operation);
    j.writer = true;
    j.request.ids = numbers(r->ids, count);
    j.request.targets = numbers(r->targets, count);
    j.request.weights = floats(r, count, 1);
    return j;
}

static struct job add_edges(struct room *r)
{
    return change_edges(r, OPERATION_GRAPH_ADD_EDGES, rows_max);
}

static struct job add_weights(struct room *r)
{
    struct job j = change_edges(r, OPERATION_GRAPH_ADD_WEIGHTS, rows_max / 10);
    j.request.ids.data = r->targets;
    j.request.targets.data = r->ids + rows_max;
    j.request.low = -1;
    j.request.high = 1;
    j.request.create = true;
    return j;
}

static struct job scale(struct room *r)
{
    struct job j = change_edges(r, OPERATION_GRAPH_SCALE, 0);
    j.request.scalar = 0.99f;
    return j;
}

static struct job prune(struct room *r)
{
    struct job j = change_edges(r, OPERATION_GRAPH_PRUNE, 0);
    j.request.scalar = -0.9f;
    return j;
}

static struct job remove_edges(struct room *r)
{
    return change_edges(r, OPERATION_GRAPH_REMOVE_EDGES, rows_max / 10);
}

static struct job remove_nodes(struct room *r)
{
    static uint64_t done;
    done += rows_max / 100;
    struct job j = change_edges(r, OPERATION_GRAPH_REMOVE_NODES, 0);
    j.request.ids = numbers(r->ids + done, rows_max / 100);
    return j;
}

static struct job fetch_nodes(struct room *r)
{
    struct job j = on_graph(r, OPERATION_GRAPH_FETCH_NODES);
    j.request.ids = numbers(r->ids, rows_max / 2);
    j.request.edges = true;
    return j;
}

static struct job spread(struct room *r)
{
    struct job j = on_graph(r, OPERATION_SPREAD);
    j.request.ids = numbers(r->ids, 1000);
    j.request.spread = (struct job_spread){
        .mode = SPREAD_LINEAR, .hops = HOPS, .decay = DECAY_EXPONENTIAL, .decay_parameter = 0.5f};
    return j;
}

static struct job spread_engram(struct room *r)
{
    struct job j = spread(r);
    j.request.spread.mode = SPREAD_ENGRAM;
    return j;
}

static struct job spread_paths(struct room *r)
{
    struct job j = spread(r);
    j.request.spread.paths = true;
    return j;
}

static struct job spread_bounded(struct room *r)
{
    struct job j = spread(r);
    j.request.spread.touched_max = rows_max / 2;
    return j;
}

static struct job spread_within(struct room *r)
{
    struct job j = spread(r);
    j.request.filter_ids = numbers(r->ids + rows_max / 2, rows_max / 2);
    j.request.ids.data = r->ids + rows_max / 2;
    return j;
}

/* Half as many sets as the graph has nodes, one seed each. */
static struct job spread_sets(struct room *r)
{
    static uint64_t *offsets;
    if (!offsets && !(offsets = malloc((rows_max / 2 + 1) * sizeof *offsets)))
        bench_fail("sets", "no memory");
    for (uint64_t i = 0; i <= rows_max / 2; i++)
        offsets[i] = i;
    struct job j = spread(r);
    j.request.ids = numbers(r->ids + rows_max / 2, rows_max / 2);
    j.request.offsets = numbers(offsets, rows_max / 2 + 1);
    j.request.spread.hops = 1;
    j.request.k = 2;
    return j;
}

static void grow_graph(struct room *r)
{
    struct failure f = {0};
    struct graph_counts counts;
    if (store_graph_create(r->store, r->space, "graph", &f, &r->graph)) bench_fail("graph", f.text);
    uint64_t state = 5;
    for (int i = 0; i < DEGREE; i++) {
        for (uint64_t node = 0; node < rows_max; node++)
            r->targets[node] = r->ids[bench_random(&state) % rows_max];
        if (graph_add_edges(r->graph, r->ids, r->targets, r->values, rows_max, false, &counts, &f))
            bench_fail("graph", f.text);
    }
}

/* ---------------------------------------------------------------- memory */

enum { SMALL = 1024, LARGE_BYTES = SMALL * HEAP_UNIT };

static struct heap_block block_of(struct room *r, uint64_t bytes, uint32_t owner)
{
    struct heap_block b;
    if (heap_take(r->heap, bytes, owner, &b)) bench_fail("memory", "there is none");
    memset(b.data, 1, bytes);
    return b;
}

static double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* What the loop does when it takes another space's block, and when it gives a large one where many
 * small ones are kept. */
static void measure_memory(struct room *r)
{
    static struct heap_block small[SMALL];
    double take[RUNS], give[RUNS];
    if (only && !strstr("memory", only)) return;
    for (int run = 0; run < RUNS; run++) {
        struct heap_block large = block_of(r, LARGE_BYTES, 1);
        heap_give(r->heap, &large);
        double begin = thread_ms();
        if (heap_take(r->heap, LARGE_BYTES, 2, &large)) bench_fail("memory", "there is none");
        take[run] = thread_ms() - begin;
        memset(large.data, 1, LARGE_BYTES);
        heap_trim(r->heap, 0);
        for (int i = 0; i < SMALL; i++)
            small[i] = block_of(r, HEAP_UNIT, 3);
        for (int i = 0; i < SMALL; i++)
            heap_give(r->heap, &small[i]);
        begin = thread_ms();
        heap_give(r->heap, &large);
        give[run] = thread_ms() - begin;
    }
    printf("  memory: 64 MiB that another had, taken: %.3f ms; given where 1,024 small blocks are "
           "kept: %.3f ms\n",
           bench_percentile(take, RUNS, 50), bench_percentile(give, RUNS, 50));
}

/* ---------------------------------------------------------------- the program */

static struct room room_make(void)
{
    struct room r = {.ids = malloc(2 * rows_max * sizeof *r.ids),
                     .targets = malloc(rows_max * sizeof *r.targets),
                     .values = random_floats(rows_max * 40)};
    if (!r.ids || !r.targets) bench_fail("ids", "no memory");
    for (uint64_t i = 0; i < 2 * rows_max; i++)
        r.ids[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 8;
    if (heap_create((uint64_t)HEAP_GIB << 30, &r.heap) || heap_start_releaser(r.heap) ||
        store_create(r.heap, vectors_choose("auto"), &r.store) ||
        store_space(r.store, "bench", &r.space))
        bench_fail("store", "it cannot be made");
    r.wide = fill(&r, "wide", WIDE, rows_max / 20);
    r.narrow = fill(&r, "narrow", NARROW, rows_max);
    grow_graph(&r);
    return r;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    switch (key) {
    case 'q': rows_max = 100000; return 0;
    case 'r': rows_max = strtoull(value, NULL, 10); return rows_max >= 1000 ? 0 : EINVAL;
    case 'o': only = value; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"quick", 'q', NULL, 0, "A tenth of the rows", 0},
        {"rows", 'r', "N", 0, "Rows, candidates, nodes (1000000)", 0},
        {"only", 'o', "TEXT", 0, "Requests with TEXT in their name", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    static const struct {
        const char *what;
        struct job (*draft)(struct room *r);
    } cases[] = {
        {"kNN, 1,024 queries", knn_many},
        {"kNN, 1 query, k = 16,384", knn_long},
        {"kNN, 1 query, a filter of ids", knn_of_ids},
        {"similarity, 8 queries, all scores", similarity_all},
        {"similarity, 1 query, all match", similarity_matches},
        {"score, the best 1,000", score_ids},
        {"fetch", fetch},
        {"weighted average", average},
        {"norms", norms},
        {"upsert, wide rows that are there", upsert_same},
        {"upsert, all rows", upsert_all},
        {"upsert, new rows", upsert_new},
        {"delete, a third of the rows", delete_many},
        {"graph: add edges", add_edges},
        {"graph: add weights", add_weights},
        {"graph: scale", scale},
        {"graph: prune", prune},
        {"graph: remove edges", remove_edges},
        {"graph: remove nodes", remove_nodes},
        {"graph: fetch nodes with edges", fetch_nodes},
        {"spread, 1,000 seeds, 4 hops", spread},
        {"spread, the same with paths", spread_paths},
        {"spread, the same up to half of the nodes", spread_bounded},
        {"spread, the same within half of the nodes", spread_within},
        {"spread, the same in mode engram", spread_engram},
        {"spread, 1 hop, half as many sets as nodes", spread_sets},
    };
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    struct room r = room_make();
    printf("%llu rows x %d, %llu x %d, %llu nodes with %d edges each\n",
           (unsigned long long)rows_max, NARROW, (unsigned long long)rows_max / 20, WIDE,
           (unsigned long long)rows_max, DEGREE);
    printf("  %-46s %12s %8s %9s %12s\n", "", "in all", "pieces", "p99", "longest");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        measure(cases[i].what, &r, cases[i].draft);
    measure_memory(&r);
    store_destroy(r.store);
    heap_destroy(r.heap);
    free(r.ids);
    free(r.targets);
    free(r.values);
    return 0;
}
