/* What a graph looks like after a load, and what it refuses: layouts, matrices, hubs, names. */
#include "daemon/store/graph.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "daemon/store/collection.h"
#include "tests/support/graph_house.h"
#include "tests/support/graph_model.h"

/* ---- layouts ---- */

/* In-lists tight, one after the other in the order, which falls by in-degree within its windows,
 * ties by number; out-lists tight, by number. */
static void check_layout(const struct graph *g)
{
    struct spread_graph v = graph_view(graph_now(g));
    uint64_t at = 0;
    model_check_order(&v);
    for (uint32_t i = 0; i < v.nodes; i++) {
        struct spread_list list = *spread_in_list(&v, v.order[i]);
        cr_assert_eq(list.room, (list.count + 1) & ~1u);
        if (list.count) cr_assert_eq(list.first, at);
        at += list.room;
        if (i % SPREAD_WINDOW == 0) continue;
        uint32_t before = spread_in_list(&v, v.order[i - 1])->count;
        cr_assert(before > list.count || (before == list.count && v.order[i - 1] < v.order[i]));
    }
    cr_assert_eq(graph_part_bytes(graph_now(g), GRAPH_IN_EDGES), at * sizeof *v.in_edges);
    at = 0;
    for (uint32_t i = 0; i < v.nodes; i++) {
        cr_assert(spread_out_list(&v, i)->count == 0 || spread_out_list(&v, i)->first == at);
        cr_assert_eq(spread_out_list(&v, i)->room, (spread_out_list(&v, i)->count + 1) & ~1u);
        at += spread_out_list(&v, i)->room;
    }
    cr_assert_eq(graph_part_bytes(graph_now(g), GRAPH_OUT_EDGES), at * sizeof *v.out_edges);
}

Test(graph_shape, a_load_is_laid_out)
{
    static struct graph_model m;
    struct house h = open_house(256 * MIB);
    /* From nothing; as much again; all of it replaced; with lists of more than 2,048. */
    struct edges first = draw_edges(20000, 6000, 1), second = draw_edges(20000, 6000, 2);
    add_edges(h.graph, &first, false);
    check_layout(h.graph);
    add_edges(h.graph, &second, false);
    check_layout(h.graph);
    m = (struct graph_model){.version = 2};
    model_add(&m, first.sources, first.targets, first.weights, first.n, false);
    model_add(&m, second.sources, second.targets, second.weights, second.n, false);
    m.version = 2;
    model_check(&m, h.graph);
    struct edges all = draw_edges(40000, 6000, 3);
    memcpy(all.sources, first.sources, first.n * 8);
    memcpy(all.targets, first.targets, first.n * 8);
    struct graph_counts counts = add_edges(h.graph, &all, true);
    struct graph_counts expected =
        model_add(&m, all.sources, all.targets, all.weights, all.n, true);
    cr_assert(counts_equal(counts, expected));
    cr_assert(counts.edges_removed >= 20000);
    check_layout(h.graph);
    model_check(&m, h.graph);
    cr_assert(graph_info(h.graph).in_count_max > 2048);
    free_edges(&first);
    free_edges(&second);
    free_edges(&all);
    close_house(&h);
}

