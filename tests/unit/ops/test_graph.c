/* Changes of a graph and its nodes as jobs: what they count, what they refuse, that a refusal
 * changes nothing. What the graph itself does is tests/unit/store's. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/ops/operation.h"
#include "daemon/store/graph.h"
#include "tests/support/run_job.h"

struct bench {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct graph *graph;
};

static struct bench open_bench(void)
{
    struct bench b;
    cr_assert_eq(heap_create(UINT64_C(1) << 28, &b.heap), STATUS_OK);
    cr_assert_eq(store_create(b.heap, vectors_variant(0), &b.store), STATUS_OK);
    cr_assert_eq(store_space(b.store, "test", &b.space), STATUS_OK);
    cr_assert_eq(store_graph_create(b.store, b.space, "g", NULL, &b.graph), STATUS_OK);
    return b;
}

static void close_bench(struct bench *b)
{
    store_destroy(b->store);
    cr_assert_eq(heap_usage(b->heap).blocks, 0);
    heap_destroy(b->heap);
}

static struct job make_job(struct bench *b, enum operation operation)
{
    return (struct job){.operation = operation,
                        .space = b->space,
                        .resident = graph_resident(b->graph),
                        .graph = graph_now(b->graph),
                        .heap = b->heap,
                        .kernels = vectors_choose("auto"),
                        .worker_count = 3,
                        .reply_bytes_max = UINT64_C(1) << 26};
}

static struct tensor numbers(const uint64_t *data, uint64_t rows)
{
    return (struct tensor){DTYPE_UINT64, rows, 1, (void *)data};
}

static struct tensor floats(const float *data, uint64_t rows)
{
    return (struct tensor){DTYPE_FLOAT32, rows, 1, (void *)data};
}

static void expect_counts(const struct job *j, uint64_t added, uint64_t removed,
                          uint64_t nodes_added, uint64_t nodes_removed, uint64_t missing)
{
    const uint64_t wanted[] = {added, removed, nodes_added, nodes_removed, missing};
    for (int i = 0; i < 5; i++)
        cr_assert_eq(j->result.counts[i], wanted[i], "count %d: %llu", i,
                     (unsigned long long)j->result.counts[i]);
}

static void expect_state(const struct job *j, uint64_t nodes, uint64_t edges)
{
    cr_assert_eq(j->result.nodes, nodes);
    cr_assert_eq(j->result.rows, edges);
    cr_assert_eq(j->result.version, resident_version(j->resident));
}

/* 1 -> 2, 1 -> 2 again, 2 -> 3, 3 -> 1. */
static void add_triangle(struct bench *b)
{
    static const uint64_t sources[] = {1, 1, 2, 3}, targets[] = {2, 2, 3, 1};
    static const float weights[] = {0.5f, 0.25f, 1.0f, -2.0f};
    struct job j = make_job(b, OPERATION_GRAPH_ADD_EDGES);
    j.request.ids = numbers(sources, 4);
    j.request.targets = numbers(targets, 4);
    j.request.weights = floats(weights, 4);
    cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
    expect_counts(&j, 4, 0, 3, 0, 0);
    expect_state(&j, 3, 4);
    run_job_reset(&j);
}

Test(op_graph, edges_come_and_go)
{
    struct bench b = open_bench();
    add_triangle(&b);
    static const uint64_t sources[] = {1, 9}, targets[] = {2, 1};
    static const float weights[] = {4.0f, 5.0f};
    struct job j = make_job(&b, OPERATION_GRAPH_ADD_EDGES);
    j.request.ids = numbers(sources, 2);
    j.request.targets = numbers(targets, 2);
    j.request.weights = floats(weights, 2);
    j.request.replace = true;
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    expect_counts(&j, 2, 2, 1, 0, 0);
    expect_state(&j, 4, 4);
    j.operation = OPERATION_GRAPH_REMOVE_EDGES;
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    expect_counts(&j, 0, 2, 0, 0, 0);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    expect_counts(&j, 0, 0, 0, 0, 2);
    expect_state(&j, 4, 2);
    close_bench(&b);
}

