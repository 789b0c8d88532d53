/* How nodes are numbered when a graph is laid out, and that nothing but their numbers changes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "tests/support/graph_house.h"
#include "tests/support/graph_model.h"
#include "tests/support/spread_graphs.h"
#include "tests/support/sweep.h"

enum { NODES = 3 * SPREAD_WINDOW + 700, EDGES = 30000 };

/* Few sources have most of the edges, up to thousands. */
static struct edges draw(uint64_t n, uint64_t nodes, unsigned seed)
{
    struct edges e = draw_edges(n, nodes, seed);
    uint64_t *sources = e.targets;
    e.targets = e.sources;
    e.sources = sources;
    for (uint64_t i = 0; i < n; i++) {
        e.sources[i] = (nodes - 1 - e.sources[i]) * 7 + 1;
        e.targets[i] = e.targets[i] * 7 + 1;
    }
    return e;
}

/* ---- what must be true ---- */

static uint32_t bits_of(uint32_t degree)
{
    uint32_t bits = 0;
    for (; degree; degree /= 2)
        bits++;
    return bits;
}

/* Always: ids and numbers go together, edges lead to somebody, windows have their own numbers. */
static void check_whole(const struct graph *g)
{
    struct spread_graph v = graph_view(graph_now(g));
    uint64_t edges[2] = {0}, somebody = 0;
    for (uint32_t i = 0; i < v.nodes; i++) {
        if (v.ids[i] == UINT64_MAX) {
            cr_assert(spread_out_list(&v, i)->count == 0 && spread_in_list(&v, i)->count == 0);
            continue;
        }
        somebody++;
        cr_assert_eq(graph_find(graph_now(g), v.ids[i]), i);
        for (uint32_t e = 0; e < spread_out_list(&v, i)->count; e++)
            cr_assert_neq(v.ids[v.out_edges[spread_out_list(&v, i)->first + e].node], UINT64_MAX);
        for (uint32_t e = 0; e < spread_in_list(&v, i)->count; e++)
            cr_assert_neq(v.ids[v.in_edges[spread_in_list(&v, i)->first + e].node], UINT64_MAX);
        edges[0] += spread_out_list(&v, i)->count;
        edges[1] += spread_in_list(&v, i)->count;
    }
    cr_assert(edges[0] == graph_edges(graph_now(g)) && edges[1] == graph_edges(graph_now(g)));
    cr_assert_eq(somebody, graph_nodes(graph_now(g)));
    model_check_order(&v);
}

/* After a layout: classes of out-degrees fall, nobody's come last; in a window in-degrees fall. */
static void check_numbered(const struct graph *g)
{
    struct spread_graph v = graph_view(graph_now(g));
    check_whole(g);
    for (uint32_t i = 1; i < v.nodes; i++) {
        if (v.ids[i] != UINT64_MAX) cr_assert_neq(v.ids[i - 1], UINT64_MAX);
        cr_assert(bits_of(spread_out_list(&v, i)->count) <=
                  bits_of(spread_out_list(&v, i - 1)->count));
        if (i % SPREAD_WINDOW == 0) continue;
        uint32_t node = v.order[i], before = v.order[i - 1];
        cr_assert(spread_in_list(&v, before)->count > spread_in_list(&v, node)->count ||
                  (spread_in_list(&v, before)->count == spread_in_list(&v, node)->count &&
                   before < node));
    }
}

/* Ids by number, as they are. */
struct numbering {
    uint64_t *ids;
    uint32_t count;
};

static struct numbering remember(const struct graph *g)
{
    struct spread_graph v = graph_view(graph_now(g));
    struct numbering before = {malloc((v.nodes + 1) * sizeof *v.ids), v.nodes};
    if (v.nodes) memcpy(before.ids, v.ids, v.nodes * sizeof *v.ids);
    return before;
}

/* Of one class who was first is first. */
static void check_stable(const struct graph *g, const struct numbering *before)
{
    struct spread_graph v = graph_view(graph_now(g));
    uint32_t last[33] = {0};
    for (uint32_t i = 0; i < before->count; i++) {
        uint32_t now = before->ids[i] == UINT64_MAX ? SPREAD_NO_NODE
                                                    : graph_find(graph_now(g), before->ids[i]);
        if (now == SPREAD_NO_NODE) continue;
        uint32_t *of_class = &last[bits_of(spread_out_list(&v, now)->count)];
        cr_assert(now >= *of_class);
        *of_class = now + 1;
    }
}

/* ---- a load ---- */

