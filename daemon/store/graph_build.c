#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "daemon/store/graph_inside.h"

enum {
    NEAR = 16, /* how many edges ahead a prefetch is: of the place, and of the list */
    FAR = 48,
    DIGIT_BITS = 11,
    DIGITS = 1 << DIGIT_BITS
};

/* ---- order ---- */

/* Writes the numbers first .. first + n - 1 by falling degree, and by number within a degree;
 * degrees are those of these nodes. A radix sort by ~degree, with as many digits as the largest
 * degree has. */
static void order_window(const uint32_t *degrees, uint32_t first, uint32_t n, uint32_t *order)
{
    uint32_t most = 0, spare[SPREAD_WINDOW];
    for (uint32_t i = 0; i < n; i++)
        most = degrees[i] > most ? degrees[i] : most;
    int rounds = 1;
    while (rounds * DIGIT_BITS < 32 && most >> (rounds * DIGIT_BITS))
        rounds++;
    uint32_t *from = rounds % 2 ? spare : order;
    for (uint32_t i = 0; i < n; i++)
        from[i] = first + i;
    for (int round = 0; round < rounds; round++) {
        uint32_t places[DIGITS] = {0}, sum = 0, *to = from == order ? spare : order;
        int shift = round * DIGIT_BITS;
        for (uint32_t i = 0; i < n; i++)
            places[(most - degrees[i]) >> shift & (DIGITS - 1)]++;
        for (uint32_t value = 0; value < DIGITS; value++) {
            uint32_t count = places[value];
            places[value] = sum;
            sum += count;
        }
        for (uint32_t i = 0; i < n; i++)
            to[places[(most - degrees[from[i] - first]) >> shift & (DIGITS - 1)]++] = from[i];
        from = to;
    }
}

/* degrees: of all nodes; NULL: the present lengths of the in-lists. */
static void write_order(struct graph_edition *g, const uint32_t *degrees)
{
    uint32_t counts[SPREAD_WINDOW], n;
    if (!graph_part_own(g, GRAPH_ORDER, g->numbers)) return;
    uint32_t *order = part_of(g, GRAPH_ORDER);
    for (uint32_t first = 0; first < g->numbers; first += n) {
        graph_yield(first);
        n = g->numbers - first < SPREAD_WINDOW ? g->numbers - first : SPREAD_WINDOW;
        for (uint32_t i = 0; i < n; i++)
            counts[i] = degrees ? degrees[first + i] : list_of(g, SIDE_IN, first + i)->count;
        order_window(counts, first, n, order + first);
    }
    graph_mark(g, GRAPH_ORDER, 0, g->numbers);
    g->order_changes = 0;
}

/* ---- measures ---- */

void graph_count_weights(struct graph_edition *g, const float *weights, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (n > 1) graph_yield(i);
        uint32_t size = graph_weight_size(weights[i]);
        if (size > g->weight_size) {
            g->weight_size = size;
            g->largest_count = 0;
        }
        g->largest_count += size == g->weight_size;
    }
}

static int exponent_of_bits(uint32_t bits, int of_none)
{
    float magnitude;
    memcpy(&magnitude, &bits, sizeof magnitude);
    return bits ? graph_exponent(magnitude) : of_none;
}

static void measure_weights(struct graph_edition *g)
{
    const struct spread_edge *edges = edges_of(g, SIDE_OUT);
    uint32_t most = 0;
    g->weight_size = 0;
    g->largest_count = 0;
    for (uint32_t i = 0; i < g->numbers; i++) {
        const struct spread_list *list = list_of(g, SIDE_OUT, i);
        if (i % 1024 == 0) yield_check();
        for (uint32_t e = 0; e < list->count; e++) {
            float weight = edges[list->first + e].weight;
            uint32_t bits;
            memcpy(&bits, &weight, sizeof bits);
            bits &= INT32_MAX;
            most = bits > most ? bits : most;
            graph_count_weights(g, &weight, 1);
        }
    }
    g->weight_exponent = exponent_of_bits(most, INT_MIN);
}

