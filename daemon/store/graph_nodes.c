#include <inttypes.h>
#include <string.h>

#include "daemon/store/array.h"
#include "daemon/store/graph_inside.h"

enum { BATCH = 256, SPARE_MIN = 64 };

/* ---- making ---- */

/* The number of the i-th node that is made: free numbers are used first, then new ones. */
static uint32_t made_number(const struct graph *g, uint32_t i)
{
    if (i < g->free_count) return g->free_numbers[g->free_count - 1 - i];
    return g->numbers + (i - g->free_count);
}

uint32_t graph_numbers_with(const struct graph *g, uint32_t made)
{
    return g->numbers + (made > g->free_count ? made - g->free_count : 0);
}

static enum status make_node(struct graph *g, uint64_t id, uint32_t *made, uint32_t *number,
                             struct failure *f)
{
    uint32_t node = made_number(g, *made), present = graph_numbers_with(g, *made);
    if (node >= GRAPH_NODES_MAX)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_NODES,
                           "a graph has at most %d nodes", GRAPH_NODES_MAX);
    enum status st = graph_part_reserve(g, GRAPH_IDS, (uint64_t)node + 1, present);
    if (st) return graph_refuse(g, st, "the new nodes", f);
    uint64_t *ids = ids_of(g), somebody = (uint64_t)g->numbers - g->free_count + *made + 1;
    if (somebody > g->index.slot_count / 4 * 3 &&
        !id_index_reserve(&g->index, ids, present, somebody))
        return graph_refuse(g, STATUS_RESOURCE_EXHAUSTED, "the index of nodes", f);
    ids[node] = id;
    id_index_insert(&g->index, ids, node);
    ++*made;
    *number = node;
    return STATUS_OK;
}

enum status graph_make_nodes(struct graph *g, const uint64_t *ids, uint64_t n, uint32_t *numbers,
                             uint32_t *made, struct failure *f)
{
    for (uint64_t first = 0; first < n; first += BATCH) {
        uint64_t count = n - first < BATCH ? n - first : BATCH;
        if (graph_find_many(g, ids + first, count, numbers + first) == count) continue;
        for (uint64_t i = first; i < first + count; i++) {
            if (numbers[i] != ID_INDEX_NONE) continue;
            /* an earlier id of this call may have made the node */
            numbers[i] = graph_find(g, ids[i]);
            if (numbers[i] != ID_INDEX_NONE) continue;
            enum status st = make_node(g, ids[i], made, &numbers[i], f);
            if (st) return st;
        }
    }
    return STATUS_OK;
}

void graph_unmake_nodes(struct graph *g, uint32_t made)
{
    uint64_t *ids = ids_of(g);
    for (uint32_t i = made; i-- > 0;) {
        uint32_t node = made_number(g, i);
        id_index_remove(&g->index, ids, node);
        ids[node] = GRAPH_NOBODY;
    }
    id_index_shrink(&g->index, ids, g->numbers);
    g->index.sparse = true;
    graph_fit(g);
}

/* ---- keeping ---- */

static bool reserve_spare(struct graph *g, uint64_t numbers)
{
    uint64_t capacity = g->free_capacity + g->free_capacity / 2;
    if (capacity < numbers) capacity = numbers < SPARE_MIN ? SPARE_MIN : numbers;
    if (numbers > g->free_capacity) {
        size_t size = sizeof *g->free_numbers;
        uint32_t *grown = array_resize(g->free_numbers, g->free_capacity * size, capacity * size);
        if (!grown) return false;
        g->free_numbers = grown;
        g->free_capacity = capacity;
    }
    uint64_t words = (g->free_capacity + 63) / 64;
    if (words > g->mark_words) {
        size_t size = sizeof *g->marks;
        uint64_t *grown = array_resize(g->marks, g->mark_words * size, words * size);
        if (!grown) return false;
        g->marks = grown;
        g->mark_words = words;
    }
    return true;
}

enum status graph_reserve_nodes(struct graph *g, uint32_t made, struct failure *f)
{
    static const enum graph_part parts[] = {GRAPH_OUT, GRAPH_IN, GRAPH_ORDER, GRAPH_KINDS,
                                            GRAPH_FACTORS};
    uint32_t numbers = graph_numbers_with(g, made);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool absent = !g->parts[parts[i]].data;
        if (absent && (parts[i] == GRAPH_KINDS || parts[i] == GRAPH_FACTORS)) continue;
        enum status st = graph_part_reserve(g, parts[i], numbers, g->numbers);
        if (st) return graph_refuse(g, st, "the new nodes", f);
    }
    if (!reserve_spare(g, numbers))
        return graph_refuse(g, STATUS_RESOURCE_EXHAUSTED, "the new nodes", f);
    return STATUS_OK;
}

static void keep_node(struct graph *g, uint32_t node)
{
    uint8_t *kinds = g->parts[GRAPH_KINDS].data;
    float *factors = g->parts[GRAPH_FACTORS].data;
    lists_of(g, SIDE_OUT)[node] = (struct spread_list){0};
    lists_of(g, SIDE_IN)[node] = (struct spread_list){0};
    if (kinds) kinds[node] = SPREAD_PLAIN;
    if (factors) factors[node] = 1;
}

