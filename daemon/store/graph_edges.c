#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "daemon/store/graph_inside.h"

enum { BATCH = 256, FEW = 256, REQUEST_EDGES_MAX = GRAPH_DEGREE_MAX };

/* Edges to add: first as given, then as pairs of node numbers. */
struct batch {
    struct graph *g;
    uint64_t n;
    const float *weights;
    bool replace;
    struct heap_block block;
    uint32_t *sources, *targets;
    uint32_t made;
    uint32_t weight_bits; /* the bits of the largest magnitude among the weights */
    uint64_t gone;        /* how many edges are replaced */
};

/* ---- look ---- */

enum status graph_check_count(uint64_t n, struct failure *f)
{
    if (n <= REQUEST_EDGES_MAX) return STATUS_OK;
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_NODES,
                       "%" PRIu64 " edges in one request", n);
}

static enum status check_weights(struct batch *b, struct failure *f)
{
    uint32_t most = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        uint32_t bits;
        memcpy(&bits, &b->weights[i], sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    b->weight_bits = most;
    float magnitude;
    memcpy(&magnitude, &most, sizeof magnitude);
    if (isfinite(magnitude)) return STATUS_OK;
    uint64_t i = 0;
    while (isfinite(b->weights[i]))
        i++;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT,
                       "edge %" PRIu64 ": its weight is not a finite number", i);
}

enum status graph_check_ids(const uint64_t *ids, uint64_t n, const char *what, struct failure *f)
{
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] == GRAPH_NOBODY)
            return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE,
                               "%s %" PRIu64 ": 2^64 - 1 is no node's id", what, i);
    return STATUS_OK;
}

static enum status batch_take(struct batch *b, uint64_t more, struct failure *f)
{
    uint64_t bytes = (b->n * 2 + more) * sizeof *b->sources;
    enum status st = graph_scratch(b->g, bytes, &b->block);
    if (st) return graph_refuse(b->g, st, "the new edges", f);
    b->sources = b->block.data;
    b->targets = b->sources + b->n;
    return STATUS_OK;
}

/* ---- into the lists that are there ---- */

struct merge {
    struct heap_block block;
    struct graph_half *halves[SIDES], *spare;
};

static enum status merge_plan(struct batch *b, struct merge *m, enum graph_side_of side,
                              struct failure *f)
{
    struct graph *g = b->g;
    const uint32_t *nodes = side == SIDE_OUT ? b->sources : b->targets;
    const uint32_t *others = side == SIDE_OUT ? b->targets : b->sources;
    struct graph_half *halves = m->halves[side];
    for (uint64_t i = 0; i < b->n; i++)
        halves[i] =
            (struct graph_half){.node = nodes[i], .other = others[i], .weight = b->weights[i]};
    m->halves[side] = halves_sort(halves, m->spare, b->n, b->replace);
    if (m->halves[side] != halves) m->spare = halves;

    uint64_t places = 0, gone = 0;
    struct half_run run;
    for (uint64_t i = 0; i < b->n; i += run.count) {
        run = halves_run(m->halves[side] + i, b->n - i);
        struct list_plan plan = list_plan_run(g, side, run, b->replace);
        if (plan.count > GRAPH_DEGREE_MAX)
            return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_NODES,
                               "node %" PRIu64 " would have %" PRIu64 " edges, more than %d",
                               ids_of(g)[run.halves[0].node], plan.count, GRAPH_DEGREE_MAX);
        places += plan.places;
        gone += plan.gone;
    }
    b->gone = gone;
    uint64_t used = g->sides[side].used;
    enum status st = graph_part_reserve(g, GRAPH_OUT_EDGES + side, used + places, used);
    return st ? graph_refuse(g, st, "the new edges", f) : STATUS_OK;
}

static void merge_side(const struct batch *b, struct graph_half *halves, enum graph_side_of side)
{
    struct half_run run;
    for (uint64_t i = 0; i < b->n; i += run.count) {
        run = halves_run(halves + i, b->n - i);
        list_take_run(b->g, side, run, b->replace);
    }
}