/* Out of ids as they come, sources before targets, each class in that order. */
Test(graph_numbers, a_load_is_numbered_in_classes_of_out_degrees)
{
    struct house h = open_house(256 * MIB);
    struct edges e = draw(EDGES, NODES, 1);
    uint64_t *ids = calloc(NODES, sizeof *ids);
    uint32_t *degrees = calloc(NODES, sizeof *degrees), count = 0;
    bool *seen = calloc(NODES, sizeof *seen);
    for (uint64_t i = 0; i < 2 * e.n; i++) {
        uint64_t id = i < e.n ? e.sources[i] : e.targets[i - e.n];
        if (!seen[id / 7]) ids[count++] = id;
        seen[id / 7] = true;
        degrees[id / 7] += i < e.n;
    }
    add_edges(h.graph, &e, false);
    check_numbered(h.graph);
    struct spread_graph v = graph_view(graph_now(h.graph));
    cr_assert(v.nodes == count && count > SPREAD_WINDOW * 2);
    cr_assert_gt(spread_out_list(&v, 0)->count, 1000);
    uint32_t at = 0;
    for (int bits = 32; bits >= 0; bits--)
        for (uint32_t i = 0; i < count; i++)
            if (bits_of(degrees[ids[i] / 7]) == (uint32_t)bits) cr_assert_eq(v.ids[at++], ids[i]);
    cr_assert_eq(at, count);
    free(seen);
    free(degrees);
    free(ids);
    free_edges(&e);
    close_house(&h);
}

/* Kinds, factors and edges, told to a copy; through all roads that number anew. */
Test(graph_numbers, what_a_node_has_goes_with_it)
{
    enum { SOME = 6500, SET = 500, LOADS = 4 };
    static struct graph_model m;
    m = (struct graph_model){0};
    struct house h = open_house(256 * MIB);
    struct graph_shadow shadow = {0};
    struct graph_counts counts;
    for (unsigned load = 0; load < LOADS; load++) {
        struct edges e = draw(2500u << load, SOME, load + 1);
        uint64_t ids[SET];
        uint8_t kinds[SET];
        float factors[SET];
        for (uint64_t i = 0; i < SET; i++) {
            ids[i] = (i * 13 + load) % SOME * 7 + 1;
            kinds[i] = (uint8_t)((i + load) % 3);
            factors[i] = (float)i / 128;
        }
        model_set(&m, ids, kinds, factors, SET);
        cr_assert_eq(graph_set_nodes(h.graph, ids, kinds, factors, SET, &counts, NULL), STATUS_OK);
        struct numbering before = remember(h.graph);
        bool replace = load == LOADS - 1;
        model_add(&m, e.sources, e.targets, e.weights, e.n, replace);
        add_edges(h.graph, &e, replace);
        check_numbered(h.graph);
        check_stable(h.graph, &before);
        free(before.ids);
        model_check(&m, h.graph);
        shadow_follow(&shadow, h.graph, 0);
        model_remove_nodes(&m, ids + 200, 300); /* numbers that are nobody's at the next */
        graph_remove_nodes(h.graph, ids + 200, 300, &counts, NULL);
        model_check(&m, h.graph);
        free_edges(&e);
    }
    cr_assert_gt(graph_view(graph_now(h.graph)).nodes, SPREAD_WINDOW);
    shadow_finish(&shadow);
    close_house(&h);
}

/* ---- a life ---- */

/* As much as is there, or a little less: then all stays where it is. */
static void change_much(struct graph *g, unsigned *seed, const struct edges *all)
{
    struct numbering before = remember(g);
    struct edges e = *all;
    e.n = graph_edges(graph_now(g)) + (uint64_t)rand_r(seed) % 100;
    e.n = e.n > all->n ? all->n : e.n < 50 ? 1 : e.n - 50;
    bool anew = e.n >= graph_edges(graph_now(g));
    add_edges(g, &e, rand_r(seed) % 2);
    if (anew) check_numbered(g);
    if (anew) check_stable(g, &before);
    free(before.ids);
}

static void change(struct graph *g, unsigned *seed, const struct edges *all)
{
    struct graph_counts counts;
    uint64_t n = 1 + (uint64_t)rand_r(seed) % 800, first = (uint64_t)rand_r(seed) % (all->n - n);
    struct edges e = {all->sources + first, all->targets + first, n, all->weights};
    switch (rand_r(seed) % 8) {
    case 0: graph_remove_edges(g, e.sources, e.targets, n, &counts, NULL); break;
    case 1: graph_remove_nodes(g, e.targets, n, &counts, NULL); break;
    case 2: graph_remove_edges(g, all->sources, all->targets, all->n / 2, &counts, NULL); break;
    case 3: change_much(g, seed, all); break;
    default: add_edges(g, &e, rand_r(seed) % 2);
    }
}

