/* What requests ask for in numbers, and which may run together or in parts. */
#include <criterion/criterion.h>

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

enum { DIMENSION = 40, STRIDE = 64, ROWS = 1000 };

struct room {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection;
};

static struct room open_room(void)
{
    static float data[ROWS * DIMENSION];
    static uint64_t ids[ROWS];
    struct room r = {0};
    cr_assert_eq(heap_create(UINT64_C(1) << 28, &r.heap), STATUS_OK);
    cr_assert_eq(store_create(r.heap, vectors_variant(0), &r.store), STATUS_OK);
    cr_assert_eq(store_space(r.store, "test", &r.space), STATUS_OK);
    cr_assert_eq(
        store_collection_create(r.store, r.space, "c", DIMENSION, METRIC_DOT, NULL, &r.collection),
        STATUS_OK);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(r.collection, ids, data, ROWS, &counts, NULL), STATUS_OK);
    return r;
}

static void close_room(struct room *r)
{
    store_destroy(r->store);
    heap_destroy(r->heap);
}

static struct job job_of(const struct room *r, enum operation operation, uint64_t queries)
{
    struct job j = {.operation = operation,
                    .space = r->space,
                    .resident = collection_resident(r->collection),
                    .collection = collection_now(r->collection)};
    j.body_bytes = 12345;
    if (queries) j.request.queries = (struct tensor){DTYPE_FLOAT32, queries, DIMENSION, NULL};
    return j;
}

static struct tensor numbers(uint64_t count)
{
    return (struct tensor){DTYPE_UINT64, count, 1, NULL};
}

Test(work, of_knn)
{
    struct room r = open_room();
    struct job j = job_of(&r, OPERATION_KNN, 3);
    j.request.k = 10;
    struct work w = operation_work(&j);
    cr_assert(w.operation == OPERATION_KNN && w.stride == STRIDE && w.k == 10);
    cr_assert(w.queries == 3 && w.rows == ROWS && w.pairs == 3 * ROWS);
    cr_assert(!w.listed && !w.filtered && w.gpu_able);
    cr_assert(w.bytes_in == 12345 && w.bytes_out == 3 * (10 * 12 + 4));

    j.request.filter_ids = numbers(200);
    w = operation_work(&j);
    cr_assert(w.filtered && !w.listed && w.gpu_able && w.rows == ROWS);
    j.request.filter_ids = numbers(7);
    w = operation_work(&j);
    cr_assert(w.filtered && w.listed && !w.gpu_able && w.rows == 7 && w.pairs == 21);
    cr_assert_eq(w.bytes_out, 3 * (7 * 12 + 4));
    j.request.k = UINT32_MAX; /* it will be refused */
    j.request.filter_ids = (struct tensor){0};
    cr_assert_eq(operation_work(&j).bytes_out, 3 * (ROWS * 12 + 4));
    close_room(&r);
}

Test(work, of_the_others)
{
    struct room r = open_room();
    struct job j = job_of(&r, OPERATION_SIMILARITY, 5);
    struct work w = operation_work(&j);
    cr_assert(w.pairs == 5 * ROWS && w.k == 0 && w.gpu_able && !w.listed);
    cr_assert_eq(w.bytes_out, 5 * ROWS * 4 + ROWS * 8);
    j.request.has_threshold = true;
    cr_assert_eq(operation_work(&j).bytes_out, 0);
    j = job_of(&r, OPERATION_SIMILARITY, 5); /* inline */
    j.resident = NULL;
    j.collection = NULL;
    j.request.rows = (struct tensor){DTYPE_FLOAT32, 30, 70, NULL};
    w = operation_work(&j);
    cr_assert(w.pairs == 150 && w.stride == 96 && w.gpu_able && w.bytes_out == 600);
    cr_assert_eq(operation_rows_bytes(&j), 30 * (96 + 1) * 4);
    j.operation = OPERATION_NORMS;
    w = operation_work(&j);
    cr_assert(w.pairs == 0 && w.rows == 30 && w.gpu_able && w.bytes_out == 30 * 4);
    j.request.rows.rows = 0;
    cr_assert(!operation_work(&j).gpu_able && !operation_rows_bytes(&j));

    j = job_of(&r, OPERATION_SCORE_CANDIDATES, 4);
    j.request.ids = numbers(90);
    w = operation_work(&j);
    cr_assert(w.listed && w.queries == 4 && w.rows == 90 && w.pairs == 90 && w.gpu_able);
    cr_assert_eq(operation_rows_bytes(&j), 0);
    cr_assert_eq(w.bytes_out, 360);
    j.request.k = 2;
    cr_assert_eq(operation_work(&j).bytes_out, 4 * (2 * 12 + 4));

    j = job_of(&r, OPERATION_WEIGHTED_AVERAGE, 0);
    j.request.ids = numbers(90);
    w = operation_work(&j);
    cr_assert(w.listed && w.queries == 1 && w.pairs == 90 && w.bytes_out == DIMENSION * 4);

    j = job_of(&r, OPERATION_FETCH, 0);
    j.request.offset = ROWS - 10;
    j.request.limit = 100;
    w = operation_work(&j);
    cr_assert(w.pairs == 0 && !w.gpu_able && w.bytes_out == 10 * (9 + DIMENSION * 4));
    j.request.offset = UINT64_MAX;
    cr_assert_eq(operation_work(&j).bytes_out, 0);
    const enum operation writes[] = {OPERATION_UPSERT, OPERATION_DELETE, OPERATION_COLLECTION_DROP};
    for (size_t i = 0; i < 3; i++) {
        j = job_of(&r, writes[i], 0);
        w = operation_work(&j);
        cr_assert(w.pairs == 0 && w.bytes_in == 12345 && !w.bytes_out && !w.gpu_able);
    }
    close_room(&r);
}