/* Computes anew the bounds that only grew since the last layout. */
static void measure(struct graph_edition *g)
{
    for (int side = 0; side < SIDES; side++) {
        g->sides[side].count_max = 0;
        for (uint32_t i = 0; i < g->numbers; i++) {
            graph_yield(i);
            uint32_t count = list_of(g, side, i)->count;
            if (count > g->sides[side].count_max) g->sides[side].count_max = count;
        }
    }
    measure_weights(g);
    const float *factors = part_of(g, GRAPH_FACTORS);
    float factor = 1;
    for (uint32_t i = 0; factors && i < g->numbers; i++) {
        graph_yield(i);
        factor = factors[i] > factor ? factors[i] : factor;
    }
    g->factor_exponent = graph_exponent(factor);
}

static bool own_edges(struct graph_edition *g)
{
    return graph_part_own(g, GRAPH_OUT_EDGES, g->sides[SIDE_OUT].used) &&
           graph_part_own(g, GRAPH_IN_EDGES, g->sides[SIDE_IN].used);
}

void graph_lay_out(struct graph_edition *g)
{
    struct heap_block map;
    if (g->of->write.starved) return;
    if (own_edges(g) && graph_renumber(g, NULL, &map)) {
        graph_renumber_edges(g, map.data);
        heap_give(g->of->heap, &map);
    }
    write_order(g, NULL);
    side_rewrite(g, SIDE_OUT, NULL, true);
    side_rewrite(g, SIDE_IN, part_of(g, GRAPH_ORDER), true);
    measure(g);
    g->of->write.starved = STATUS_OK; /* what found no memory is only a better place */
}

static bool order_is_old(const struct graph_edition *g)
{
    return g->order_changes * 4 > g->numbers;
}

bool graph_upkeep_is_due(const struct graph_edition *g)
{
    return order_is_old(g) || side_is_loose(g, SIDE_OUT) || side_is_loose(g, SIDE_IN);
}

void graph_tidy(struct graph_edition *g)
{
    if (g->of->write.starved) return;
    if (g->weight_size && !g->largest_count) measure_weights(g);
    if (graph_upkeep_waits(g)) return;
    if (order_is_old(g)) write_order(g, NULL);
    if (side_is_loose(g, SIDE_OUT)) side_rewrite(g, SIDE_OUT, NULL, false);
    if (side_is_loose(g, SIDE_IN)) side_rewrite(g, SIDE_IN, part_of(g, GRAPH_ORDER), false);
    g->of->write.starved = STATUS_OK;
}

/* ---- a layout with new edges ---- */

struct build {
    struct graph_edition *g;
    uint64_t n;
    uint32_t numbers;          /* including the nodes made by this call */
    struct heap_block scratch; /* memory of the two arrays of degrees */
    uint32_t *degrees[SIDES];  /* after the new edges are in */
    struct heap_block map;     /* from old numbers to new ones; empty if nodes keep their numbers */
    struct graph_piece *edges[SIDES];
};

static enum status count_side(struct build *b, enum graph_side_of side, const uint32_t *nodes,
                              struct failure *f)
{
    uint32_t *degrees = b->degrees[side];
    for (uint32_t i = 0; i < b->g->numbers; i++) {
        graph_yield(i);
        degrees[i] = list_of(b->g, side, i)->count;
    }
    memset(degrees + b->g->numbers, 0, (b->numbers - b->g->numbers) * sizeof *degrees);
    for (uint64_t i = 0; i < b->n; i++) {
        graph_yield(i);
        if (i + NEAR < b->n) __builtin_prefetch(&degrees[nodes[i + NEAR]], 1);
        degrees[nodes[i]]++;
    }
    uint64_t places = 0;
    for (uint32_t i = 0; i < b->numbers; i++) {
        graph_yield(i);
        if (degrees[i] > GRAPH_DEGREE_MAX)
            return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_NODES,
                               "node %" PRIu64 " would have %" PRIu32 " edges, more than %d",
                               ids_of(b->g)[i], degrees[i], GRAPH_DEGREE_MAX);
        places += (degrees[i] + 1) & ~UINT32_C(1);
    }
    if (!places) return STATUS_OK;
    enum status st = graph_edges_take(b->g, places, &b->edges[side]);
    return st ? graph_refuse(b->g, st, "the new edges", f) : STATUS_OK;
}

static void copy_edges(struct spread_edge *to, const struct spread_edge *from, uint32_t count,
                       const uint32_t *map)
{
    for (uint32_t i = 0; i < count; i++)
        to[i] = (struct spread_edge){map ? map[from[i].node] : from[i].node, from[i].weight};
}

