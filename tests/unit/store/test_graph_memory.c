/* What a graph takes and gives back, and what of it a copy has to be told. */
#include "daemon/store/graph.h"

#include <criterion/criterion.h>
#include <pthread.h>

#include "tests/support/graph_house.h"
#include "tests/support/graph_model.h"

Test(graph_shape, a_load_takes_what_is_promised)
{
    struct house h = open_house(512 * MIB);
    struct edges e = draw_edges(1000000, 100000, 5);
    add_edges(h.graph, &e, false);
    struct graph_info info = graph_info(h.graph);
    cr_log_info("%.2f bytes an edge, %.2f a node", (double)info.edge_bytes / (double)info.edges,
                (double)info.node_bytes / (double)info.nodes);
    cr_assert(info.edge_bytes <= info.edges * 16 + info.nodes * 16 + 2 * HEAP_UNIT);
    cr_assert(info.node_bytes <= info.nodes * 64 + 6 * HEAP_UNIT);
    struct heap_usage usage = heap_usage(h.heap);
    cr_assert(usage.bytes_used - usage.bytes_outside <= info.edge_bytes + info.node_bytes);
    cr_assert(usage.bytes_outside <= info.nodes * 16);
    cr_assert(heap_file_used(h.heap) <= info.edge_bytes + info.node_bytes + 64 * MIB);
    free_edges(&e);
    graph_clear(h.graph);
    heap_trim(h.heap, 0);
    cr_assert_eq(heap_usage(h.heap).blocks, 0);
    cr_assert_eq(heap_file_used(h.heap), 0);
    cr_assert_eq(graph_info(h.graph).version, 3);
    cr_assert(graph_nodes(graph_now(h.graph)) == 0 && graph_edges(graph_now(h.graph)) == 0);
    graph_clear(h.graph);
    cr_assert_eq(graph_info(h.graph).version, 3);
    close_house(&h);
}

Test(graph_shape, holes_are_closed)
{
    static struct graph_model m;
    m = (struct graph_model){0};
    struct house h = open_house(64 * MIB);
    struct graph_shadow shadow = {0};
    /* Lists that grow by one edge again and again leave holes, never more than half. */
    for (uint64_t round = 0; round < 60; round++) {
        uint64_t s[200], t[200];
        float w[200];
        for (uint64_t i = 0; i < 200; i++) {
            s[i] = i;
            t[i] = (i + round) % 200;
            w[i] = 1;
        }
        struct edges e = {s, t, 200, w};
        add_edges(h.graph, &e, false);
        model_add(&m, s, t, w, 200, false);
        struct spread_graph v = graph_view(graph_now(h.graph));
        uint64_t rooms = 0, used = graph_part_bytes(graph_now(h.graph), GRAPH_IN_EDGES) / 8;
        for (uint32_t i = 0; i < v.nodes; i++)
            rooms += spread_in_list(&v, i)->room;
        cr_assert(used <= 512 || rooms * 2 >= used);
        cr_assert(graph_info(h.graph).edge_bytes <=
                  graph_edges(graph_now(h.graph)) * 64 + 2 * HEAP_UNIT);
        shadow_follow(&shadow, h.graph, 0);
    }
    model_check(&m, h.graph);
    /* Most edges go: so does their room. */
    for (uint64_t round = 2; round < 60; round++) {
        uint64_t s[200], t[200];
        for (uint64_t i = 0; i < 200; i++) {
            s[i] = i;
            t[i] = (i + round) % 200;
        }
        struct graph_counts counts;
        graph_remove_edges(h.graph, s, t, 200, &counts, NULL);
        cr_assert_eq(counts.edges_removed, 200);
        model_remove(&m, s, t, 200);
        shadow_follow(&shadow, h.graph, 0);
    }
    model_check(&m, h.graph);
    cr_assert(graph_part_bytes(graph_now(h.graph), GRAPH_IN_EDGES) <= 4 * 400 * 8);
    cr_assert(graph_part_bytes(graph_now(h.graph), GRAPH_OUT_EDGES) <= 4 * 400 * 8);
    shadow_finish(&shadow);
    close_house(&h);
}

/* The last node that goes takes everything with it; numbers are used again until then. */
Test(graph_shape, numbers_come_again)
{
    struct house h = open_house(64 * MIB);
    struct graph_counts counts;
    for (uint64_t round = 0; round < 1000; round++) {
        uint64_t s[2] = {round, round + 1}, t[2] = {round + 1, round + 2};
        float w[2] = {1, 1};
        struct edges e = {s, t, 2, w};
        add_edges(h.graph, &e, true);
        graph_remove_nodes(h.graph, &round, 1, &counts, NULL);
        cr_assert_eq(counts.nodes_removed, 1);
        cr_assert_eq(graph_nodes(graph_now(h.graph)), 2);
        cr_assert(graph_view(graph_now(h.graph)).nodes <= 3);
    }
    uint64_t last[3] = {1000, 1001, 1000};
    graph_remove_nodes(h.graph, last, 3, &counts, NULL);
    cr_assert(counts.nodes_removed == 2 && counts.missing == 1 && counts.edges_removed == 1);
    cr_assert_eq(heap_usage(h.heap).blocks, 0);
    cr_assert_eq(graph_view(graph_now(h.graph)).nodes, 0);
    close_house(&h);
}

