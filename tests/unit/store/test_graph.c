/* Graphs against a naive model: thousands of random changes. */
#include "daemon/store/graph.h"

#include <criterion/criterion.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/graph_house.h"
#include "tests/support/graph_model.h"
#include "tests/support/sweep.h"

/* ---- random changes ---- */

/* A batch of edges between nodes [0, range), some of them hubs. */
enum { BATCH_MAX = 3000 };
struct batch {
    uint64_t sources[BATCH_MAX], targets[BATCH_MAX], n;
    float weights[BATCH_MAX];
};

static uint64_t draw_node(uint64_t range, unsigned *seed)
{
    uint64_t node = (uint64_t)rand_r(seed) % range;
    if (rand_r(seed) % 3 == 0) node %= 3;
    return node * UINT64_C(0x9e3779b97f4a7c15);
}

static void draw_batch(struct batch *b, uint64_t n, uint64_t range, unsigned *seed)
{
    b->n = n;
    for (uint64_t i = 0; i < n; i++) {
        b->sources[i] = draw_node(range, seed);
        b->targets[i] = draw_node(range, seed);
        b->weights[i] = (float)(rand_r(seed) % 201 - 100) / 64.0f;
        if (i && rand_r(seed) % 8 == 0) { /* the same pair again */
            uint64_t j = (uint64_t)rand_r(seed) % i;
            b->sources[i] = b->sources[j];
            b->targets[i] = b->targets[j];
        }
    }
}

static void add_step(struct graph_model *m, struct graph *g, struct batch *b, unsigned *seed)
{
    bool replace = rand_r(seed) % 2;
    struct graph_counts expected = model_add(m, b->sources, b->targets, b->weights, b->n, replace);
    struct graph_counts counts = {.missing = 77};
    cr_assert_eq(
        graph_add_edges(g, b->sources, b->targets, b->weights, b->n, replace, &counts, NULL),
        STATUS_OK);
    cr_assert(counts_equal(counts, expected));
}

