#include "tests/support/graph_twin.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- both */

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % below);
}

uint32_t twin_draw(struct twin *t, uint32_t below)
{
    return draw(&t->seed, below);
}

static float draw_weight(uint64_t *seed)
{
    return (float)(draw(seed, 2000) + 1) / 2000.0f;
}

static void expect_ok(ea_client *c, ea_status status)
{
    cr_assert_eq(status, EA_OK, "%s", ea_error_text(c));
}

static void expect_same_counts(const ea_graph_counts *there, const struct graph_counts *here)
{
    cr_assert_eq(there->edges_added, here->edges_added);
    cr_assert_eq(there->edges_removed, here->edges_removed);
    cr_assert_eq(there->nodes_added, here->nodes_added);
    cr_assert_eq(there->nodes_removed, here->nodes_removed);
    cr_assert_eq(there->missing, here->missing);
}

void twin_make(struct twin *t, ea_client *c, const char *name, uint32_t nodes, uint64_t seed)
{
    *t = (struct twin){.name = name, .nodes = nodes, .seed = seed};
    cr_assert_eq(heap_create(UINT64_C(1) << 30, &t->heap), STATUS_OK);
    cr_assert_eq(store_create(t->heap, vectors_variant(0), &t->store), STATUS_OK);
    cr_assert_eq(store_space(t->store, "twin", &t->space), STATUS_OK);
    cr_assert_eq(store_graph_create(t->store, t->space, "g", NULL, &t->graph), STATUS_OK);
    expect_ok(c, ea_graph_create(c, name, NULL));
    t->ids = malloc(nodes * sizeof *t->ids);
    uint8_t *kinds = malloc(nodes);
    float *factors = malloc(nodes * sizeof *factors);
    for (uint32_t i = 0; i < nodes; i++) {
        t->ids[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 8;
        kinds[i] = (uint8_t)twin_draw(t, 3);
        factors[i] = twin_draw(t, 4) ? 1.0f : draw_weight(&t->seed) * 2;
    }
    struct graph_counts here;
    ea_graph_counts there;
    struct failure f;
    expect_ok(
        c, ea_graph_set_nodes(
               c, name,
               &(ea_graph_nodes){.ids = t->ids, .kinds = kinds, .factors = factors, .count = nodes},
               &there));
    cr_assert_eq(graph_set_nodes(t->graph, t->ids, kinds, factors, nodes, &here, &f), STATUS_OK);
    expect_same_counts(&there, &here);
    free(kinds);
    free(factors);
}

void twin_embed(struct twin *t, ea_client *c, uint32_t dimension)
{
    struct failure f;
    expect_ok(c, ea_collection_create(c, "embeddings", dimension, EA_SQUARED_EUCLIDEAN, NULL));
    cr_assert_eq(store_collection_create(t->store, t->space, "embeddings", dimension,
                                         METRIC_SQUARED_EUCLIDEAN, &f, &t->embeddings),
                 STATUS_OK);
}

void twin_set_rows(struct twin *t, ea_client *c, uint32_t first, uint32_t step, uint64_t seed)
{
    uint32_t dimension = collection_info(t->embeddings).dimension;
    uint64_t count = (t->nodes - first + step - 1) / step, *ids = malloc(count * sizeof *ids);
    float *rows = aligned_alloc(64, (count * dimension * sizeof *rows + 63) / 64 * 64);
    struct upsert_counts here;
    struct failure f;
    for (uint64_t i = 0; i < count; i++) {
        float lean = (float)draw(&seed, 5) - 2;
        ids[i] = t->ids[first + i * step];
        for (uint32_t k = 0; k < dimension; k++)
            rows[i * dimension + k] = draw_weight(&seed) - 0.5f + lean * 0.2f;
    }
    const ea_rows there = {.collection = "embeddings",
                           .ids = ids,
                           .rows = rows,
                           .count = count,
                           .dimension = dimension};
    expect_ok(c, ea_upsert(c, &there, NULL));
    cr_assert_eq(collection_upsert(t->embeddings, ids, rows, count, &here, &f), STATUS_OK);
    free(ids);
    free(rows);
}

void twin_drop(struct twin *t, ea_client *c)
{
    if (t->embeddings) expect_ok(c, ea_collection_drop(c, "embeddings"));
    expect_ok(c, ea_graph_drop(c, t->name));
    store_destroy(t->store);
    heap_destroy(t->heap);
    free(t->ids);
}

/* ---------------------------------------------------------------- changes */

struct edges {
    uint64_t *sources, *targets;
    float *weights;
};

static struct edges draw_edges(const struct twin *t, uint64_t count, uint64_t seed)
{
    struct edges e = {malloc((count + 1) * 8), malloc((count + 1) * 8), malloc((count + 1) * 4)};
    for (uint64_t i = 0; i < count; i++) {
        e.sources[i] = t->ids[draw(&seed, t->nodes)];
        e.targets[i] = t->ids[draw(&seed, draw(&seed, 4) ? t->nodes : t->nodes / 8 + 1)];
        e.weights[i] = draw_weight(&seed);
    }
    return e;
}

static void free_edges(struct edges *e)
{
    free(e->sources);
    free(e->targets);
    free(e->weights);
}

void twin_add_edges(struct twin *t, ea_client *c, uint64_t count, uint64_t seed, bool replace)
{
    struct edges e = draw_edges(t, count, seed);
    struct graph_counts here;
    ea_graph_counts there;
    struct failure f;
    expect_ok(c, ea_graph_add_edges(c, t->name,
                                    &(ea_graph_edges){.sources = e.sources,
                                                      .targets = e.targets,
                                                      .weights = e.weights,
                                                      .count = count,
                                                      .replace = replace},
                                    &there));
    cr_assert_eq(
        graph_add_edges(t->graph, e.sources, e.targets, e.weights, count, replace, &here, &f),
        STATUS_OK);
    expect_same_counts(&there, &here);
    cr_assert_eq(there.edges, graph_edges(graph_now(t->graph)));
    free_edges(&e);
}

void twin_remove_edges(struct twin *t, ea_client *c, uint64_t count, uint64_t seed)
{
    struct edges e = draw_edges(t, count, seed);
    struct graph_counts here;
    ea_graph_counts there;
    expect_ok(c, ea_graph_remove_edges(
                     c, t->name,
                     &(ea_graph_edges){.sources = e.sources, .targets = e.targets, .count = count},
                     &there));
    graph_remove_edges(t->graph, e.sources, e.targets, count, &here, NULL);
    expect_same_counts(&there, &here);
    free_edges(&e);
}

/* The last ones. */
void twin_remove_nodes(struct twin *t, ea_client *c, uint32_t count)
{
    struct graph_counts here;
    ea_graph_counts there;
    t->nodes -= count;
    expect_ok(c, ea_graph_remove_nodes(c, t->name, t->ids + t->nodes, count, &there));
    graph_remove_nodes(t->graph, t->ids + t->nodes, count, &here, NULL);
    expect_same_counts(&there, &here);
    cr_assert_eq(there.nodes, graph_nodes(graph_now(t->graph)));
}

/* ---------------------------------------------------------------- questions */

static void draw_sets(struct twin *t, struct twin_question *q)
{
    q->sets = 1 + twin_draw(t, twin_draw(t, 2) ? 3 : TWIN_SETS_MAX);
    for (uint64_t s = 0; s < q->sets; s++)
        q->offsets[s + 1] = q->offsets[s] + twin_draw(t, 9);
    q->seed_count = q->offsets[q->sets];
    for (uint64_t i = 0; i < q->seed_count; i++) {
        q->seeds[i] = t->ids[twin_draw(t, twin_draw(t, 2) ? 5 : t->nodes)];
        q->activations[i] = draw_weight(&t->seed) * 1.2f;
        q->within[i] = q->seeds[i];
    }
    q->has_activations = twin_draw(t, 2);
    if (!q->seed_count || twin_draw(t, 3)) return;
    for (q->within_count = q->seed_count; q->within_count < TWIN_SEEDS_MAX; q->within_count++)
        q->within[q->within_count] = t->ids[twin_draw(t, t->nodes)];
    q->filter = (ea_filter){.ids = q->within, .id_count = q->within_count};
    q->options.within = &q->filter;
}

void twin_ask_randomly(struct twin *t, struct twin_question *q, ea_spread_mode mode)
{
    memset(q, 0, sizeof *q);
    ea_spread_options *o = &q->options;
    o->mode = mode;
    o->hops = 1 + twin_draw(t, 5);
    o->decay = (ea_decay)twin_draw(t, 6);
    bool takes_one = o->decay >= EA_DECAY_EXPONENTIAL && o->decay <= EA_DECAY_LINEAR;
    o->decay_parameter = takes_one ? draw_weight(&t->seed) : 0;
    for (uint32_t d = 0; d < o->hops; d++)
        q->table[d] = draw_weight(&t->seed);
    if (o->decay == EA_DECAY_TABLE) o->decay_table = q->table;
    for (int i = 0; i < 3; i++)
        q->thresholds[i] = twin_draw(t, 4) ? draw_weight(&t->seed) * 0.1f : 0;
    if (twin_draw(t, 2)) o->threshold = &q->thresholds[0];
    if (twin_draw(t, 2)) o->threshold_warm = &q->thresholds[1];
    if (twin_draw(t, 2)) o->threshold_cold = &q->thresholds[2];
    o->paths = twin_draw(t, 2);
    o->last_hop = mode == EA_LINEAR && !o->paths && !twin_draw(t, 3);
    o->fan = mode == EA_ENGRAM ? (ea_fan)twin_draw(t, 3) : EA_FAN_NONE;
    o->ignore_kinds = mode == EA_ENGRAM && twin_draw(t, 2);
    o->touched_max = twin_draw(t, 3) ? 0 : 1 + twin_draw(t, t->nodes);
    o->k = twin_draw(t, 2) ? 0 : 1 + twin_draw(t, 40);
    draw_sets(t, q);
}

ea_status twin_spread(const struct twin *t, ea_client *c, const struct twin_question *q,
                      ea_spread_result *out)
{
    ea_spread_options options = q->options;
    return ea_spread(c, t->name, &options,
                     &(ea_seeds){.offsets = q->offsets,
                                 .sets = q->sets,
                                 .ids = q->seeds,
                                 .activations = q->has_activations ? q->activations : NULL,
                                 .count = q->seed_count},
                     out);
}

static float threshold_of(const float *given, float usual)
{
    return given ? *given : usual;
}

struct spread_case twin_case(const struct twin_question *q)
{
    const ea_spread_options *o = &q->options;
    return (struct spread_case){
        .how =
            {
                .mode = o->mode,
                .fan = o->fan,
                .decay = o->decay ? o->decay : DECAY_EXPONENTIAL,
                .decay_parameter = o->decay ? o->decay_parameter : 0.7f,
                .hops = o->hops ? o->hops : 4,
                .thresholds = {threshold_of(o->threshold, 0.01f),
                               threshold_of(o->threshold_warm, 0.05f),
                               threshold_of(o->threshold_cold, 0.1f)},
                .ignore_kinds = o->ignore_kinds,
                .last_hop = o->last_hop,
                .paths = o->paths,
                .touched_max = o->touched_max,
            },
        .table = q->table,
        .k = o->k,
        .sets = q->sets,
        .seed_count = q->seed_count,
        .within_count = q->within_count,
        .offsets = q->offsets,
        .seeds = q->seeds,
        .within = o->within ? q->within : NULL,
        .activations = q->has_activations ? q->activations : NULL,
    };
}

void twin_expect(struct twin *t, ea_client *c, const struct twin_question *q)
{
    ea_spread_result r = {0};
    expect_ok(c, twin_spread(t, c, q, &r));
    struct spread_case asked = twin_case(q);
    if (q->options.embeddings) asked.embeddings = collection_now(t->embeddings);
    cr_assert_eq(!r.embeddings_version, !q->options.embeddings);
    t->backend = r.meta->backend;
    t->reason = r.meta->reason;
    struct spread_reply reply = {
        .sets = r.sets,
        .count = r.count,
        .offsets = r.offsets,
        .ids = r.ids,
        .touched = r.touched,
        .cycles = r.cycles,
        .path_offsets = q->options.paths ? r.path_offsets : NULL,
        .path_ids = r.path_ids,
        .activations = r.activations,
        .confidences = r.confidences,
        .tier_sums = r.tier_sums,
        .visits = r.visits,
        .depths = r.depths,
        .truncated = r.truncated,
    };
    const char *wrong = spread_reply_wrong(t->graph, &asked, &reply);
    cr_assert_null(wrong, "%s", wrong);
    ea_spread_result_free(&r);
}

/* ---------------------------------------------------------------- nodes */

struct edge {
    uint64_t target;
    float weight;
};

static int by_target(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->target != y->target) return x->target > y->target ? 1 : -1;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

static void expect_edges(const struct spread_graph *g, uint32_t node, const ea_nodes *n,
                         uint64_t at)
{
    uint32_t count = spread_out_list(g, node)->count;
    struct edge *edges = malloc((count + 1) * sizeof *edges);
    for (uint32_t i = 0; i < count; i++) {
        const struct spread_edge *e = &g->out_edges[spread_out_list(g, node)->first + i];
        edges[i] = (struct edge){g->ids[e->node], e->weight};
    }
    qsort(edges, count, sizeof *edges, by_target);
    cr_assert_eq(n->offsets[at + 1] - n->offsets[at], count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(n->targets[n->offsets[at] + i], edges[i].target);
        cr_assert_eq(n->weights[n->offsets[at] + i], edges[i].weight);
    }
    free(edges);
}

void twin_expect_nodes(struct twin *t, ea_client *c)
{
    struct spread_graph g = graph_view(graph_now(t->graph));
    ea_nodes n = {0};
    expect_ok(c, ea_graph_fetch_nodes(c, t->name, t->ids, t->nodes, true, &n));
    cr_assert_eq(n.count, t->nodes);
    cr_assert_eq(n.missing, 0);
    for (uint32_t i = 0; i < t->nodes; i++) {
        uint32_t node = graph_find(graph_now(t->graph), t->ids[i]);
        cr_assert(n.found[i] == 1);
        cr_assert_eq(n.kinds[i], g.kinds ? g.kinds[node] : 0);
        cr_assert_eq(n.factors[i], g.factors ? g.factors[node] : 1.0f);
        cr_assert_eq(n.out_counts[i], spread_out_list(&g, node)->count);
        cr_assert_eq(n.in_counts[i], spread_in_list(&g, node)->count);
        expect_edges(&g, node, &n, i);
    }
    ea_nodes_free(&n);
}