/* Shapes that will be refused are still numbers. */
Test(work, of_monsters_does_not_overflow)
{
    struct room r = open_room();
    struct job j = job_of(&r, OPERATION_SIMILARITY, UINT64_MAX / 2);
    cr_assert_geq(operation_work(&j).pairs, UINT64_MAX / 16);
    j.resident = NULL;
    j.collection = NULL;
    j.request.rows = (struct tensor){DTYPE_FLOAT32, UINT64_MAX, UINT64_MAX, NULL};
    struct work w = operation_work(&j);
    cr_assert(w.pairs >= UINT64_MAX / 16 && w.stride == VECTOR_DIMENSION_MAX);
    close_room(&r);
}

Test(work, what_may_run_together)
{
    struct room r = open_room();
    struct job j = job_of(&r, OPERATION_KNN, 1), whole = j;
    j.request.k = 100;
    cr_assert(operation_batches(&j));
    j.request.has_threshold = true;
    j.deadline_ns = 5;
    j.request.filter_ids = numbers(ROWS / 4 + 1);
    cr_assert(operation_batches(&j));
    j.request.filter_ids = numbers(ROWS / 4);
    cr_assert_not(operation_batches(&j), "rows are gathered");
    j.request.filter_ids = (struct tensor){0};
    j.request.filter_bitmap = (struct tensor){DTYPE_UINT8, ROWS / 8, 1, NULL};
    cr_assert(operation_batches(&j));
    j.request.filter_bitmap.rows = ROWS / 32;
    cr_assert_not(operation_batches(&j));
    j.request.filter_bitmap = (struct tensor){0};
    j.request.queries.rows = 0;
    cr_assert_not(operation_batches(&j));
    j.request.queries.rows = 256;
    cr_assert_not(operation_batches(&j), "300 KiB");
    j.request.k = 80;
    cr_assert(operation_batches(&j));
    j.request.queries.rows = 257;
    cr_assert_not(operation_batches(&j));
    j.request.queries.rows = 2;
    j.whole = &whole;
    cr_assert_not(operation_batches(&j));
    j = job_of(&r, OPERATION_SIMILARITY, 1);
    cr_assert_not(operation_batches(&j));
    close_room(&r);
}

Test(work, what_may_be_cut)
{
    struct room r = open_room();
    struct job j = job_of(&r, OPERATION_KNN, 64), whole = j;
    cr_assert(operation_splits(&j));
    j.request.queries.rows = 63;
    cr_assert_not(operation_splits(&j));
    j.request.queries.rows = 64;
    j.request.filter_ids = numbers(ROWS);
    cr_assert_not(operation_splits(&j));
    j.request.filter_ids = (struct tensor){0};
    j.whole = &whole;
    cr_assert_not(operation_splits(&j));
    close_room(&r);
}

/* Nodes with 8 edges each, so that what is likely and what is at most are the same. */
static struct graph *make_graph(struct room *r, uint64_t nodes)
{
    struct graph *g;
    struct graph_counts counts;
    struct failure f;
    uint64_t sources[8], targets[8];
    float weights[8];
    cr_assert_eq(store_graph_create(r->store, r->space, "g", NULL, &g), STATUS_OK);
    for (uint64_t i = 0; i < nodes; i++) {
        for (uint64_t e = 0; e < 8; e++) {
            sources[e] = i;
            targets[e] = (i + e + 1) % nodes;
            weights[e] = 1;
        }
        cr_assert_eq(graph_add_edges(g, sources, targets, weights, 8, false, &counts, &f),
                     STATUS_OK);
    }
    return g;
}

