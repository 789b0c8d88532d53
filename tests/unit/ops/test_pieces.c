/* How often work looks at what others wait for: often enough for its size, by count. The longest
 * pieces in time are what bench_pieces tells. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "daemon/ops/match_sort.h"
#include "daemon/ops/operation.h"
#include "daemon/ops/radix.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/dentate.h"
#include "daemon/store/graph.h"
#include "tests/support/pieces.h"

enum { D = 32, ROWS = 200000, DEGREE = 2 };

static struct heap *heap;
static struct store *store;
static struct space *space;
static struct collection *c;
static struct graph *graph;
static uint64_t *ids; /* 2 * ROWS */
static float *values;

static void begin(void)
{
    struct failure f = {0};
    struct upsert_counts counts;
    struct graph_counts changed;
    cr_assert_eq(heap_create(UINT64_C(1) << 30, &heap), STATUS_OK);
    cr_assert_eq(store_create(heap, vectors_choose("auto"), &store), STATUS_OK);
    cr_assert_eq(store_space(store, "alpha", &space), STATUS_OK);
    cr_assert_eq(store_collection_create(store, space, "rows", D, METRIC_DOT, &f, &c), STATUS_OK);
    cr_assert_eq(store_graph_create(store, space, "graph", &f, &graph), STATUS_OK);
    ids = malloc(2 * ROWS * sizeof *ids);
    values = aligned_alloc(64, (size_t)ROWS * D * sizeof *values);
    for (uint64_t i = 0; i < 2 * ROWS; i++)
        ids[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 8;
    for (size_t i = 0; i < (size_t)ROWS * D; i++)
        values[i] = (float)(i * 2654435761u >> 20 & 1023) / 1024;
    cr_assert_eq(collection_upsert(c, ids, values, ROWS, &counts, &f), STATUS_OK);
    for (int i = 1; i <= DEGREE; i++)
        cr_assert_eq(graph_add_edges(graph, ids, ids + i, values, ROWS, false, &changed, &f),
                     STATUS_OK);
}

static void end(void)
{
    free(ids);
    free(values);
    store_destroy(store);
    cr_assert_eq(heap_usage(heap).blocks, 0);
    heap_destroy(heap);
}

TestSuite(pieces, .init = begin, .fini = end);

static struct job job_of(enum operation operation)
{
    struct job j = {.operation = operation,
                    .space = space,
                    .heap = heap,
                    .kernels = vectors_choose("auto"),
                    .worker_count = 2,
                    .reply_bytes_max = UINT64_C(1) << 30};
    j.request.queries = (struct tensor){DTYPE_FLOAT32, 1, D, values};
    j.request.rows = (struct tensor){DTYPE_FLOAT32, ROWS, D, values};
    j.request.weights = (struct tensor){DTYPE_FLOAT32, ROWS, 1, values};
    j.request.ids = (struct tensor){DTYPE_UINT64, ROWS, 1, ids};
    return j;
}

static struct job on_rows(enum operation operation)
{
    struct job j = job_of(operation);
    j.resident = collection_resident(c);
    j.collection = collection_now(c);
    return j;
}

/* It looks up at least once for every `most` of ROWS. */
static void looks_up(struct job j, uint64_t most, const char *what)
{
    struct pieces p = {0};
    bool writes = j.operation == OPERATION_UPSERT || j.operation == OPERATION_DELETE;
    if (writes) collection_expect_write(c);
    cr_assert_eq(pieces_run(&p, &j), STATUS_OK, "%s: %s", what, j.failure.text);
    if (writes) collection_publish(c);
    gone_free(heap, collection_take_gone(c));
    heap_give(heap, &j.result.block);
    cr_assert_geq(p.count, ROWS / most, "%s: %llu pieces", what, (unsigned long long)p.count);
    pieces_finish(&p);
}

Test(pieces, readers_of_rows_look_up)
{
    struct job j = on_rows(OPERATION_KNN);
    j.request.rows.dtype = DTYPE_NONE;
    j.request.k = 10;
    j.request.filter_ids = j.request.ids;
    looks_up(j, 256, "knn with a filter");
    j = on_rows(OPERATION_SIMILARITY);
    j.request.rows.dtype = DTYPE_NONE;
    j.request.has_threshold = true;
    j.request.threshold = -INFINITY;
    looks_up(j, 8192, "similarity whose matches are sorted");
    j = on_rows(OPERATION_SCORE_CANDIDATES);
    j.request.rows.dtype = DTYPE_NONE;
    looks_up(j, 8192, "score");
    j = on_rows(OPERATION_FETCH);
    looks_up(j, 16384, "fetch");
    j = on_rows(OPERATION_WEIGHTED_AVERAGE);
    j.request.rows.dtype = DTYPE_NONE;
    looks_up(j, 1024, "average");
    looks_up(job_of(OPERATION_NORMS), 8192, "norms");
}

/* Each id is looked at several times: for repetitions, for its row, for its place in the index. */
Test(pieces, writers_of_rows_look_up)
{
    struct job j = on_rows(OPERATION_UPSERT);
    looks_up(j, 1024, "upsert of what is there");
    j = on_rows(OPERATION_UPSERT);
    j.request.ids.data = ids + ROWS;
    looks_up(j, 1024, "upsert of new rows, whose index grows");
    looks_up(on_rows(OPERATION_DELETE), 256, "delete");
}

/* All weights are read in each round of a dense state. */
Test(pieces, a_cue_looks_up_in_each_round)
{
    enum { DIMENSION = 512, BEFORE = 31 }; /* looks, at least, that are not about rounds */
    struct attractor_shape shape = {DIMENSION, 1.0F, 0.01F};
    const struct attractor_kernels *k = attractor_choose("auto");
    struct failure f = {0};
    struct attractor *a;
    struct pieces p = {0};
    cr_assert_eq(store_attractor_create(store, space, "dense", &shape, &f, &a), STATUS_OK);
    struct dentate *d = attractor_dentate(a);
    dentate_make(d, k, 0, dentate_rows(d));
    attractor_make(a, k, 0, DIMENSION);
    attractor_open(a);
    struct job j = job_of(OPERATION_COMPLETE_ENGINE), learns = {.attractor = NULL};
    attractor_resident(a)->ops->lend(attractor_resident(a), &learns);
    j.resident = learns.resident;
    j.attractor = learns.attractor;
    j.request.queries = (struct tensor){DTYPE_FLOAT32, 1, DIMENSION, values};
    j.request.rows.dtype = j.request.weights.dtype = j.request.ids.dtype = DTYPE_NONE;
    cr_assert_eq(pieces_run(&p, &j), STATUS_OK, "%s", j.failure.text);
    uint32_t rounds = *(const uint32_t *)j.result.tensors[RESULT_ENGINE_ROUNDS].data;
    cr_assert_geq(rounds, 2);
    cr_assert_geq(p.count, BEFORE + rounds, "%llu pieces", (unsigned long long)p.count);
    heap_give(heap, &j.result.block);
    pieces_finish(&p);
    store_attractor_unlink(store, space, a);
    attractor_destroy(a);
}

Test(pieces, readers_of_graphs_look_up)
{
    struct job j = job_of(OPERATION_GRAPH_FETCH_NODES);
    j.resident = graph_resident(graph);
    j.graph = graph_now(graph);
    j.request.edges = true;
    looks_up(j, 4, "nodes");
}

/* One set by all workers, and two by one each, the clearing of their workspaces included. */
Test(pieces, spreads_look_up)
{
    static uint64_t offsets[] = {0, 5000, 10000};
    for (uint32_t way = 0; way < 4; way++) {
        struct job j = job_of(OPERATION_SPREAD);
        j.resident = graph_resident(graph);
        j.graph = graph_now(graph);
        j.request.ids.rows = 10000;
        j.request.weights.dtype = DTYPE_NONE;
        if (way / 2) j.request.offsets = (struct tensor){DTYPE_UINT64, 3, 1, offsets};
        j.request.spread = (struct job_spread){
            .mode = way % 2 ? SPREAD_ENGRAM : SPREAD_LINEAR, .hops = 20, .decay = DECAY_CONSTANT};
        looks_up(j, 640, way % 2 ? "spread, engram" : "spread, linear");
    }
}

/* ---------------------------------------------------------------- sorting */

static uint64_t looked_up;

static void count_look(struct yielder *y)
{
    looked_up++;
}

static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *seed >> 33;
}

