/* Weights of edges through the socket: increments of many threads are all there and exact, and what
 * cannot be done is named and changes nothing. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/sets.h"

enum { THREADS = 8, INCREMENTS = 200, EDGES = 5 };

static const uint64_t sources[EDGES] = {1, 1, 2, 3, 3}, targets[EDGES] = {2, 3, 3, 1, 3};
static const float steps[EDGES] = {0.0078125f, 0.25f, 1, -0.5f, 3};

static const ea_graph_edges step = {
    .sources = sources, .targets = targets, .weights = steps, .count = EDGES, .create = true};

struct thread {
    pthread_t thread;
    const struct scene *scene;
    uint64_t applied, wrong;
    bool seen[THREADS * INCREMENTS + 1]; /* which sums of edge 2, whose step is 1, it was told */
};

static void *strengthen(void *argument)
{
    struct thread *t = argument;
    ea_client *c = scene_client(t->scene, "weights");
    for (int i = 0; i < INCREMENTS; i++) {
        float sums[EDGES];
        if (ea_graph_add_weights(c, "links", &step, sums, NULL) != EA_OK) continue;
        t->applied++;
        t->wrong += !(sums[2] >= 1 && sums[2] <= THREADS * INCREMENTS);
        if (!t->wrong) t->seen[(size_t)sums[2]] = true;
        for (int e = 0; e < EDGES; e++)
            t->wrong += sums[e] != steps[e] * sums[2];
    }
    ea_close(c);
    return NULL;
}

/* All steps are sums of powers of two, so that their sums are exact in float32, in any order. */
Test(weights, increments_of_eight_threads_are_all_there)
{
    static struct thread threads[THREADS];
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "weights");
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK, "%s", ea_error_text(c));
    for (int i = 0; i < THREADS; i++) {
        threads[i].scene = &s;
        cr_assert_eq(pthread_create(&threads[i].thread, NULL, strengthen, &threads[i]), 0);
    }
    uint64_t applied = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        applied += threads[i].applied;
        cr_assert_eq(threads[i].wrong, 0);
    }
    cr_assert_eq(applied, THREADS * INCREMENTS);
    for (int sum = 1; sum <= THREADS * INCREMENTS; sum++) {
        int told = 0;
        for (int i = 0; i < THREADS; i++)
            told += threads[i].seen[sum];
        cr_assert_eq(told, 1, "%d threads were told that the sum is %d", told, sum);
    }
    ea_nodes nodes = {0};
    const uint64_t ids[] = {1, 2, 3};
    cr_assert_eq(ea_graph_fetch_nodes(c, "links", ids, 3, true, &nodes), EA_OK);
    cr_assert_eq(nodes.offsets[3], EDGES);
    for (int e = 0; e < EDGES; e++)
        cr_assert_eq(nodes.weights[e], steps[e] * THREADS * INCREMENTS, "edge %d: %.9g", e,
                     (double)nodes.weights[e]);
    ea_nodes_free(&nodes);
    cr_assert_eq(ea_graph_drop(c, "links"), EA_OK);
    ea_close(c);
    scene_close(&s);
}

static void expect_refused(ea_client *c, const ea_graph_edges *edges, ea_status wanted,
                           uint32_t detail, const char *words)
{
    float sums[4];
    ea_graph_info before, now;
    cr_assert_eq(ea_graph_describe(c, "links", &before), EA_OK);
    ea_status st = ea_graph_add_weights(c, "links", edges, sums, NULL);
    cr_assert_eq(st, wanted, "%s: %s", words, ea_error_text(c));
    cr_assert_eq(ea_error_detail(c), detail, "%s", ea_error_text(c));
    cr_assert_not_null(strstr(ea_error_text(c), words), "%s: %s", words, ea_error_text(c));
    cr_assert_eq(ea_graph_describe(c, "links", &now), EA_OK);
    cr_assert(now.version == before.version && now.edges == before.edges &&
              now.nodes == before.nodes);
}