Test(op_graph, a_matrix_in_csr_form)
{
    struct bench b = open_bench();
    static const uint64_t ids[] = {100, 200, 300}, offsets[] = {0, 2, 2, 3}, columns[] = {1, 2, 0};
    static const float weights[] = {1, 2, 3};
    struct job j = make_job(&b, OPERATION_GRAPH_ADD_CSR);
    j.request.ids = numbers(ids, 3);
    j.request.offsets = numbers(offsets, 4);
    j.request.targets = numbers(columns, 3);
    j.request.weights = floats(weights, 3);
    cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
    expect_counts(&j, 3, 0, 3, 0, 0);
    cr_assert_neq(graph_find(graph_now(b.graph), 200), SPREAD_NO_NODE);
    j.request.ids = (struct tensor){0};
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    expect_counts(&j, 3, 0, 3, 0, 0);
    expect_state(&j, 6, 6);
    close_bench(&b);
}

Test(op_graph, nodes_are_set_fetched_and_removed)
{
    struct bench b = open_bench();
    add_triangle(&b);
    static const uint64_t ids[] = {2, 7}, asked[] = {1, 8, 2, 7};
    static const uint8_t kinds[] = {SPREAD_CONCEPT, SPREAD_EPISODE};
    static const float factors[] = {0.5f, 3.0f};
    struct job j = make_job(&b, OPERATION_GRAPH_SET_NODES);
    j.request.ids = numbers(ids, 2);
    j.request.kinds = (struct tensor){DTYPE_UINT8, 2, 1, (void *)kinds};
    j.request.factors = floats(factors, 2);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    expect_counts(&j, 0, 0, 1, 0, 0);

    struct job f = make_job(&b, OPERATION_GRAPH_FETCH_NODES);
    f.request.ids = numbers(asked, 4);
    f.request.edges = true;
    cr_assert_eq(run_job(&f, 1), STATUS_OK);
    const struct tensor *t = f.result.tensors;
    cr_assert(!memcmp(t[0].data, (uint8_t[]){1, 0, 1, 1}, 4));
    cr_assert(!memcmp(t[1].data, (uint8_t[]){0, 0, 2, 1}, 4));
    cr_assert(!memcmp(t[2].data, (float[]){1, 0, 0.5f, 3}, 16));
    cr_assert(!memcmp(t[3].data, (uint32_t[]){2, 0, 1, 0}, 16));
    cr_assert(!memcmp(t[4].data, (uint32_t[]){1, 0, 2, 0}, 16));
    cr_assert(!memcmp(t[5].data, (uint64_t[]){0, 2, 2, 3, 3}, 40));
    cr_assert(!memcmp(t[6].data, (uint64_t[]){2, 2, 3}, 24));
    cr_assert(!memcmp(t[7].data, (float[]){0.25f, 0.5f, 1}, 12));
    cr_assert_eq(f.result.counts[0], 1);
    run_job_reset(&f);
    f.request.edges = false;
    cr_assert_eq(run_job(&f, 1), STATUS_OK);
    cr_assert_eq(f.result.tensors[5].dtype, DTYPE_NONE);
    run_job_reset(&f);
    f.request.ids.rows = 0;
    f.request.edges = true;
    cr_assert_eq(run_job(&f, 1), STATUS_OK);
    cr_assert_eq(f.result.tensors[5].rows, 1);
    run_job_reset(&f);

    j = make_job(&b, OPERATION_GRAPH_REMOVE_NODES);
    j.request.ids = numbers(asked, 2);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    expect_counts(&j, 0, 3, 0, 1, 1);
    expect_state(&j, 3, 1);
    close_bench(&b);
}