static void refused_step(struct graph *g, struct batch *b, unsigned *seed)
{
    struct graph_counts counts;
    struct failure f = {0};
    uint64_t i = (uint64_t)rand_r(seed) % b->n;
    bool weight = rand_r(seed) % 2;
    if (weight)
        b->weights[i] = rand_r(seed) % 2 ? NAN : -INFINITY;
    else
        *(rand_r(seed) % 2 ? &b->sources[i] : &b->targets[i]) = UINT64_MAX;
    cr_assert_eq(graph_add_edges(g, b->sources, b->targets, b->weights, b->n, false, &counts, &f),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(f.detail, weight ? DETAIL_BAD_WEIGHT : DETAIL_BAD_NODE);
}

/* Half of the pairs are those of edges that are there. */
static void weights_step(struct graph_model *m, struct graph *g, struct batch *b, unsigned *seed)
{
    static float sums[BATCH_MAX], expected_sums[BATCH_MAX];
    for (uint64_t i = 0; i < b->n && m->edge_count; i++) {
        if (rand_r(seed) % 8 == 0) continue;
        const struct model_edge *edge = &m->edges[(uint64_t)rand_r(seed) % m->edge_count];
        b->sources[i] = edge->source;
        b->targets[i] = edge->target;
    }
    if (rand_r(seed) % 2 && b->n > 3) b->n = 3; /* so that it is sometimes refused by none */
    const struct graph_deltas d = {
        .sources = b->sources,
        .targets = b->targets,
        .deltas = b->weights,
        .n = b->n,
        .low = rand_r(seed) % 2 ? -0.75f : -FLT_MAX,
        .high = rand_r(seed) % 2 ? 1.5f : FLT_MAX,
        .create = rand_r(seed) % 2,
    };
    struct graph_counts counts, expected = {0};
    struct failure f = {0};
    uint64_t bad;
    char text[40];
    enum status wanted = model_add_weights(m, &d, expected_sums, &expected, &bad);
    cr_assert_eq(graph_add_weights(g, &d, sums, &counts, &f), wanted, "%s", f.text);
    snprintf(text, sizeof text, "edge %llu: ", (unsigned long long)bad);
    if (wanted) {
        cr_assert_eq(strncmp(f.text, text, strlen(text)), 0, "%s: %s", text, f.text);
        return;
    }
    cr_assert(counts_equal(counts, expected));
    cr_assert_arr_eq(sums, expected_sums, b->n * sizeof *sums);
}

static void scale_step(struct graph_model *m, struct graph *g, unsigned *seed)
{
    static const float factors[] = {1, 0.5f, 0.9f, 1.1f, 3, 1e30f, 1e-30f, FLT_MAX, 0};
    size_t choice = (size_t)rand_r(seed) % (rand_r(seed) % 4 ? 4 : 9);
    struct failure f = {0};
    cr_assert_eq(graph_scale(g, factors[choice], &f), model_scale(m, factors[choice]), "%s",
                 f.text);
}

static void prune_step(struct graph_model *m, struct graph *g, unsigned *seed)
{
    static const float bounds[] = {-1.5f, -1.25f, -1, 0, -FLT_MAX, 0.1f};
    float below = bounds[(size_t)rand_r(seed) % (rand_r(seed) % 8 ? 2 : 6)];
    struct graph_counts expected = model_prune(m, below), counts = {.missing = 77};
    graph_prune(g, below, &counts);
    cr_assert(counts_equal(counts, expected));
}

static void remove_step(struct graph_model *m, struct graph *g, struct batch *b, unsigned *seed)
{
    for (uint64_t i = 0; i < b->n && m->edge_count; i++) {
        if (rand_r(seed) % 2) continue;
        const struct model_edge *edge = &m->edges[(uint64_t)rand_r(seed) % m->edge_count];
        b->sources[i] = edge->source;
        b->targets[i] = edge->target;
    }
    struct graph_counts expected = model_remove(m, b->sources, b->targets, b->n), counts;
    graph_remove_edges(g, b->sources, b->targets, b->n, &counts);
    cr_assert(counts_equal(counts, expected));
}

static void set_step(struct graph_model *m, struct graph *g, uint64_t range, unsigned *seed)
{
    uint64_t ids[64], n = 0;
    uint8_t kinds[64];
    float factors[64];
    for (uint64_t i = 0, most = 1 + (uint64_t)rand_r(seed) % 64; i < most; i++) {
        uint64_t id = draw_node(range, seed), before = 0;
        while (before < n && ids[before] != id)
            before++;
        if (before < n) continue;
        ids[n] = id;
        kinds[n] = (uint8_t)(rand_r(seed) % 3);
        factors[n++] = (float)(rand_r(seed) % 300) / 100;
    }
    struct graph_counts counts, expected;
    struct failure f = {0};
    if (rand_r(seed) % 4 == 0 && n > 1) { /* one twice: nothing happens */
        ids[n - 1] = ids[0];
        cr_assert_eq(graph_set_nodes(g, ids, kinds, factors, n, &counts, &f),
                     STATUS_INVALID_ARGUMENT);
        cr_assert_eq(f.detail, DETAIL_BAD_NODE);
        return;
    }
    const uint8_t *some_kinds = rand_r(seed) % 2 ? kinds : NULL;
    const float *some_factors = rand_r(seed) % 2 ? factors : NULL;
    expected = model_set(m, ids, some_kinds, some_factors, n);
    cr_assert_eq(graph_set_nodes(g, ids, some_kinds, some_factors, n, &counts, NULL), STATUS_OK);
    cr_assert(counts_equal(counts, expected));
}

static void remove_nodes_step(struct graph_model *m, struct graph *g, struct batch *b,
                              unsigned *seed)
{
    if (rand_r(seed) % 40 == 0) { /* all of them, one by one twice */
        b->n = 0;
        for (uint64_t i = 0; i < m->node_count && i < BATCH_MAX; i++)
            b->sources[b->n++] = m->nodes[i].id;
    }
    struct graph_counts expected = model_remove_nodes(m, b->sources, b->n), counts;
    graph_remove_nodes(g, b->sources, b->n, &counts);
    cr_assert(counts_equal(counts, expected));
}

static void random_step(struct graph_model *m, struct graph *g, struct batch *b, uint64_t range,
                        unsigned *seed)
{
    unsigned choice = (unsigned)rand_r(seed) % 16;
    uint64_t most = choice == 0 ? BATCH_MAX : choice < 6 ? 4 : range;
    if (most > BATCH_MAX) most = BATCH_MAX;
    if (m->edge_count > 12000) most = 40;
    draw_batch(b, 1 + (uint64_t)rand_r(seed) % most, range, seed);
    switch (rand_r(seed) % 12) {
    case 0: refused_step(g, b, seed); break;
    case 10: scale_step(m, g, seed); break;
    case 11: prune_step(m, g, seed); break;
    case 8:
    case 9: weights_step(m, g, b, seed); break;
    case 1:
    case 2: remove_step(m, g, b, seed); break;
    case 3: set_step(m, g, range, seed); break;
    case 4:
        if (b->n > range / 4 + 1) b->n = range / 4 + 1;
        remove_nodes_step(m, g, b, seed);
        break;
    default: add_step(m, g, b, seed);
    }
}

Test(graph, agrees_with_a_naive_model, .timeout = 900)
{
    static struct graph_model m;
    static struct batch b;
    const uint64_t ranges[] = {2, 9, 60, 700, 3000, 6500};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        for (unsigned first = 1; first <= 4; first += sweep_stride(3)) {
            struct house h = open_house(256 * MIB);
            struct graph *g = h.graph;
            m = (struct graph_model){0};
            struct graph_shadow shadow = {0};
            unsigned seed = first * 1000 + (unsigned)ranges[i];
            for (int step = 0; step < 400; step += (int)sweep_stride(10)) {
                random_step(&m, g, &b, ranges[i], &seed);
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
        cr_assert_eq(graph_find(h.graph, 7), SPREAD_NO_NODE);
    }
    float sum;
    cr_assert_eq(weigh(h.graph, 2, 1, 0, -9, 9, &sum), STATUS_OK);
    cr_assert_eq(sum, 3);
    close_house(&h);
}