Test(graph_shape, a_matrix_is_its_edges)
{
    static struct graph_model m;
    enum { ROWS = 60 };
    uint64_t ids[ROWS], offsets[ROWS + 1], columns[ROWS * 7], sources[ROWS * 7], targets[ROWS * 7];
    float weights[ROWS * 7];
    for (int named = 0; named < 2; named++) {
        struct house h = open_house(64 * MIB);
        struct graph_shadow shadow = {0};
        uint64_t n = 0;
        for (uint64_t row = 0; row < ROWS; row++) {
            ids[row] = named ? row * 1000 + 5 : row;
            offsets[row] = n;
            for (uint64_t i = 0; i < row % 7; i++, n++) {
                columns[n] = row * i * 31 % ROWS;
                weights[n] = (float)n;
            }
        }
        offsets[ROWS] = n;
        for (uint64_t row = 0; row < ROWS; row++) {
            for (uint64_t i = offsets[row]; i < offsets[row + 1]; i++) {
                sources[i] = ids[row];
                targets[i] = ids[columns[i]];
            }
        }
        m = (struct graph_model){0};
        struct graph_counts counts;
        for (int again = 0; again < 2; again++) { /* once more, in the place of the first */
            struct graph_counts expected = model_add(&m, sources, targets, weights, n, again);
            expected.nodes_added += model_set(&m, ids, NULL, NULL, ROWS).nodes_added;
            m.version--;
            cr_assert_eq(graph_add_csr(h.graph, named ? ids : NULL, ROWS, offsets, columns, weights,
                                       n, again, &counts, NULL),
                         STATUS_OK);
            cr_assert(counts_equal(counts, expected));
            model_check(&m, h.graph);
            shadow_follow(&shadow, h.graph, 0);
        }
        /* Nodes alone; then nothing at all. */
        uint64_t zeros[3] = {0}, more[2] = {7777, 8888};
        for (int again = 0; again < 2; again++) {
            cr_assert_eq(
                graph_add_csr(h.graph, more, 2, zeros, NULL, NULL, 0, false, &counts, NULL),
                STATUS_OK);
            cr_assert_eq(counts.nodes_added, again ? 0 : 2);
        }
        model_set(&m, more, NULL, NULL, 2);
        model_check(&m, h.graph);
        shadow_finish(&shadow);
        close_house(&h);
    }
}

Test(graph_shape, loops_and_copies_are_edges)
{
    struct house h = open_house(64 * MIB);
    uint64_t s[6] = {5, 5, 5, 5, 7, 7}, t[6] = {5, 5, 7, 7, 5, 7};
    float w[6] = {1, 1, -0.25f, 0, 3, 3};
    struct edges e = {s, t, 6, w};
    add_edges(h.graph, &e, false);
    struct spread_graph v = graph_view(graph_now(h.graph));
    uint32_t five = graph_find(graph_now(h.graph), 5), seven = graph_find(graph_now(h.graph), 7);
    cr_assert_eq(v.edges, 6);
    cr_assert_eq(spread_out_list(&v, five)->count, 4);
    cr_assert_eq(spread_in_list(&v, five)->count, 3);
    cr_assert_eq(spread_in_list(&v, seven)->count, 3);
    cr_assert(v.grid.high == spread_grid_of(2, 0, 3).high); /* 3 <= 2^2 */
    cr_assert(v.grid.low == spread_grid_of(2, 0, 3).low);
    /* Both loops of 5 go as one pair; a pair asked for twice is missing the second time. */
    uint64_t rs[3] = {5, 5, 9}, rt[3] = {5, 5, 5};
    struct graph_counts counts;
    graph_remove_edges(h.graph, rs, rt, 3, &counts, NULL);
    cr_assert(counts.edges_removed == 2 && counts.missing == 2);
    cr_assert_eq(graph_info(h.graph).version, 3);
    graph_remove_edges(h.graph, rs, rt, 3, &counts, NULL);
    cr_assert(counts.edges_removed == 0 && counts.missing == 3);
    cr_assert_eq(graph_info(h.graph).version, 3);
    /* Two of a pair come in the place of two. */
    struct edges pair = {s + 2, t + 2, 2, w + 4};
    counts = add_edges(h.graph, &pair, true);
    cr_assert(counts.edges_removed == 2 && counts.edges_added == 2);
    cr_assert_eq(graph_edges(graph_now(h.graph)), 4);
    close_house(&h);
}

