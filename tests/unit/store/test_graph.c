/* Graphs against a naive model: thousands of random changes. */
#include "daemon/store/graph.h"

#include <criterion/criterion.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/graph_house.h"
#include "tests/support/graph_model.h"
#include "tests/support/graph_steps.h"
#include "tests/support/sweep.h"

Test(graph, agrees_with_a_naive_model, .timeout = 900)
{
    static struct graph_model m;
    static struct step_batch b;
    const uint64_t ranges[] = {2, 9, 60, 700, 3000, 6500};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        for (unsigned first = 1; first <= 4; first += sweep_stride(3)) {
            struct house h = open_house(256 * MIB);
            struct graph *g = h.graph;
            m = (struct graph_model){0};
            struct graph_shadow shadow = {0};
            unsigned seed = first * 1000 + (unsigned)ranges[i];
            for (int step = 0; step < 400; step += (int)sweep_stride(10)) {
                graph_step(&m, g, &b, ranges[i], &seed);
                if (step % 3 == 0 || m.edge_count < 200) {
                    model_check(&m, g);
                    uint64_t bounds[] = {0, 65536, 150000, 1 << 20};
                    shadow_follow(&shadow, g, bounds[rand_r(&seed) % 4]);
                }
            }
            model_check(&m, g);
            shadow_follow(&shadow, g, 0);
            shadow_finish(&shadow);
            graph_clear(g);
            cr_assert_eq(heap_usage(h.heap).blocks, 0);
            close_house(&h);
        }
    }
}

/* ---- weights ---- */

static enum status weigh(struct graph *g, uint64_t source, uint64_t target, float delta, float low,
                         float high, float *sum)
{
    const struct graph_deltas d = {&source, &target, &delta, 1, low, high, false};
    struct graph_counts counts;
    struct failure f = {0};
    return graph_add_weights(g, &d, sum, &counts, &f);
}

Test(graph, weights_are_added_to_in_float32_and_then_clamped)
{
    struct house h = open_house(64 * MIB);
    const uint64_t sources[] = {1, 1, 1}, targets[] = {2, 2, 3};
    const float deltas[] = {0.1f, 0.2f, -5};
    float sums[3], sum;
    struct graph_counts counts;
    struct failure f = {0};
    struct graph_deltas d = {sources, targets, deltas, 3, -1, 1, true};
    cr_assert_eq(graph_add_weights(h.graph, &d, sums, &counts, &f), STATUS_OK, "%s", f.text);
    cr_assert(counts.edges_added == 2 && counts.nodes_added == 3);
    cr_assert(sums[0] == 0.1f && sums[1] == 0.1f + 0.2f && sums[2] == -1);
    /* 2^24 + 1 is a tie, which goes to the even neighbour. */
    cr_assert_eq(weigh(h.graph, 1, 2, -sums[1], -FLT_MAX, FLT_MAX, &sum), STATUS_OK);
    cr_assert_eq(sum, 0);
    cr_assert_eq(weigh(h.graph, 1, 2, 16777216, -FLT_MAX, FLT_MAX, &sum), STATUS_OK);
    cr_assert_eq(weigh(h.graph, 1, 2, 1, -FLT_MAX, FLT_MAX, &sum), STATUS_OK);
    cr_assert_eq(sum, 16777216);
    /* A sum beyond float32 stays finite. */
    cr_assert_eq(weigh(h.graph, 1, 2, FLT_MAX, -FLT_MAX, FLT_MAX, &sum), STATUS_OK);
    cr_assert_eq(weigh(h.graph, 1, 2, FLT_MAX, -FLT_MAX, FLT_MAX, &sum), STATUS_OK);
    cr_assert_eq(sum, FLT_MAX);
    /* What the weight was does not count, only what it becomes. */
    cr_assert_eq(weigh(h.graph, 1, 2, 0, -1, 0.5f, &sum), STATUS_OK);
    cr_assert_eq(sum, 0.5f);
    close_house(&h);
}

Test(graph, refused_weights_change_nothing)
{
    struct house h = open_house(64 * MIB);
    const uint64_t sources[] = {1, 1, 2}, targets[] = {2, 2, 1};
    const float weights[] = {1, 2, 3};
    struct graph_counts counts;
    struct failure f = {0};
    cr_assert_eq(graph_add_edges(h.graph, sources, targets, weights, 3, false, &counts, &f),
                 STATUS_OK);
    uint64_t version = graph_info(h.graph).version;
    const struct {
        uint64_t source, target;
        float delta;
        bool create;
        enum status st;
        enum detail detail;
    } cases[] = {
        {1, 2, 1, true, STATUS_FAILED_PRECONDITION, DETAIL_SEVERAL_EDGES},
        {1, 1, 1, false, STATUS_NOT_FOUND, DETAIL_UNKNOWN_EDGE},
        {9, 1, 1, false, STATUS_NOT_FOUND, DETAIL_UNKNOWN_EDGE},
        {1, 9, 1, false, STATUS_NOT_FOUND, DETAIL_UNKNOWN_EDGE},
        {2, 1, NAN, true, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT},
        {2, 1, -INFINITY, false, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT},
        {UINT64_MAX, 1, 1, true, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE},
        {1, UINT64_MAX, 1, true, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* a new edge, one that is there, and the bad one */
        const uint64_t from[] = {7, 2, cases[i].source}, to[] = {8, 1, cases[i].target};
        const float deltas[] = {1, 1, cases[i].delta};
        float sums[3];
        bool create = cases[i].create;
        struct graph_deltas d = {from + !create, to + !create, deltas + !create, 2 + create, -9, 9,
                                 create};
        cr_assert_eq(graph_add_weights(h.graph, &d, sums, &counts, &f), cases[i].st, "case %zu", i);
        cr_assert_eq(f.detail, cases[i].detail);
        cr_assert_not_null(strstr(f.text, create ? "edge 2" : "edge 1"), "%s", f.text);
        struct graph_info now = graph_info(h.graph);
        cr_assert(now.version == version && now.nodes == 2 && now.edges == 3);
        cr_assert_eq(graph_find(graph_now(h.graph), 7), SPREAD_NO_NODE);
    }
    float sum;
    cr_assert_eq(weigh(h.graph, 2, 1, 0, -9, 9, &sum), STATUS_OK);
    cr_assert_eq(sum, 3);
    close_house(&h);
}