static enum status merge(struct batch *b, struct failure *f)
{
    struct graph *g = b->g;
    struct merge m;
    enum status st = graph_scratch(g, b->n * 3 * sizeof(struct graph_half), &m.block);
    if (st) return graph_refuse(g, st, "sorting the new edges", f);
    struct graph_half *halves = m.block.data;
    m.halves[SIDE_OUT] = halves;
    m.halves[SIDE_IN] = halves + b->n;
    m.spare = halves + b->n * 2;
    st = merge_plan(b, &m, SIDE_OUT, f);
    /* in-lists can be long: they are searched only if an edge is replaced at all */
    b->replace = b->gone;
    if (!st) st = merge_plan(b, &m, SIDE_IN, f);
    if (!st) st = graph_reserve_nodes(g, b->made, f);
    if (!st) {
        graph_keep_nodes(g, b->made);
        merge_side(b, m.halves[SIDE_OUT], SIDE_OUT);
        merge_side(b, m.halves[SIDE_IN], SIDE_IN);
        g->edge_count += b->n - b->gone;
        float magnitude;
        memcpy(&magnitude, &b->weight_bits, sizeof magnitude);
        int exponent = magnitude > 0 ? graph_exponent(magnitude) : g->weight_exponent;
        if (exponent > g->weight_exponent) g->weight_exponent = exponent;
        graph_count_weights(g, b->weights, b->n);
    }
    heap_give(g->heap, &m.block);
    return st;
}

/* ---- add ---- */

/* Completes a call whose numbers and nodes are made. st: whether making them succeeded. */
static enum status batch_finish(struct batch *b, enum status st, struct graph_counts *out,
                                struct failure *f)
{
    struct graph *g = b->g;
    uint64_t before = g->edge_count;
    bool large = b->n >= before, afresh = large && !(b->replace && before);
    bool nothing = !b->n && !b->made;
    if (!st && !nothing)
        st = afresh ? graph_build(g, b->sources, b->targets, b->weights, b->n, b->made, f)
                    : merge(b, f);
    heap_give(g->heap, &b->block);
    if (st) {
        graph_unmake_nodes(g, b->made);
        return st;
    }
    *out = (struct graph_counts){
        .edges_added = b->n, .edges_removed = b->gone, .nodes_added = b->made};
    if (nothing) return STATUS_OK;
    if (!afresh && large)
        graph_lay_out(g);
    else
        graph_tidy(g);
    graph_publish(g);
    return STATUS_OK;
}

enum status graph_add_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                            const float *weights, uint64_t n, bool replace,
                            struct graph_counts *out, struct failure *f)
{
    struct batch b = {.g = g, .n = n, .weights = weights, .replace = replace};
    enum status st = graph_check_count(n, f);
    if (!st) st = check_weights(&b, f);
    if (!st) st = graph_check_ids(sources, n, "the source of edge", f);
    if (!st) st = graph_check_ids(targets, n, "the target of edge", f);
    if (!st) st = batch_take(&b, 0, f);
    if (st) return st;
    st = graph_make_nodes(g, sources, n, b.sources, &b.made, f);
    if (!st) st = graph_make_nodes(g, targets, n, b.targets, &b.made, f);
    return batch_finish(&b, st, out, f);
}

/* ---- for changes of weights ---- */

enum status graph_put_edges(struct graph *g, uint32_t *sources, uint32_t *targets,
                            const float *weights, uint64_t n, uint32_t made, struct failure *f)
{
    struct batch b = {
        .g = g, .n = n, .weights = weights, .sources = sources, .targets = targets, .made = made};
    if (!g->edge_count) return graph_build(g, sources, targets, weights, n, made, f);
    enum status st = check_weights(&b, f);
    return st ? st : merge(&b, f);
}

void graph_settle(struct graph *g, uint64_t n, uint64_t before)
{
    if (before && n >= before)
        graph_lay_out(g);
    else
        graph_tidy(g);
}

/* ---- a matrix ---- */

static enum status check_offsets(const uint64_t *offsets, uint64_t rows, uint64_t n,
                                 struct failure *f)
{
    if (offsets[0] != 0)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "offset 0 is %" PRIu64 ", not 0", offsets[0]);
    for (uint64_t i = 0; i < rows; i++)
        if (offsets[i + 1] < offsets[i])
            return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                               "offset %" PRIu64 " is %" PRIu64 ", less than the one before it",
                               i + 1, offsets[i + 1]);
    if (offsets[rows] != n)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "the last offset is %" PRIu64 ", and there are %" PRIu64 " columns",
                           offsets[rows], n);
    return STATUS_OK;
}

static enum status check_columns(const uint64_t *columns, uint64_t n, uint64_t rows,
                                 struct failure *f)
{
    for (uint64_t i = 0; i < n; i++)
        if (columns[i] >= rows)
            return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE,
                               "edge %" PRIu64 ": its column %" PRIu64
                               " is none of the matrix's %" PRIu64 " rows",
                               i, columns[i], rows);
    return STATUS_OK;
}

/* Makes nodes 0 .. rows - 1, for a matrix without row ids. */
static enum status make_rows(struct batch *b, uint64_t rows, uint32_t *numbers, struct failure *f)
{
    uint64_t ids[BATCH];
    for (uint64_t first = 0; first < rows; first += BATCH) {
        uint64_t count = rows - first < BATCH ? rows - first : BATCH;
        for (uint64_t i = 0; i < count; i++)
            ids[i] = first + i;
        enum status st = graph_make_nodes(b->g, ids, count, numbers + first, &b->made, f);
        if (st) return st;
    }
    return STATUS_OK;
}