Test(pieces, matches_are_sorted_in_pieces)
{
    static const uint64_t counts[] = {0, 1, 2, 8191, 8192, 8193, 16384, 16385, 100001};
    struct yielder y = {.check = count_look};
    uint64_t seed = 3;
    yield_now = &y;
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        uint64_t count = counts[n];
        size_t bytes = (count + 1) * sizeof(struct topk_entry);
        struct topk_entry *all = malloc(bytes), *room = malloc(bytes), *whole = malloc(bytes);
        for (uint64_t i = 0; i < count; i++)
            all[i] = whole[i] = (struct topk_entry){
                .id = i * 2654435761u, .key = (uint32_t)draw(&seed) % 5000, .score = (float)i};
        looked_up = 0;
        const struct topk_entry *sorted = match_sort(all, room, count);
        cr_assert_geq(looked_up, count / MATCH_SORT_PIECE);
        const struct topk_entry *alike = match_sort(whole, NULL, count);
        for (uint64_t i = 0; i < count; i++)
            cr_assert(sorted[i].id == alike[i].id && sorted[i].score == alike[i].score);
        free(all);
        free(room);
        free(whole);
    }
    yield_now = NULL;
}

Test(pieces, a_radix_sort_looks_up)
{
    struct yielder y = {.check = count_look};
    struct radix_item *items = malloc(ROWS * sizeof *items), *room = malloc(ROWS * sizeof *room);
    uint64_t seed = 9;
    for (uint32_t i = 0; i < ROWS; i++)
        items[i] = (struct radix_item){draw(&seed), i};
    yield_now = &y;
    looked_up = 0;
    radix_sort(items, room, ROWS);
    yield_now = NULL;
    cr_assert_geq(looked_up, 2 * 3 * (ROWS / 65536));
    free(items);
    free(room);
}