Test(weights, bad_input_is_named_and_changes_nothing)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "weights");
    const uint64_t from[] = {1, 1, 2, 2}, to[] = {2, 3, 3, 3};
    float weights[] = {1, 2, 3, 4}, low = 2, high = 1, none = NAN;
    ea_graph_counts counts;
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK);
    ea_graph_edges e = {.sources = from, .targets = to, .weights = weights, .count = 4};
    cr_assert_eq(ea_graph_add_edges(c, "links", &e, &counts), EA_OK);

    expect_refused(c, &e, EA_FAILED_PRECONDITION, EA_DETAIL_SEVERAL_EDGES, "edge 2");
    e.create = true;
    expect_refused(c, &e, EA_FAILED_PRECONDITION, EA_DETAIL_SEVERAL_EDGES, "from node 2 to node 3");
    e.create = false;
    const uint64_t nowhere[] = {2, 9};
    e.targets = nowhere;
    e.count = 2;
    expect_refused(c, &e, EA_NOT_FOUND, EA_DETAIL_UNKNOWN_EDGE, "edge 1");
    e.targets = to;
    weights[1] = INFINITY;
    expect_refused(c, &e, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_WEIGHT, "edge 1");
    weights[1] = 2;
    e.low = &low;
    e.high = &high;
    expect_refused(c, &e, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_WEIGHT, "low");
    e.high = &none;
    expect_refused(c, &e, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_WEIGHT, "high");
    e.high = NULL;
    float sums[2];
    cr_assert_eq(ea_graph_add_weights(c, "links", &e, sums, &counts), EA_OK, "%s",
                 ea_error_text(c));
    cr_assert(sums[0] == 2 && sums[1] == 4 && counts.edges == 4 && counts.edges_added == 0);
    e.count = 0;
    uint64_t version = counts.version;
    cr_assert_eq(ea_graph_add_weights(c, "links", &e, NULL, &counts), EA_OK);
    cr_assert_eq(counts.version, version);
    ea_close(c);
    scene_close(&s);
}

Test(weights, all_edges_are_scaled_and_pruned)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "weights");
    const uint64_t from[] = {1, 1, 2, 3}, to[] = {2, 3, 3, 1};
    const float weights[] = {0.3f, -1, 3e38f, 0.25f};
    ea_graph_counts counts;
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK);
    ea_graph_edges e = {.sources = from, .targets = to, .weights = weights, .count = 4};
    cr_assert_eq(ea_graph_add_edges(c, "links", &e, &counts), EA_OK);
    uint64_t version = counts.version;
    const struct {
        float factor;
        const char *words;
    } bad[] = {{-0.5f, "factor: -0.5"}, {NAN, "factor"}, {INFINITY, "factor"}, {2, "from node 2"}};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(ea_graph_scale(c, "links", bad[i].factor, &counts), EA_INVALID_ARGUMENT);
        cr_assert_eq(ea_error_detail(c), EA_DETAIL_BAD_WEIGHT);
        cr_assert_not_null(strstr(ea_error_text(c), bad[i].words), "%s", ea_error_text(c));
    }
    cr_assert_eq(ea_graph_prune(c, "links", NAN, &counts), EA_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(ea_error_text(c), "below"), "%s", ea_error_text(c));

    cr_assert_eq(ea_graph_scale(c, "links", 0.1f, &counts), EA_OK, "%s", ea_error_text(c));
    cr_assert(counts.version > version && counts.edges == 4);
    ea_nodes nodes = {0};
    const uint64_t ids[] = {1, 2, 3};
    cr_assert_eq(ea_graph_fetch_nodes(c, "links", ids, 3, true, &nodes), EA_OK);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(nodes.weights[i], weights[i] * 0.1f);
    ea_nodes_free(&nodes);
    cr_assert_eq(ea_graph_prune(c, "links", 0.3f * 0.1f, &counts), EA_OK, "%s", ea_error_text(c));
    cr_assert(counts.edges_removed == 2 && counts.edges == 2 && counts.nodes == 3);
    version = counts.version;
    cr_assert_eq(ea_graph_prune(c, "links", 0, &counts), EA_OK);
    cr_assert(counts.edges_removed == 0 && counts.version == version);
    ea_close(c);
    scene_close(&s);
}
