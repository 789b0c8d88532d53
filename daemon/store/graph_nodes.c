#include <inttypes.h>
#include <string.h>

#include "daemon/store/array.h"
#include "daemon/store/graph_inside.h"

enum { BATCH = 256, SPARE_MIN = 64 };

/* ---- making ---- */

/* The number of the i-th node that is made: free numbers are used first, then new ones. */
static uint32_t made_number(const struct graph_edition *g, uint32_t i)
{
    if (i < g->free_count) return g->of->free_numbers[g->free_count - 1 - i];
    return g->numbers + (i - g->free_count);
}

uint32_t graph_numbers_with(const struct graph_edition *g, uint32_t made)
{
    return g->numbers + (made > g->free_count ? made - g->free_count : 0);
}

/* Puts an index of all nodes, with room for one more and some, in the place of the present one. */
static enum status index_anew(struct graph_edition *g, uint32_t present, uint64_t somebody)
{
    struct node_index *old = g->index, *x;
    enum status st = node_index_make(g->of->heap, g->of->resident.space->number,
                                     somebody + somebody / 3 + 1, &x);
    if (st) return st;
    node_index_add_all(x, ids_of(g), present);
    if (graph_in_place(g) || old != g->of->now->index) node_index_free(old);
    g->index = x;
    return STATUS_OK;
}

void graph_index_fit(struct graph_edition *g)
{
    uint32_t somebody = g->numbers - g->free_count;
    if (node_index_is_large(g->index, somebody)) (void)index_anew(g, g->numbers, somebody);
}

bool graph_index_own(struct graph_edition *g)
{
    return graph_in_place(g) || g->index != g->of->now->index ||
           !index_anew(g, g->numbers, g->numbers - g->free_count);
}

static enum status make_node(struct graph_edition *g, uint64_t id, uint32_t *made, uint32_t *number,
                             struct failure *f)
{
    uint32_t node = made_number(g, *made), present = graph_numbers_with(g, *made);
    if (node >= GRAPH_NODES_MAX)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_NODES,
                           "a graph has at most %d nodes", GRAPH_NODES_MAX);
    enum status st = graph_part_reserve(g, GRAPH_IDS, (uint64_t)node + 1, present);
    if (st) return graph_refuse(g, st, "the new nodes", f);
    /* who sees a number that was free would find the new node there */
    if (node < g->numbers && !graph_part_own(g, GRAPH_IDS, present))
        return graph_refuse(g, g->of->write.starved, "the new nodes", f);
    uint64_t *ids = ids_of(g), somebody = (uint64_t)g->numbers - g->free_count + *made;
    if (!node_index_has_room(g->index, 1)) st = index_anew(g, present, somebody);
    if (st) return graph_refuse(g, st, "the index of nodes", f);
    ids[node] = id;
    node_index_add(g->index, id, node);
    ++*made;
    *number = node;
    return STATUS_OK;
}

enum status graph_make_nodes(struct graph_edition *g, const uint64_t *ids, uint64_t n,
                             uint32_t *numbers, uint32_t *made, struct failure *f)
{
    for (uint64_t first = 0; first < n; first += BATCH) {
        uint64_t count = n - first < BATCH ? n - first : BATCH;
        uint32_t present = graph_numbers_with(g, *made);
        if (first % (8 * BATCH) == 0) yield_check();
        if (node_index_find_many(g->index, ids_of(g), present, ids + first, count,
                                 numbers + first) == count)
            continue;
        for (uint64_t i = first; i < first + count; i++) {
            if (numbers[i] != SPREAD_NO_NODE) continue;
            /* an earlier id of this call may have made the node */
            present = graph_numbers_with(g, *made);
            numbers[i] = node_index_find(g->index, ids_of(g), present, ids[i]);
            if (numbers[i] != SPREAD_NO_NODE) continue;
            enum status st = make_node(g, ids[i], made, &numbers[i], f);
            if (st) return st;
        }
    }
    return STATUS_OK;
}

void graph_unmake_nodes(struct graph_edition *g, uint32_t made)
{
    uint64_t *ids = ids_of(g);
    if (!graph_in_place(g)) return; /* what was made goes with the edition */
    for (uint32_t i = made; i-- > 0;)
        ids[made_number(g, i)] = GRAPH_NOBODY;
    graph_index_fit(g);
    graph_fit(g);
}

/* ---- keeping ---- */

