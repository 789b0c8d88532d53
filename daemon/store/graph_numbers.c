#include "daemon/store/graph_inside.h"

#include <string.h>

/* Grouping by degree (Faldu, Diamond, Grot, "A Closer Look at Lightweight Graph Reordering",
 * 2019): nodes that are read often lie together, and within a class the numbers keep the locality
 * that they came with. A class holds the degrees with the same number of bits; the last but one
 * holds nodes without edges, the last one free numbers. */
enum { CLASSES = 34 };

static uint32_t class_of(uint64_t id, uint32_t degree)
{
    if (id == GRAPH_NOBODY) return CLASSES - 1;
    return degree ? (uint32_t)__builtin_clz(degree) : CLASSES - 2;
}

static void draw_map(const uint64_t *ids, const uint32_t *degrees, uint32_t n, uint32_t *map)
{
    uint32_t places[CLASSES] = {0}, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        graph_yield(i);
        places[class_of(ids[i], degrees[i])]++;
    }
    for (uint32_t group = 0; group < CLASSES; group++) {
        uint32_t count = places[group];
        places[group] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < n; i++) {
        graph_yield(i);
        map[i] = places[class_of(ids[i], degrees[i])]++;
    }
}

/* ---- moving ---- */

struct number_move {
    uint32_t n;
    const uint32_t *map;
    char *spare;
};

/* Reads are sequential, and writes go to at most one place for each class, which suits the
 * caches. */
static inline __attribute__((always_inline)) void move_sized(const struct number_move *m,
                                                             char *data, size_t size)
{
    for (uint32_t i = 0; i < m->n; i++) {
        graph_yield(i);
        memcpy(m->spare + m->map[i] * size, data + i * size, size);
    }
    graph_copy(data, m->spare, m->n * size);
}

static void move_lists(struct graph_edition *g, enum graph_side_of side,
                       const struct number_move *m)
{
    struct spread_list *spare = (struct spread_list *)m->spare;
    for (uint32_t i = 0; i < m->n; i++) {
        graph_yield(i);
        spare[m->map[i]] = *list_of(g, side, i);
    }
    for (uint32_t i = 0; i < m->n; i++) {
        graph_yield(i);
        *list_at(g, side, i) = spare[i];
    }
    graph_mark(g, (enum graph_part)(GRAPH_OUT + side), 0, m->n);
}

static void move(const struct number_move *m, void *data, size_t size)
{
    switch (size) {
    case sizeof(uint64_t): move_sized(m, data, sizeof(uint64_t)); break;
    case sizeof(uint32_t): move_sized(m, data, sizeof(uint32_t)); break;
    default: move_sized(m, data, 1);
    }
}

static void move_nodes(struct graph_edition *g, const struct number_move *m)
{
    static const enum graph_part parts[] = {GRAPH_IDS, GRAPH_KINDS, GRAPH_FACTORS};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!g->parts[parts[i]]) continue;
        move(m, part_of(g, parts[i]), graph_element_bytes[parts[i]]);
        graph_mark(g, parts[i], 0, m->n);
    }
    move_lists(g, SIDE_OUT, m);
    move_lists(g, SIDE_IN, m);
    for (uint32_t i = 0; i < g->free_count; i++)
        g->of->free_numbers[i] = m->n - 1 - i;
}

static const uint32_t *out_degrees(const struct graph_edition *g, uint32_t *degrees)
{
    for (uint32_t i = 0; i < g->numbers; i++) {
        graph_yield(i);
        degrees[i] = list_of(g, SIDE_OUT, i)->count;
    }
    return degrees;
}

bool graph_renumber(struct graph_edition *g, uint32_t *const degrees[SIDES], struct heap_block *map)
{
    uint64_t n = g->numbers, spare_at = (n + 1) / 2 * 2 * sizeof(uint32_t); /* lists are aligned */
    if (graph_scratch(g, spare_at + n * sizeof(struct spread_list), map)) return false;
    if (!graph_nodes_own(g) || !graph_index_own(g)) {
        heap_give(g->of->heap, map);
        return false;
    }
    uint32_t *numbers = map->data;
    void *spare = (char *)map->data + spare_at;
    draw_map(ids_of(g), degrees ? degrees[SIDE_OUT] : out_degrees(g, spare), g->numbers, numbers);
    struct number_move m = {.n = g->numbers, .map = numbers, .spare = spare};
    move_nodes(g, &m);
    node_index_renumber(g->index, numbers, g->numbers);
    for (int side = 0; degrees && side < SIDES; side++)
        move(&m, degrees[side], sizeof *degrees[side]);
    return true;
}

void graph_renumber_edges(struct graph_edition *g, const uint32_t *map)
{
    for (int side = 0; side < SIDES; side++) {
        struct spread_edge *edges = edges_of(g, side);
        for (uint32_t i = 0; i < g->numbers; i++) {
            const struct spread_list *list = list_of(g, side, i);
            graph_yield(i);
            for (uint32_t e = 0; e < list->count; e++)
                edges[list->first + e].node = map[edges[list->first + e].node];
        }
        graph_mark(g, GRAPH_OUT_EDGES + side, 0, g->sides[side].used);
    }
}