Test(work, of_spread)
{
    struct room r = open_room();
    struct job j = {.operation = OPERATION_SPREAD, .space = r.space};
    struct graph *g = make_graph(&r, 1000);
    j.graph = graph_now(g);
    j.request.ids = numbers(3);
    j.request.spread = (struct job_spread){.mode = SPREAD_LINEAR, .hops = 1};
    struct work w = operation_work(&j);
    cr_assert(w.operation == OPERATION_SPREAD && w.queries == 1 && w.stride == 2 && w.k == 0);
    cr_assert(w.pairs == 25 && w.rows == 27 && w.bytes_out == 27 * 24);
    cr_assert(work_is_brief(&w));
    j.request.k = 10;
    cr_assert_eq(operation_work(&j).bytes_out, 240);
    j.request.spread.hops = 2;
    cr_assert_eq(operation_work(&j).pairs, 24 + 24 * 8 + 1);
    j.request.spread.hops = 100;
    w = operation_work(&j);
    cr_assert(!work_is_brief(&w) && w.rows == 1000 && w.pairs > 770000 && w.pairs <= 800000);

    /* One that has many edges may be met: nobody knows. */
    static uint64_t hub[5000], far[5000];
    static float weights[5000];
    struct graph_counts counts;
    struct failure f;
    for (uint64_t i = 0; i < 5000; i++)
        far[i] = i;
    cr_assert_eq(graph_add_edges(g, hub, far, weights, 5000, false, &counts, &f), STATUS_OK);
    j.request.spread.hops = 1;
    w = operation_work(&j);
    cr_assert(!work_is_brief(&w) && w.pairs < 100);

    j.request.spread.mode = SPREAD_ENGRAM;
    j.request.offsets = numbers(4);
    w = operation_work(&j);
    cr_assert(w.operation == OPERATION_SPREAD_ENGRAM && w.queries == 3 && w.rows < 27);
    j.request.filter_ids = numbers(1);
    w = operation_work(&j);
    cr_assert(w.filtered && !work_is_brief(&w));
    close_room(&r);
}

/* Thresholds end it: from 3 seeds with the laws that are meant where none are named, about 200 of
 * 1,000,000 nodes are touched, and 70 in mode engram, however many hops are asked for. */
Test(work, of_spreads_that_fade)
{
    struct room r = open_room();
    struct job j = {.operation = OPERATION_SPREAD, .space = r.space};
    j.graph = graph_now(make_graph(&r, 100000));
    j.request.ids = numbers(3);
    struct job_spread whole = {
        .mode = SPREAD_LINEAR, .hops = 4, .decay = DECAY_EXPONENTIAL, .decay_parameter = 0.7f};
    struct job_spread fading = whole;
    memcpy(fading.thresholds, (float[]){0.01f, 0.05f, 0.1f}, sizeof fading.thresholds);
    j.request.spread = whole;
    uint64_t all = operation_work(&j).pairs;
    cr_assert_eq(all, 24 + 24 * 8 + 24 * 64 + 24 * 512 + 1);
    j.request.spread = fading;
    struct work w = operation_work(&j);
    cr_assert(w.rows > 130 && w.rows < 260 && w.pairs > 1000 && w.pairs < 2500, "%u, %u",
              (unsigned)w.rows, (unsigned)w.pairs);
    cr_assert(!work_is_brief(&w), "it may be more");
    j.request.spread.mode = SPREAD_ENGRAM;
    w = operation_work(&j);
    cr_assert(w.rows > 50 && w.rows < 100 && w.pairs > 300 && w.pairs < 1000, "%u, %u",
              (unsigned)w.rows, (unsigned)w.pairs);
    j.request.spread.hops = 100;
    cr_assert_eq(operation_work(&j).rows, w.rows);
    j.request.spread.thresholds[1] = 1;
    w = operation_work(&j);
    cr_assert(w.rows == 3 && w.pairs == 25, "the first hop's edges are walked in vain");

    j.request.spread = fading;
    j.request.spread.decay = DECAY_TABLE;
    cr_assert_eq(operation_work(&j).pairs, all, "what is in it is not looked at");
    j.request.spread.decay = DECAY_LINEAR;
    j.request.spread.decay_parameter = 1;
    cr_assert_eq(operation_work(&j).rows, 3, "f(1) is 0");
    close_room(&r);
}

/* Sets without seeds walk nothing: what the others walk is not theirs to share. */
Test(work, of_spreads_with_empty_sets)
{
    struct room r = open_room();
    struct job j = {.operation = OPERATION_SPREAD, .space = r.space};
    struct graph *g = make_graph(&r, 1000);
    j.graph = graph_now(g);
    j.request.ids = numbers(1);
    j.request.spread = (struct job_spread){.mode = SPREAD_LINEAR, .hops = 100};
    uint64_t alone = operation_work(&j).pairs;
    j.request.offsets = numbers(3);
    struct work w = operation_work(&j);
    cr_assert(!work_is_brief(&w) && w.queries == 2);
    cr_assert_eq(w.pairs, alone);
    j.request.ids = numbers(5);
    j.request.offsets = numbers(8);
    w = operation_work(&j);
    cr_assert(!work_is_brief(&w) && w.pairs > 4 * alone);

    /* Nor is a set for nothing. */
    j.request.ids = numbers(0);
    j.request.offsets = numbers(4001);
    w = operation_work(&j);
    cr_assert(!work_is_brief(&w));
    close_room(&r);
}