Test(graph_numbers, and_windows_hold_whatever_comes, .timeout = 900)
{
    struct edges all = draw(EDGES * 2, NODES, 7);
    uint32_t most = 0;
    for (unsigned seed = 1; seed <= 6; seed += sweep_stride(3)) {
        struct house h = open_house(256 * MIB);
        struct graph_shadow shadow = {0};
        unsigned s = seed;
        for (int step = 0; step < 150; step++) {
            change(h.graph, &s, &all);
            check_whole(h.graph);
            if (step % 4 == 0) shadow_follow(&shadow, h.graph, 0);
        }
        uint32_t nodes = graph_view(graph_now(h.graph)).nodes;
        most = nodes > most ? nodes : most;
        shadow_finish(&shadow);
        close_house(&h);
    }
    cr_assert_gt(most, 2 * SPREAD_WINDOW);
    free_edges(&all);
}

/* ---- spreads ---- */

enum { SEEDS = 12, HOPS = 5, WAYS = 12 };

/* Numbers give way to ids. */
static int by_id(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return x[0] < y[0] ? -1 : x[0] > y[0];
}

static int by_node(const void *a, const void *b)
{
    const struct spread_seed *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

struct touched {
    uint64_t id, parent; /* UINT64_MAX: none */
    struct spread_record record;
};
struct said {
    struct touched *nodes;
    uint64_t count, cycles;
    uint32_t hops_done;
    bool truncated;
};

static struct said ask(const struct graph *g, const uint64_t *seeds, struct spread_question q)
{
    static const float decay[HOPS + 1] = {1, 0.75f, 0.5f, 0.375f, 0.25f, 0.125f};
    struct spread_graph v = graph_view(graph_now(g));
    struct spread_seed nodes[SEEDS];
    for (int i = 0; i < SEEDS; i++)
        nodes[i] = (struct spread_seed){graph_find(graph_now(g), seeds[i]), 1.0f / (float)(i + 1)};
    if (q.mode == SPREAD_LINEAR) qsort(nodes, SEEDS, sizeof *nodes, by_node);
    q.seeds = nodes;
    q.seed_count = SEEDS;
    q.decay = decay;
    q.hops = HOPS;
    struct spread_way way = {.kernels = &spread_scalar, .alone = true};
    struct spread_ran ran = spread_sample_run(&v, &q, &way);
    cr_assert(ran.clean && !ran.no_memory);
    struct said said = {calloc(ran.answer.count + 1, sizeof *said.nodes), ran.answer.count,
                        ran.answer.cycles, ran.answer.hops_done, ran.answer.truncated};
    for (uint64_t i = 0; i < said.count; i++) {
        struct spread_record r = ran.answer.records[i];
        said.nodes[i].id = v.ids[r.node];
        said.nodes[i].parent = r.parent == SPREAD_NO_NODE ? UINT64_MAX : v.ids[r.parent];
        r.node = r.parent = 0;
        said.nodes[i].record = r;
    }
    qsort(said.nodes, said.count, sizeof *said.nodes, by_id);
    spread_answer_free(&ran.answer);
    return said;
}

/* Both modes, with and without paths, cut early, late and not at all. */
static void ask_all(const struct graph *g, const uint64_t *seeds, struct said said[WAYS])
{
    const uint64_t bounds[] = {40, 3000, UINT64_MAX};
    for (int way = 0; way < WAYS; way++) {
        struct spread_question q = {.mode = way % 2 ? SPREAD_LINEAR : SPREAD_ENGRAM,
                                    .paths = way / 2 % 2,
                                    .touched_max = bounds[way / 4]};
        said[way] = ask(g, seeds, q);
        cr_assert_eq(said[way].truncated, way / 4 < 2);
    }
}

/* In small pieces, so that nodes are numbered as they come. */
static void add_slowly(struct graph *g, const struct edges *all)
{
    enum { STEP = 150 };
    for (uint64_t at = 0; at < all->n; at += STEP) {
        uint64_t left = all->n - at, n = left < STEP ? left : STEP;
        struct edges e = {all->sources + at, all->targets + at, n, all->weights + at};
        add_edges(g, &e, false);
    }
}

Test(graph_numbers, spreads_stay_as_they_were)
{
    struct house h = open_house(256 * MIB);
    struct edges all = draw(EDGES * 3, NODES, 3);
    struct said before[WAYS], after[WAYS];
    uint64_t seeds[SEEDS];
    for (uint64_t i = 0; i < SEEDS; i++)
        seeds[i] = (NODES - 1 - i * (NODES / SEEDS)) * 7 + 1;
    add_slowly(h.graph, &all);
    struct numbering numbers = remember(h.graph);
    ask_all(h.graph, seeds, before);
    struct graph_counts counts = add_edges(h.graph, &all, true); /* in its own place */
    cr_assert(counts.edges_removed == all.n && counts.nodes_added == 0);
    check_numbered(h.graph);
    cr_assert_neq(memcmp(graph_view(graph_now(h.graph)).ids, numbers.ids, numbers.count * 8), 0);
    check_stable(h.graph, &numbers);
    free(numbers.ids);
    ask_all(h.graph, seeds, after);
    for (int way = 0; way < WAYS; way++) {
        const struct said *was = &before[way], *is = &after[way];
        cr_assert(is->count == was->count && is->cycles == was->cycles);
        cr_assert_eq(is->hops_done, was->hops_done);
        cr_assert_eq(memcmp(is->nodes, was->nodes, is->count * sizeof *is->nodes), 0);
        free(was->nodes);
        free(is->nodes);
    }
    free_edges(&all);
    close_house(&h);
}

/* Room and holes keep what was there; numbers fall, with all nodes gone, and so must those. */
Test(graph_numbers, nothing_leads_to_a_number_that_was)
{
    enum { FEW = 50 };
    struct edges all = draw(EDGES * 2, NODES, 11), few = draw(EDGES / 100, FEW, 12);
    uint64_t *ids = calloc(NODES, sizeof *ids);
    for (uint64_t i = 0; i < NODES; i++)
        ids[i] = i * 7 + 1;
    for (int clear = 0; clear < 2; clear++) {
        struct house h = open_house(256 * MIB);
        struct graph_shadow shadow = {0};
        struct graph_counts counts;
        add_slowly(h.graph, &all);
        shadow_follow(&shadow, h.graph, 0);
        add_edges(h.graph, &all, true);
        check_numbered(h.graph);
        shadow_follow(&shadow, h.graph, 0);
        graph_remove_nodes(h.graph, ids, NODES - FEW, &counts, NULL);
        shadow_follow(&shadow, h.graph, 0);
        cr_assert_gt(graph_view(graph_now(h.graph)).nodes, SPREAD_WINDOW);
        if (clear)
            graph_clear(h.graph);
        else
            graph_remove_nodes(h.graph, ids, NODES, &counts, NULL);
        cr_assert_eq(graph_view(graph_now(h.graph)).nodes, 0);
        add_edges(h.graph, &few, false);
        cr_assert_leq(graph_view(graph_now(h.graph)).nodes, FEW);
        shadow_follow(&shadow, h.graph, 0);
        add_slowly(h.graph, &few);
        shadow_follow(&shadow, h.graph, 0);
        shadow_finish(&shadow);
        close_house(&h);
    }
    free(ids);
    free_edges(&few);
    free_edges(&all);
}

/* ---- no memory ---- */

/* A load whose numbering fails is a load all the same, and the next one makes up for it; one whose
 * lists cannot move after it tells a copy of all edges. */
Test(graph_numbers, stay_where_there_is_no_memory)
{
    struct edges all = draw(EDGES * 4, NODES, 5);
    struct edges first = {all.sources, all.targets, EDGES, all.weights};
    struct edges second = {all.sources + EDGES, all.targets + EDGES, EDGES, all.weights};
    for (uint64_t i = 0; i < EDGES; i++) { /* between other nodes */
        second.sources[i] += NODES * 7;
        second.targets[i] += NODES * 7;
    }
    for (int replace = 0; replace < 2; replace++) {
        uint32_t kept = 0;
        bool fired = true;
        for (uint32_t nth = 1; fired; nth += sweep_stride(3)) {
            struct house h = open_house(256 * MIB);
            struct graph_shadow shadow = {0};
            struct graph_counts counts;
            add_edges(h.graph, &first, false);
            shadow_follow(&shadow, h.graph, 0);
            struct numbering before = remember(h.graph);
            fault_arm(nth);
            enum status st = graph_add_edges(h.graph, second.sources, second.targets,
                                             second.weights, EDGES, replace, &counts, NULL);
            fired = fault_fired() != NULL;
            fault_arm(0);
            check_whole(h.graph);
            shadow_follow(&shadow, h.graph, 0);
            const uint64_t *ids = graph_view(graph_now(h.graph)).ids;
            bool same = memcmp(ids, before.ids, before.count * sizeof *ids) == 0;
            cr_assert(fired || (st == STATUS_OK && !same));
            cr_assert(st == STATUS_OK || (same && graph_edges(graph_now(h.graph)) == EDGES));
            kept += st == STATUS_OK && same;
            add_edges(h.graph, &all, true);
            check_numbered(h.graph);
            free(before.ids);
            shadow_finish(&shadow);
            close_house(&h);
        }
        cr_assert(kept == 1 || (kept == 0 && sweep_is_quick()));
    }
    free_edges(&all);
}