Test(graph_shape, the_grid_follows_weights_and_factors)
{
    struct house h = open_house(64 * MIB);
    cr_assert(graph_view(graph_now(h.graph)).grid.high == spread_grid_of(0, 0, 0).high);
    uint64_t s[1] = {1}, t[1] = {2};
    float w[1] = {0};
    struct edges e = {s, t, 1, w};
    add_edges(h.graph, &e, false);
    cr_assert(graph_view(graph_now(h.graph)).grid.high == spread_grid_of(0, 0, 1).high);
    const struct {
        float weight;
        int exponent;
    } cases[] = {{0.5f, -1}, {0.75f, 0},          {-1, 0}, {1.5f, 1}, {1e-45f, -149},
                 {2, 1},     {3.4028235e38f, 128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graph_clear(h.graph);
        w[0] = cases[i].weight;
        add_edges(h.graph, &e, false);
        cr_assert(graph_view(graph_now(h.graph)).grid.high ==
                  spread_grid_of(cases[i].exponent, 0, 1).high);
    }
    float factor = 5;
    struct graph_counts counts;
    cr_assert_eq(graph_set_nodes(h.graph, s, NULL, &factor, 1, &counts, NULL), STATUS_OK);
    cr_assert(graph_view(graph_now(h.graph)).grid.high == spread_grid_of(128, 3, 1).high);
    /* What replaces all of it is measured anew. */
    w[0] = 0.25f;
    add_edges(h.graph, &e, true);
    cr_assert(graph_view(graph_now(h.graph)).grid.high == spread_grid_of(-2, 3, 1).high);
    close_house(&h);
}

/* Between layouts it is kept roughly. */
Test(graph_shape, the_order_follows_degrees)
{
    enum { NODES = 2000 };
    struct house h = open_house(64 * MIB);
    struct edges e = draw_edges(40000, NODES, 4);
    add_edges(h.graph, &e, false);
    for (uint64_t round = 1; round <= 20; round++) { /* the last become the first */
        for (uint64_t i = 0; i < NODES; i++) {
            e.sources[i] = i;
            e.targets[i] = NODES - 1 - i % (100 * round);
        }
        e.n = NODES;
        add_edges(h.graph, &e, false);
    }
    struct spread_graph v = graph_view(graph_now(h.graph));
    uint64_t falls = 0;
    for (uint32_t i = 1; i < v.nodes; i++)
        falls += spread_in_list(&v, v.order[i])->count <= spread_in_list(&v, v.order[i - 1])->count;
    cr_assert(falls * 100 >= v.nodes * 90, "%lu of %u", falls, v.nodes);
    free_edges(&e);
    close_house(&h);
}

/* ---- refusals ---- */

static void expect(enum status st, const struct failure *f, enum detail detail, const char *text)
{
    cr_assert_eq(st, STATUS_INVALID_ARGUMENT);
    cr_assert_eq(f->detail, detail);
    cr_assert_str_eq(f->text, text);
}

Test(graph_shape, refusals_name_the_element)
{
    struct house h = open_house(64 * MIB);
    struct graph *g = h.graph;
    struct failure f = {0};
    struct graph_counts c;
    uint64_t s[3] = {1, 2, 3}, t[3] = {4, 5, 6};
    float w[3] = {1, INFINITY, 1};
    expect(graph_add_edges(g, s, t, w, 3, false, &c, &f), &f, DETAIL_BAD_WEIGHT,
           "edge 1: its weight is not a finite number");
    w[1] = 1;
    s[2] = UINT64_MAX;
    expect(graph_add_edges(g, s, t, w, 3, false, &c, &f), &f, DETAIL_BAD_NODE,
           "the source of edge 2: 2^64 - 1 is no node's id");
    s[2] = 3;
    t[0] = UINT64_MAX;
    expect(graph_add_edges(g, s, t, w, 3, false, &c, &f), &f, DETAIL_BAD_NODE,
           "the target of edge 0: 2^64 - 1 is no node's id");

    uint64_t offsets[4] = {0, 2, 1, 3}, columns[3] = {0, 2, 3};
    expect(graph_add_csr(g, s, 3, offsets, columns, w, 3, false, &c, &f), &f, DETAIL_BAD_OFFSETS,
           "offset 2 is 1, less than the one before it");
    offsets[2] = 2;
    offsets[0] = 1;
    expect(graph_add_csr(g, s, 3, offsets, columns, w, 3, false, &c, &f), &f, DETAIL_BAD_OFFSETS,
           "offset 0 is 1, not 0");
    offsets[0] = 0;
    expect(graph_add_csr(g, s, 3, offsets, columns, w, 2, false, &c, &f), &f, DETAIL_BAD_OFFSETS,
           "the last offset is 3, and there are 2 columns");
    expect(graph_add_csr(g, s, 3, offsets, columns, w, 3, false, &c, &f), &f, DETAIL_BAD_NODE,
           "edge 2: its column 3 is none of the matrix's 3 rows");
    columns[2] = UINT64_MAX;
    expect(graph_add_csr(g, NULL, 3, offsets, columns, w, 3, false, &c, &f), &f, DETAIL_BAD_NODE,
           "the target of edge 2: 2^64 - 1 is no node's id");
    s[1] = UINT64_MAX;
    columns[2] = 0;
    expect(graph_add_csr(g, s, 3, offsets, columns, w, 3, false, &c, &f), &f, DETAIL_BAD_NODE,
           "row 1: 2^64 - 1 is no node's id");

    uint8_t kinds[3] = {0, 1, 3};
    float factors[3] = {0, 65536, -1};
    expect(graph_set_nodes(g, s, NULL, NULL, 3, &c, &f), &f, DETAIL_BAD_NODE,
           "node 1 (id 18446744073709551615): 2^64 - 1 is no node's id");
    s[1] = 2;
    expect(graph_set_nodes(g, s, kinds, NULL, 3, &c, &f), &f, DETAIL_BAD_NODE,
           "node 2 (id 3): there is no such kind");
    expect(graph_set_nodes(g, s, NULL, factors, 3, &c, &f), &f, DETAIL_BAD_NODE,
           "node 2 (id 3): its factor is not in 0 to 65536");
    factors[2] = NAN;
    cr_assert_neq(graph_set_nodes(g, s, NULL, factors, 3, &c, &f), STATUS_OK);
    factors[2] = 65537;
    cr_assert_neq(graph_set_nodes(g, s, NULL, factors, 3, &c, &f), STATUS_OK);
    s[2] = 2;
    expect(graph_set_nodes(g, s, NULL, NULL, 3, &c, &f), &f, DETAIL_BAD_NODE,
           "id 2 is given twice, in nodes 1 and 2");
    cr_assert_eq(graph_info(g).version, 1);
    cr_assert_eq(graph_nodes(graph_now(g)), 0);
    cr_assert_eq(heap_usage(h.heap).blocks, 0);
    cr_assert_eq(graph_add_edges(g, s, t, w, 0, true, &c, &f), STATUS_OK);
    cr_assert_eq(graph_set_nodes(g, s, NULL, NULL, 0, &c, &f), STATUS_OK);
    cr_assert_eq(graph_info(g).version, 1);
    close_house(&h);
}

/* ---- names ---- */

Test(graph_shape, names_are_their_own)
{
    struct house h = open_house(64 * MIB);
    struct graph *g = NULL, *list[4];
    struct collection *c = NULL;
    struct failure f = {0};
    store_limit_collections(h.store, 5);
    cr_assert_eq(store_collection_create(h.store, h.space, "g", 3, METRIC_DOT, &f, &c), STATUS_OK);
    cr_assert_eq(store_graph_create(h.store, h.space, "g", &f, &g), STATUS_ALREADY_EXISTS);
    cr_assert_eq(f.detail, DETAIL_GRAPH_EXISTS);
    cr_assert_eq(store_graph_create(h.store, h.space, "a b", &f, &g), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(f.detail, DETAIL_BAD_NAME);
    cr_assert_eq(store_graph_find(h.store, h.space, "", &f, &g), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(store_graph_find(h.store, h.space, "x", &f, &g), STATUS_NOT_FOUND);
    cr_assert_eq(f.detail, DETAIL_UNKNOWN_GRAPH);
    const char *names[] = {"z", "b", "k"};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(store_graph_create(h.store, h.space, names[i], &f, &g), STATUS_OK);
    cr_assert_eq(store_graph_create(h.store, h.space, "y", &f, &g), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(f.detail, DETAIL_TOO_MANY_COLLECTIONS);
    cr_assert_eq(store_collection_create(h.store, h.space, "y", 3, METRIC_DOT, &f, &c),
                 STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(f.detail, DETAIL_TOO_MANY_COLLECTIONS);

    bool more;
    cr_assert_eq(store_graph_list(h.store, h.space, "", list, 3, &more), 3);
    cr_assert(more);
    cr_assert_str_eq(graph_info(list[0]).name, "b");
    cr_assert_str_eq(graph_info(list[2]).name, "k");
    cr_assert_eq(store_graph_list(h.store, h.space, "k", list, 3, &more), 1);
    cr_assert(!more);
    cr_assert_str_eq(graph_info(list[0]).name, "z");

    cr_assert_eq(store_graph_find(h.store, h.space, "b", &f, &g), STATUS_OK);
    cr_assert_eq(graph_resident(g)->ops->kind, RESIDENT_GRAPH);
    cr_assert_eq(graph_resident(g)->space, h.space);
    store_graph_unlink(h.store, h.space, g);
    graph_destroy(g);
    cr_assert_eq(h.space->graph_count, 3);
    cr_assert_eq(store_graph_find(h.store, h.space, "b", &f, &g), STATUS_NOT_FOUND);
    close_house(&h);
}

/* A space with a graph is not forgotten. */
Test(graph_shape, a_graph_keeps_its_space)
{
    struct house h = open_house(64 * MIB);
    store_space_release(h.store, h.space);
    cr_assert_eq(store_space_next(h.store, NULL), h.space);
    struct space *again;
    cr_assert_eq(store_space(h.store, "test", &again), STATUS_OK);
    cr_assert_eq(again, h.space);
    store_graph_unlink(h.store, h.space, h.graph);
    graph_destroy(h.graph);
    store_space_release(h.store, h.space);
    cr_assert_eq(store_space_next(h.store, NULL), NULL);
    close_house(&h);
}

static void expect_grid(const struct graph *g, int weight_exponent)
{
    struct spread_grid is = graph_view(graph_now(g)).grid,
                       want = spread_grid_of(weight_exponent, 0, 1);
    cr_assert(is.high == want.high && is.low == want.low, "not 2^%d", weight_exponent);
}

/* A weight that was a mistake costs the others their precision no longer than it is there. */
Test(graph_shape, what_is_gone_does_not_count)
{
    struct house h = open_house(64 * MIB);
    uint64_t sources[] = {1, 2, 3, 4}, targets[] = {11, 12, 13, 14}, far[] = {21, 22};
    float weights[] = {0.5f, 0.75f, 1, 0.25f}, huge[] = {3e38f, -3e38f}, small[] = {2, 2};
    struct edges e = {sources, targets, 4, weights}, odd = {far, far, 2, huge};
    struct graph_counts counts;
    add_edges(h.graph, &e, false);
    expect_grid(h.graph, 0);
    for (int way = 0; way < 3; way++) {
        odd.weights = huge;
        add_edges(h.graph, &odd, false);
        expect_grid(h.graph, 128);
        graph_remove_edges(h.graph, far, far, 1, &counts, NULL);
        expect_grid(h.graph, 128);
        odd.weights = small;
        if (way == 0) graph_remove_edges(h.graph, far, far, 2, &counts, NULL);
        if (way == 1) graph_remove_nodes(h.graph, far, 2, &counts, NULL);
        if (way == 2) add_edges(h.graph, &odd, true);
        expect_grid(h.graph, way == 2);
    }
    graph_remove_edges(h.graph, far, far, 2, &counts, NULL);
    expect_grid(h.graph, 0);
    graph_remove_edges(h.graph, sources + 2, targets + 2, 1, &counts, NULL);
    expect_grid(h.graph, 0);
    graph_remove_edges(h.graph, sources, targets, 2, &counts, NULL);
    expect_grid(h.graph, -2);
    close_house(&h);
}