void graph_keep_nodes(struct graph *g, uint32_t made)
{
    uint32_t reused = made < g->free_count ? made : g->free_count;
    uint32_t fresh = made - reused, *order = g->parts[GRAPH_ORDER].data;
    for (uint32_t i = 0; i < reused; i++) {
        uint32_t node = made_number(g, i);
        keep_node(g, node);
        for (int part = 0; part < GRAPH_PARTS; part++)
            if (part != GRAPH_OUT_EDGES && part != GRAPH_IN_EDGES) graph_mark(g, part, node, 1);
    }
    for (uint32_t node = g->numbers; node < g->numbers + fresh; node++) {
        keep_node(g, node);
        order[node] = node;
    }
    for (int part = 0; part < GRAPH_PARTS; part++)
        if (part != GRAPH_OUT_EDGES && part != GRAPH_IN_EDGES)
            graph_mark(g, part, g->numbers, fresh);
    g->free_count -= reused;
    g->numbers += fresh;
    g->kinds[SPREAD_PLAIN] += made;
}

/* ---- removing ---- */

static bool test_and_set(uint64_t *bitmap, uint32_t bit)
{
    uint64_t word = bitmap[bit / 64], mask = UINT64_C(1) << bit % 64;
    bitmap[bit / 64] = word | mask;
    return word & mask;
}

/* Removes the ids from the index and appends their numbers to the free ones. */
static void forget(struct graph *g, const uint64_t *wanted, uint64_t n, struct graph_counts *out)
{
    uint32_t numbers[BATCH];
    uint64_t *ids = ids_of(g);
    for (uint64_t first = 0; first < n; first += BATCH) {
        uint64_t count = n - first < BATCH ? n - first : BATCH;
        graph_find_many(g, wanted + first, count, numbers);
        for (uint64_t i = 0; i < count; i++) {
            uint32_t node = numbers[i];
            if (node == ID_INDEX_NONE || ids[node] == GRAPH_NOBODY) {
                out->missing++;
                continue;
            }
            id_index_remove(&g->index, ids, node);
            ids[node] = GRAPH_NOBODY;
            graph_mark(g, GRAPH_IDS, node, 1);
            g->free_numbers[g->free_count++] = node;
            out->nodes_removed++;
        }
    }
}

/* An edge of a removed node also stands in the list of its neighbour, on the other side. Removes
 * it there, searching each neighbour's list once. Returns how many edges were removed. */
static uint64_t drop_from_neighbours(struct graph *g, enum graph_side_of side, const uint32_t *gone,
                                     uint64_t n)
{
    const struct spread_list *lists = lists_of(g, side);
    const struct spread_edge *edges = edges_of(g, side);
    const uint64_t *ids = ids_of(g);
    uint64_t dropped = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct spread_list list = lists[gone[i]];
        for (uint32_t e = 0; e < list.count; e++) {
            uint32_t other = edges[list.first + e].node;
            if (ids[other] == GRAPH_NOBODY || test_and_set(g->marks, other)) continue;
            dropped += list_drop_nobody(g, side == SIDE_OUT ? SIDE_IN : SIDE_OUT, other);
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        struct spread_list list = lists[gone[i]];
        for (uint32_t e = 0; e < list.count; e++)
            g->marks[edges[list.first + e].node / 64] = 0;
    }
    return dropped;
}

static void drop_node(struct graph *g, uint32_t node)
{
    const uint8_t *kinds = g->parts[GRAPH_KINDS].data;
    g->kinds[kinds ? kinds[node] : SPREAD_PLAIN]--;
    list_drop(g, SIDE_OUT, node);
    list_drop(g, SIDE_IN, node);
}

void graph_remove_nodes(struct graph *g, const uint64_t *ids, uint64_t n, struct graph_counts *out)
{
    struct graph_counts counts = {0};
    uint32_t before = g->free_count;
    forget(g, ids, n, &counts);
    *out = counts;
    if (!counts.nodes_removed) return;

    const uint32_t *gone = g->free_numbers + before;
    const struct spread_list *lists = lists_of(g, SIDE_OUT);
    for (uint64_t i = 0; i < counts.nodes_removed; i++)
        counts.edges_removed += lists[gone[i]].count;
    drop_from_neighbours(g, SIDE_OUT, gone, counts.nodes_removed);
    counts.edges_removed += drop_from_neighbours(g, SIDE_IN, gone, counts.nodes_removed);
    for (uint64_t i = 0; i < counts.nodes_removed; i++)
        drop_node(g, gone[i]);
    g->edge_count -= counts.edges_removed;
    if (g->free_count == g->numbers) {
        graph_empty(g);
    } else {
        id_index_shrink(&g->index, ids_of(g), g->numbers);
        g->index.sparse = true;
    }
    graph_tidy(g);
    graph_publish(g);
    *out = counts;
}