/* Copies each list with its present edges to its new place. */
static void place_side(struct build *b, enum graph_side_of side, const uint32_t *order)
{
    struct graph_edition *g = b->g;
    const struct spread_edge *from = edges_of(g, side);
    struct graph_piece *piece = b->edges[side];
    struct spread_edge *to = piece ? piece->block.data : NULL;
    graph_populate(to, piece ? piece->block.bytes : 0);
    uint64_t at = 0;
    for (uint32_t i = 0; i < g->numbers; i++) {
        graph_yield(i);
        if (i + NEAR < g->numbers)
            __builtin_prefetch(&from[list_at(g, side, order ? order[i + NEAR] : i + NEAR)->first]);
        uint32_t node = order ? order[i] : i;
        struct spread_list *list = list_at(g, side, node);
        uint32_t room = (b->degrees[side][node] + 1) & ~UINT32_C(1);
        copy_edges(to + at, from + list->first, list->count, b->map.data);
        *list = (struct spread_list){.first = room ? at : 0, .count = list->count, .room = room};
        at += room;
    }
    graph_part_replace(g, (enum graph_part)(GRAPH_OUT_EDGES + side), piece);
    b->edges[side] = NULL;
    g->sides[side].used = at;
    g->sides[side].holes = 0;
    graph_mark(g, (enum graph_part)(GRAPH_OUT + side), 0, g->numbers);
    graph_mark(g, (enum graph_part)(GRAPH_OUT_EDGES + side), 0, at);
}

static void fill_side(struct graph_edition *g, enum graph_side_of side, const uint32_t *nodes,
                      const uint32_t *others, const float *weights, uint64_t n)
{
    struct spread_edge *edges = edges_of(g, side);
    for (uint64_t i = 0; i < n; i++) {
        graph_yield(i);
        if (i + FAR < n) {
            __builtin_prefetch(list_at(g, side, nodes[i + FAR]), 1);
            const struct spread_list *soon = list_at(g, side, nodes[i + NEAR]);
            __builtin_prefetch(&edges[soon->first + soon->count], 1);
        }
        struct spread_list *list = list_at(g, side, nodes[i]);
        edges[list->first + list->count++] = (struct spread_edge){others[i], weights[i]};
    }
}

static enum status build_reserve(struct build *b, const uint32_t *sources, const uint32_t *targets,
                                 uint32_t made, struct failure *f)
{
    uint64_t bytes = (uint64_t)b->numbers * SIDES * sizeof(uint32_t);
    enum status st = graph_scratch(b->g, bytes, &b->scratch);
    if (st) return graph_refuse(b->g, st, "laying out the edges", f);
    uint32_t *words = b->scratch.data;
    b->degrees[SIDE_OUT] = words;
    b->degrees[SIDE_IN] = words + b->numbers;
    st = count_side(b, SIDE_OUT, sources, f);
    if (!st) st = count_side(b, SIDE_IN, targets, f);
    if (!st) st = graph_reserve_nodes(b->g, made, f);
    return st;
}

static void renumber(struct build *b, uint32_t *sources, uint32_t *targets)
{
    if (!graph_renumber(b->g, b->degrees, &b->map)) return;
    const uint32_t *map = b->map.data;
    for (uint64_t i = 0; i < b->n; i++) {
        graph_yield(i);
        sources[i] = map[sources[i]];
        targets[i] = map[targets[i]];
    }
}

enum status graph_build(struct graph_edition *g, uint32_t *sources, uint32_t *targets,
                        const float *weights, uint64_t n, uint32_t made, struct failure *f)
{
    struct build b = {.g = g, .n = n, .numbers = graph_numbers_with(g, made)};
    enum status st = build_reserve(&b, sources, targets, made, f);
    if (!st) {
        graph_keep_nodes(g, made);
        if (g->of->write.starved || !graph_nodes_own(g)) goto done;
        renumber(&b, sources, targets);
        write_order(g, b.degrees[SIDE_IN]);
        place_side(&b, SIDE_OUT, NULL);
        fill_side(g, SIDE_OUT, sources, targets, weights, n);
        place_side(&b, SIDE_IN, part_of(g, GRAPH_ORDER));
        fill_side(g, SIDE_IN, targets, sources, weights, n);
        g->edge_count += n;
        measure(g);
    }
done:
    for (int side = 0; side < SIDES; side++)
        graph_piece_free(g->of->heap, b.edges[side]);
    heap_give(g->of->heap, &b.map);
    heap_give(g->of->heap, &b.scratch);
    return st;
}