/* Of a node with thousands: by target's id, then by weight, -0 before +0. */
Test(op_graph, many_edges_come_sorted)
{
    enum { N = 9000 };
    struct bench b = open_bench();
    static uint64_t sources[N], targets[N];
    static float weights[N];
    unsigned seed = 3;
    for (int i = 0; i < N; i++) {
        sources[i] = (uint64_t)rand_r(&seed) % 3;
        targets[i] = (uint64_t)(rand_r(&seed) % 500) << 40 | 77;
        weights[i] = (float)(rand_r(&seed) % 9 - 4) / 4 * (rand_r(&seed) % 2 ? 1.0f : -1.0f);
    }
    struct job j = make_job(&b, OPERATION_GRAPH_ADD_EDGES);
    j.request.ids = numbers(sources, N);
    j.request.targets = numbers(targets, N);
    j.request.weights = floats(weights, N);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    j.operation = OPERATION_GRAPH_FETCH_NODES;
    static const uint64_t asked[] = {2, 0, 1, 0};
    j.request.ids = numbers(asked, 4);
    j.request.edges = true;
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    const uint64_t *offsets = j.result.tensors[5].data, *ids = j.result.tensors[6].data;
    const float *found = j.result.tensors[7].data;
    cr_assert_eq(offsets[3], N);
    for (int n = 0; n < 4; n++)
        for (uint64_t i = offsets[n] + 1; i < offsets[n + 1]; i++) {
            cr_assert_leq(ids[i - 1], ids[i]);
            if (ids[i - 1] != ids[i]) continue;
            cr_assert(found[i - 1] < found[i] ||
                      (found[i - 1] == found[i] && !(signbit(found[i]) && !signbit(found[i - 1]))));
        }
    run_job_reset(&j);
    close_bench(&b);
}

/* ---------------------------------------------------------------- refusals */

static void expect_refused(struct job *j, enum status code, enum detail detail, const char *words)
{
    uint64_t version = resident_version(j->resident);
    uint64_t nodes = graph_nodes(j->graph), edges = graph_edges(j->graph);
    cr_assert_eq(run_job(j, 1), code, "%s: %s", words, j->failure.text);
    cr_assert_eq(j->failure.detail, detail, "%s: %s", words, j->failure.text);
    cr_assert_not_null(strstr(j->failure.text, words), "%s: %s", words, j->failure.text);
    cr_assert_eq(graph_nodes(j->graph), nodes);
    cr_assert_eq(graph_edges(j->graph), edges);
    cr_assert_eq(resident_version(j->resident), version);
    run_job_reset(j);
}

Test(op_graph, bad_input_changes_nothing)
{
    struct bench b = open_bench();
    add_triangle(&b);
    uint64_t sources[] = {1, 5, 6}, targets[] = {2, 6, UINT64_MAX}, offsets[] = {0, 2, 1, 3};
    float weights[] = {1, 1, 1};
    uint8_t kinds[] = {0, 3, 0};
    struct job j = make_job(&b, OPERATION_GRAPH_ADD_EDGES);
    j.request.ids = numbers(sources, 3);
    j.request.targets = numbers(targets, 3);
    j.request.weights = floats(weights, 3);
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE, "2");
    targets[2] = 1;
    weights[1] = NAN;
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT, "1");
    weights[1] = -INFINITY;
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT, "1");
    weights[1] = 1;
    j.operation = OPERATION_GRAPH_ADD_CSR;
    j.request.offsets = numbers(offsets, 4);
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "2");
    offsets[2] = 2;
    offsets[3] = 4;
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "");
    offsets[3] = 3;
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE, "");
    j.operation = OPERATION_GRAPH_SET_NODES;
    j.request.kinds = (struct tensor){DTYPE_UINT8, 3, 1, kinds};
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE, "1");
    kinds[1] = 1;
    weights[2] = -1;
    j.request.factors = floats(weights, 3);
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE, "2");
    close_bench(&b);
}

Test(op_graph, over_quota_it_stays_as_it_was)
{
    enum { N = 200000 };
    struct bench b = open_bench();
    add_triangle(&b);
    cr_assert_eq(heap_quota(b.heap, b.space->number, 2 << 20), STATUS_OK);
    uint64_t *ids = malloc(N * sizeof *ids);
    float *weights = malloc(N * sizeof *weights);
    for (uint64_t i = 0; i < N; i++) {
        ids[i] = i;
        weights[i] = 1;
    }
    struct job j = make_job(&b, OPERATION_GRAPH_ADD_EDGES);
    j.request.ids = numbers(ids, N);
    j.request.targets = numbers(ids, N);
    j.request.weights = floats(weights, N);
    expect_refused(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUOTA, "quota");
    free(ids);
    free(weights);
    close_bench(&b);
}

Test(op_graph, a_drop_tells_what_went)
{
    struct bench b = open_bench();
    add_triangle(&b);
    struct job j = make_job(&b, OPERATION_GRAPH_DROP);
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert_eq(j.result.counts[0], 3);
    cr_assert_eq(j.result.counts[1], 4);
    cr_assert_eq(graph_nodes(graph_now(b.graph)), 0);
    close_bench(&b);
}