static bool reserve_spare(struct graph_edition *g, uint64_t numbers)
{
    uint64_t capacity = g->of->free_capacity + g->of->free_capacity / 2;
    if (capacity < numbers) capacity = numbers < SPARE_MIN ? SPARE_MIN : numbers;
    if (numbers > g->of->free_capacity) {
        uint64_t bytes = capacity * sizeof *g->of->free_numbers + (capacity + 63) / 64 * 8;
        if (outside_count(&g->of->spare_outside, bytes)) return false;
        size_t size = sizeof *g->of->free_numbers;
        uint32_t *grown =
            array_resize(g->of->free_numbers, g->of->free_capacity * size, capacity * size);
        if (!grown) return false;
        g->of->free_numbers = grown;
        g->of->free_capacity = capacity;
    }
    uint64_t words = (g->of->free_capacity + 63) / 64;
    if (words > g->of->mark_words) {
        size_t size = sizeof *g->of->marks;
        uint64_t *grown = array_resize(g->of->marks, g->of->mark_words * size, words * size);
        if (!grown) return false;
        g->of->marks = grown;
        g->of->mark_words = words;
    }
    return true;
}

enum status graph_reserve_nodes(struct graph_edition *g, uint32_t made, struct failure *f)
{
    static const enum graph_part parts[] = {GRAPH_ORDER, GRAPH_KINDS, GRAPH_FACTORS};
    uint32_t numbers = graph_numbers_with(g, made);
    for (int side = 0; side < SIDES; side++) {
        enum status st = graph_lists_reserve(g, (enum graph_side_of)side, numbers);
        if (st) return graph_refuse(g, st, "the new nodes", f);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool absent = !g->parts[parts[i]];
        if (absent && (parts[i] == GRAPH_KINDS || parts[i] == GRAPH_FACTORS)) continue;
        enum status st = graph_part_reserve(g, parts[i], numbers, g->numbers);
        if (st) return graph_refuse(g, st, "the new nodes", f);
    }
    if (!reserve_spare(g, numbers))
        return graph_refuse(g, STATUS_RESOURCE_EXHAUSTED, "the new nodes", f);
    return STATUS_OK;
}

enum status graph_adopt_nodes(struct graph_edition *g, const uint32_t *free_numbers,
                              struct failure *f)
{
    if (!g->numbers) return STATUS_OK;
    if (!reserve_spare(g, g->numbers))
        return graph_refuse(g, STATUS_RESOURCE_EXHAUSTED, "the nodes", f);
    if (g->free_count)
        memcpy(g->of->free_numbers, free_numbers, g->free_count * sizeof *free_numbers);
    enum status st = index_anew(g, g->numbers, (uint64_t)g->numbers - g->free_count);
    return st ? graph_refuse(g, st, "the index of nodes", f) : STATUS_OK;
}

static void keep_node(struct graph_edition *g, uint32_t node)
{
    uint8_t *kinds = part_of(g, GRAPH_KINDS);
    float *factors = part_of(g, GRAPH_FACTORS);
    for (int side = 0; side < SIDES; side++) {
        struct spread_list *list = graph_list_own(g, (enum graph_side_of)side, node);
        if (list) *list = (struct spread_list){0};
    }
    if (kinds) kinds[node] = SPREAD_PLAIN;
    if (factors) factors[node] = 1;
}

static bool is_by_node(int part)
{
    return part != GRAPH_OUT_EDGES && part != GRAPH_IN_EDGES;
}