/* One change of a large graph tells a copy little. */
Test(graph_shape, a_small_change_soils_little)
{
    struct house h = open_house(256 * MIB);
    struct edges e = draw_edges(500000, 50000, 9);
    add_edges(h.graph, &e, false);
    struct graph_shadow shadow = {0};
    uint64_t all = shadow_follow(&shadow, h.graph, 1 << 20);
    cr_assert_eq(all, resident_bytes(graph_resident(h.graph)));
    e.n = 1;
    struct graph_counts counts = add_edges(h.graph, &e, true);
    cr_assert(counts.edges_removed >= 1);
    uint64_t told = shadow_follow(&shadow, h.graph, 0);
    cr_assert(told && told <= 4 * GRAPH_PAGE_BYTES);
    graph_remove_nodes(h.graph, e.sources, 1, &counts, NULL);
    shadow_follow(&shadow, h.graph, 0);
    resident_soil(graph_resident(h.graph));
    cr_assert_eq(resident_dirty_bytes(graph_resident(h.graph)),
                 resident_bytes(graph_resident(h.graph)));
    shadow_finish(&shadow);
    free_edges(&e);
    close_house(&h);
}

/* A hub's list moves, over many pages, until half of the array is holes and every list moves; few
 * of the lists themselves change. */
Test(graph_shape, a_hub_moves_and_is_told)
{
    enum { NODES = 20000, STEP = 3000, ROUNDS = 30 };
    static uint64_t s[NODES], t[NODES];
    static float w[NODES];
    struct house h = open_house(256 * MIB);
    struct graph_shadow shadow = {0};
    for (uint64_t i = 0; i < NODES; i++) {
        s[i] = i;
        t[i] = (i + 1) % NODES;
        w[i] = (float)i;
    }
    struct edges e = {s, t, NODES, w};
    add_edges(h.graph, &e, false);
    shadow_follow(&shadow, h.graph, 0);
    uint64_t used = 0, rewritten = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < STEP; i++) {
            s[i] = 77;
            t[i] = 99 + round % 2;
            w[i] = (float)(round * STEP + i);
        }
        e.n = STEP;
        add_edges(h.graph, &e, false);
        uint64_t now = graph_part_bytes(graph_now(h.graph), GRAPH_OUT_EDGES);
        rewritten += now < used;
        used = now;
        shadow_follow(&shadow, h.graph, 200000);
    }
    cr_assert(rewritten >= 1);
    cr_assert_eq(graph_info(h.graph).out_count_max, ROUNDS * STEP + 1);
    cr_assert_eq(graph_edges(graph_now(h.graph)), NODES + ROUNDS * STEP);
    shadow_finish(&shadow);
    close_house(&h);
}

static uint64_t bytes_of_parts(const struct graph *g)
{
    uint64_t bytes = 0;
    for (int part = 0; part < GRAPH_PARTS; part++)
        bytes += graph_part_bytes(graph_now(g), (enum graph_part)part);
    return bytes;
}

Test(graph_shape, adding_nothing_moves_nothing)
{
    struct house h = open_house(64 * MIB);
    uint64_t source = 1, target = 2;
    struct edges e = {&source, &target, 1, &(float){1}}, none = {0};
    struct graph_counts counts;
    add_edges(h.graph, &e, false);
    graph_remove_edges(h.graph, &source, &target, 1, &counts, NULL);
    uint64_t bytes = bytes_of_parts(h.graph);
    add_edges(h.graph, &none, false);
    cr_assert_eq(bytes_of_parts(h.graph), bytes);
    cr_assert_eq(resident_bytes(graph_resident(h.graph)), bytes);
    close_house(&h);
}

static void *keep_adding(void *graph)
{
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t source = i, target = i + 1;
        struct edges e = {&source, &target, 1, &(float){1}};
        add_edges(graph, &e, false);
    }
    return NULL;
}

/* The loop asks for the sizes of all graphs of a space, whoever writes to them. */
Test(graph_shape, sizes_are_known_while_a_writer_works)
{
    struct house h = open_house(64 * MIB);
    const struct resident *r = graph_resident(h.graph);
    pthread_t writer;
    cr_assert_eq(pthread_create(&writer, NULL, keep_adding, h.graph), 0);
    while (resident_version(r) < 2000)
        cr_assert(resident_bytes(r) <= MIB);
    pthread_join(writer, NULL);
    cr_assert_eq(resident_bytes(r), bytes_of_parts(h.graph));
    close_house(&h);
}
