#include "tests/support/graph_steps.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t draw_node(uint64_t range, unsigned *seed)
{
    uint64_t node = (uint64_t)rand_r(seed) % range;
    if (rand_r(seed) % 3 == 0) node %= 3;
    return node * UINT64_C(0x9e3779b97f4a7c15);
}

static void draw_batch(struct step_batch *b, uint64_t n, uint64_t range, unsigned *seed)
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

static void add_step(struct graph_model *m, struct graph *g, struct step_batch *b, unsigned *seed)
{
    bool replace = rand_r(seed) % 2, counted = !replace && b->n % 2;
    uint64_t doubled = counted ? model_count_doubled(m, b->sources, b->targets, b->n) : 0;
    struct graph_counts expected = model_add(m, b->sources, b->targets, b->weights, b->n, replace);
    struct graph_counts counts = {.missing = 77};
    expected.edges_doubled = doubled;
    enum status st =
        counted
            ? graph_add_counted(g, b->sources, b->targets, b->weights, b->n, &counts, NULL)
            : graph_add_edges(g, b->sources, b->targets, b->weights, b->n, replace, &counts, NULL);
    cr_assert_eq(st, STATUS_OK);
    cr_assert(counts_equal(counts, expected));
}

static void refused_step(struct graph *g, struct step_batch *b, unsigned *seed)
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
static void weights_step(struct graph_model *m, struct graph *g, struct step_batch *b,
                         unsigned *seed)
{
    static float sums[STEP_EDGES_MAX], expected_sums[STEP_EDGES_MAX];
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
    graph_prune(g, below, &counts, NULL);
    cr_assert(counts_equal(counts, expected));
}

static void remove_step(struct graph_model *m, struct graph *g, struct step_batch *b,
                        unsigned *seed)
{
    for (uint64_t i = 0; i < b->n && m->edge_count; i++) {
        if (rand_r(seed) % 2) continue;
        const struct model_edge *edge = &m->edges[(uint64_t)rand_r(seed) % m->edge_count];
        b->sources[i] = edge->source;
        b->targets[i] = edge->target;
    }
    struct graph_counts expected = model_remove(m, b->sources, b->targets, b->n), counts;
    graph_remove_edges(g, b->sources, b->targets, b->n, &counts, NULL);
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

static void remove_nodes_step(struct graph_model *m, struct graph *g, struct step_batch *b,
                              unsigned *seed)
{
    if (rand_r(seed) % 40 == 0) { /* all of them, one by one twice */
        b->n = 0;
        for (uint64_t i = 0; i < m->node_count && i < STEP_EDGES_MAX; i++)
            b->sources[b->n++] = m->nodes[i].id;
    }
    struct graph_counts expected = model_remove_nodes(m, b->sources, b->n), counts;
    graph_remove_nodes(g, b->sources, b->n, &counts, NULL);
    cr_assert(counts_equal(counts, expected));
}

void graph_step(struct graph_model *m, struct graph *g, struct step_batch *b, uint64_t range,
                unsigned *seed)
{
    unsigned choice = (unsigned)rand_r(seed) % 16;
    uint64_t most = choice == 0 ? STEP_EDGES_MAX : choice < 6 ? 4 : range;
    if (most > STEP_EDGES_MAX) most = STEP_EDGES_MAX;
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