void graph_keep_nodes(struct graph_edition *g, uint32_t made)
{
    uint32_t reused = made < g->free_count ? made : g->free_count;
    uint32_t fresh = made - reused, *order = part_of(g, GRAPH_ORDER);
    if (reused && !(graph_part_own(g, GRAPH_KINDS, g->numbers) &&
                    graph_part_own(g, GRAPH_FACTORS, g->numbers)))
        return;
    for (uint32_t i = 0; i < reused; i++) {
        uint32_t node = made_number(g, i);
        keep_node(g, node);
        for (int part = 0; part < GRAPH_PARTS; part++)
            if (is_by_node(part)) graph_mark(g, (enum graph_part)part, node, 1);
    }
    for (uint32_t node = g->numbers; node < g->numbers + fresh; node++) {
        graph_yield(node);
        keep_node(g, node);
        order[node] = node;
    }
    for (int part = 0; part < GRAPH_PARTS; part++)
        if (is_by_node(part)) graph_mark(g, (enum graph_part)part, g->numbers, fresh);
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

/* Makes the ids nobody's and appends their numbers to the free ones. */
static void forget(struct graph_edition *g, const uint64_t *wanted, uint64_t n,
                   struct graph_counts *out)
{
    uint32_t numbers[BATCH];
    uint64_t *ids = ids_of(g);
    for (uint64_t first = 0; first < n; first += BATCH) {
        uint64_t count = n - first < BATCH ? n - first : BATCH;
        if (first % (8 * BATCH) == 0) yield_check();
        graph_find_many(g, wanted + first, count, numbers);
        for (uint64_t i = 0; i < count; i++) {
            uint32_t node = numbers[i];
            if (node == SPREAD_NO_NODE || ids[node] == GRAPH_NOBODY) {
                out->missing++;
                continue;
            }
            ids[node] = GRAPH_NOBODY;
            graph_mark(g, GRAPH_IDS, node, 1);
            g->of->free_numbers[g->free_count++] = node;
            out->nodes_removed++;
        }
    }
}

/* An edge of a removed node also stands in the list of its neighbour, on the other side. Removes
 * it there, searching each neighbour's list once. Returns how many edges were removed. */
static uint64_t drop_from_neighbours(struct graph_edition *g, enum graph_side_of side,
                                     const uint32_t *gone, uint64_t n)
{
    const uint64_t *ids = ids_of(g);
    const struct spread_edge *edges = edges_of(g, side); /* only the other side's change */
    uint64_t dropped = 0, work = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct spread_list *list = list_of(g, side, gone[i]);
        for (uint32_t e = 0; e < list->count; e++) {
            uint32_t other = edges[list->first + e].node;
            if (ids[other] == GRAPH_NOBODY || test_and_set(g->of->marks, other)) continue;
            dropped += list_drop_nobody(g, side == SIDE_OUT ? SIDE_IN : SIDE_OUT, other);
            graph_pace(&work, 4);
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        const struct spread_list *list = list_of(g, side, gone[i]);
        graph_pace(&work, list->count);
        for (uint32_t e = 0; e < list->count; e++)
            g->of->marks[edges[list->first + e].node / 64] = 0;
    }
    return dropped;
}

static void drop_node(struct graph_edition *g, uint32_t node)
{
    const uint8_t *kinds = part_of(g, GRAPH_KINDS);
    g->kinds[kinds ? kinds[node] : SPREAD_PLAIN]--;
    list_drop(g, SIDE_OUT, node);
    list_drop(g, SIDE_IN, node);
}

/* Edges that it touches, about. */
static uint64_t work_of(const struct graph_edition *g, uint64_t n)
{
    uint64_t degree = g->numbers ? g->edge_count / g->numbers + 1 : 1;
    return n > GRAPH_NODES_MAX ? n : n * degree * degree;
}

struct nodes_removal {
    const uint64_t *ids;
    uint64_t n;
    struct graph_counts counts;
};

static enum status remove_some(struct graph_edition *g, void *write, struct failure *f)
{
    struct nodes_removal *r = write;
    struct graph_counts *counts = &r->counts;
    uint32_t before = g->free_count;
    *counts = (struct graph_counts){0};
    if (!graph_part_own(g, GRAPH_IDS, g->numbers)) return STATUS_OK;
    forget(g, r->ids, r->n, counts);
    if (!counts->nodes_removed) return STATUS_OK;

    const uint32_t *gone = g->of->free_numbers + before;
    for (uint64_t i = 0, work = 0; i < counts->nodes_removed; i++) {
        graph_pace(&work, 1);
        counts->edges_removed += list_of(g, SIDE_OUT, gone[i])->count;
    }
    drop_from_neighbours(g, SIDE_OUT, gone, counts->nodes_removed);
    counts->edges_removed += drop_from_neighbours(g, SIDE_IN, gone, counts->nodes_removed);
    for (uint64_t i = 0, work = 0; i < counts->nodes_removed; i++) {
        graph_pace(&work, 4);
        drop_node(g, gone[i]);
    }
    g->edge_count -= counts->edges_removed;
    if (g->free_count == g->numbers)
        graph_empty(g);
    else
        graph_index_fit(g);
    graph_tidy(g);
    graph_complete(g);
    return STATUS_OK;
}

static bool finds_any(const struct graph_edition *g, const uint64_t *ids, uint64_t n)
{
    uint32_t numbers[BATCH];
    for (uint64_t first = 0; first < n; first += BATCH)
        if (graph_find_many(g, ids + first, n - first < BATCH ? n - first : BATCH, numbers))
            return true;
    return false;
}

enum status graph_remove_nodes(struct graph *g, const uint64_t *ids, uint64_t n,
                               struct graph_counts *out, struct failure *f)
{
    struct nodes_removal r = {.ids = ids, .n = n};
    enum status st = STATUS_OK;
    r.counts.missing = n;
    if (finds_any(g->now, ids, n)) st = graph_write_run(g, work_of(g->now, n), remove_some, &r, f);
    if (!st) *out = r.counts;
    return st;
}