enum status graph_add_csr(struct graph *g, const uint64_t *row_ids, uint64_t rows,
                          const uint64_t *offsets, const uint64_t *columns, const float *weights,
                          uint64_t n, bool replace, struct graph_counts *out, struct failure *f)
{
    struct batch b = {.g = g, .n = n, .weights = weights, .replace = replace};
    if (rows > GRAPH_NODES_MAX)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_NODES,
                           "%" PRIu64 " rows in one request", rows);
    enum status st = graph_check_count(n, f);
    if (!st) st = check_offsets(offsets, rows, n, f);
    if (!st) st = check_weights(&b, f);
    if (!st && row_ids) st = graph_check_ids(row_ids, rows, "row", f);
    if (!st)
        st = row_ids ? check_columns(columns, n, rows, f)
                     : graph_check_ids(columns, n, "the target of edge", f);
    if (!st) st = batch_take(&b, rows, f);
    if (st) return st;

    uint32_t *numbers = b.targets + n;
    st = row_ids ? graph_make_nodes(g, row_ids, rows, numbers, &b.made, f)
                 : make_rows(&b, rows, numbers, f);
    if (!st && !row_ids) st = graph_make_nodes(g, columns, n, b.targets, &b.made, f);
    for (uint64_t row = 0; !st && row < rows; row++)
        for (uint64_t i = offsets[row]; i < offsets[row + 1]; i++)
            b.sources[i] = numbers[row];
    for (uint64_t i = 0; !st && row_ids && i < n; i++)
        b.targets[i] = numbers[columns[i]];
    return batch_finish(&b, st, out, f);
}

/* ---- remove ---- */

/* Writes the pairs whose nodes both exist as halves. */
static uint64_t find_pairs(const struct graph *g, const uint64_t *sources, const uint64_t *targets,
                           uint64_t n, struct graph_half *halves)
{
    uint32_t nodes[BATCH], others[BATCH];
    uint64_t found = 0;
    for (uint64_t first = 0; first < n; first += BATCH) {
        uint64_t count = n - first < BATCH ? n - first : BATCH;
        graph_find_many(g, sources + first, count, nodes);
        graph_find_many(g, targets + first, count, others);
        for (uint64_t i = 0; i < count; i++)
            if (nodes[i] != ID_INDEX_NONE && others[i] != ID_INDEX_NONE)
                halves[found++] = (struct graph_half){.node = nodes[i], .other = others[i]};
    }
    return found;
}

static uint64_t drop_halves(struct graph *g, enum graph_side_of side, struct graph_half *halves,
                            uint64_t n)
{
    uint64_t dropped = 0;
    struct half_run run;
    for (uint64_t i = 0; i < n; i += run.count) {
        run = halves_run(halves + i, n - i);
        dropped += list_drop_run(g, side, run);
    }
    return dropped;
}

static void remove_some(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                        uint64_t n, struct graph_half *halves, struct graph_half *spare,
                        struct graph_counts *counts)
{
    uint64_t pairs = find_pairs(g, sources, targets, n, halves), hits = 0;
    struct graph_half *sorted = halves_sort(halves, spare, pairs, true);
    if (sorted != halves) spare = halves;
    counts->edges_removed += drop_halves(g, SIDE_OUT, sorted, pairs);
    for (uint64_t i = 0; i < pairs; i++)
        if (sorted[i].weight > 0)
            sorted[hits++] = (struct graph_half){.node = sorted[i].other, .other = sorted[i].node};
    counts->missing += n - hits;
    sorted = halves_sort(sorted, spare, hits, true);
    drop_halves(g, SIDE_IN, sorted, hits);
}

void graph_remove_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                        uint64_t n, struct graph_counts *out)
{
    /* All pairs at once, or, if there is no memory for that, FEW at a time. */
    struct graph_half few[2][FEW], *halves = few[0], *spare = few[1];
    struct heap_block block = {0};
    uint64_t step = FEW;
    if (n > FEW && graph_scratch(g, n * 2 * sizeof *halves, &block) == STATUS_OK) {
        halves = block.data;
        spare = halves + n;
        step = n;
    }
    struct graph_counts counts = {0};
    for (uint64_t first = 0; first < n; first += step) {
        uint64_t count = n - first < step ? n - first : step;
        remove_some(g, sources + first, targets + first, count, halves, spare, &counts);
    }
    heap_give(g->heap, &block);
    *out = counts;
    if (!counts.edges_removed) return;
    g->edge_count -= counts.edges_removed;
    graph_tidy(g);
    graph_publish(g);
}
