#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "daemon/store/graph_inside.h"

enum { BATCH = 256, REQUEST_EDGES_MAX = GRAPH_DEGREE_MAX };

/* Edges to add: first as given, then as pairs of node numbers. */
struct batch {
    struct graph_edition *g;
    uint64_t n;
    const float *weights;
    bool replace;
    struct heap_block block;
    uint32_t *sources, *targets;
    uint32_t made;
    uint32_t weight_bits; /* the bits of the largest magnitude among the weights */
    uint64_t gone;        /* how many edges are replaced */
    bool counts_doubled;
    uint64_t doubled; /* how many come beside others */
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
        graph_yield(i);
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
    for (uint64_t i = 0; i < n; i++) {
        graph_yield(i);
        if (ids[i] == GRAPH_NOBODY)
            return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE,
                               "%s %" PRIu64 ": 2^64 - 1 is no node's id", what, i);
    }
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
    struct graph_edition *g = b->g;
    const uint32_t *nodes = side == SIDE_OUT ? b->sources : b->targets;
    const uint32_t *others = side == SIDE_OUT ? b->targets : b->sources;
    struct graph_half *halves = m->halves[side];
    for (uint64_t i = 0; i < b->n; i++) {
        graph_yield(i);
        halves[i] =
            (struct graph_half){.node = nodes[i], .other = others[i], .weight = b->weights[i]};
    }
    m->halves[side] = halves_sort(halves, m->spare, b->n, b->replace);
    if (m->halves[side] != halves) m->spare = halves;

    uint64_t places = 0, gone = 0;
    struct half_run run;
    for (uint64_t i = 0, work = 0; i < b->n; i += run.count) {
        run = halves_run(m->halves[side] + i, b->n - i);
        graph_pace(&work, run.count * 2);
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
    for (uint64_t i = 0, work = 0; i < b->n; i += run.count) {
        run = halves_run(halves + i, b->n - i);
        graph_pace(&work, run.count * 4);
        list_take_run(b->g, side, run, b->replace);
    }
}

static enum status merge(struct batch *b, struct failure *f)
{
    struct graph_edition *g = b->g;
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
        if (g->of->write.starved) goto done;
        merge_side(b, m.halves[SIDE_OUT], SIDE_OUT);
        merge_side(b, m.halves[SIDE_IN], SIDE_IN);
        g->edge_count += b->n - b->gone;
        float magnitude;
        memcpy(&magnitude, &b->weight_bits, sizeof magnitude);
        int exponent = magnitude > 0 ? graph_exponent(magnitude) : g->weight_exponent;
        if (exponent > g->weight_exponent) g->weight_exponent = exponent;
        graph_count_weights(g, b->weights, b->n);
    }
done:
    heap_give(g->of->heap, &m.block);
    return st;
}

/* ---- which come beside others ---- */

/* Of a run, those whose pair of nodes has an edge; but one of each pair that has none. */
static uint64_t run_doubled(const struct graph_edition *g, struct half_run run)
{
    uint32_t node = run.halves[0].node;
    struct spread_list list = {0};
    uint64_t alone = 0;
    if (node < g->numbers) list = *list_of(g, SIDE_OUT, node);
    const struct spread_edge *edges = edges_of(g, SIDE_OUT) + list.first;
    for (uint32_t i = 0; i < list.count; i++) {
        struct graph_half *half = halves_find(run, edges[i].node);
        if (half) half->weight = 1;
    }
    for (uint64_t i = 0; i < run.count; i++) {
        bool first = !i || run.halves[i].other != run.halves[i - 1].other;
        alone += first && run.halves[i].weight == 0;
    }
    return run.count - alone;
}

static enum status count_doubled(struct batch *b, struct failure *f)
{
    struct graph_edition *g = b->g;
    struct heap_block block;
    enum status st = graph_scratch(g, b->n * 2 * sizeof(struct graph_half), &block);
    if (st) return graph_refuse(g, st, "counting the new edges", f);
    struct graph_half *halves = block.data;
    for (uint64_t i = 0; i < b->n; i++) {
        graph_yield(i);
        halves[i] = (struct graph_half){.node = b->sources[i], .other = b->targets[i]};
    }
    halves = halves_sort(halves, halves + b->n, b->n, true);
    struct half_run run;
    b->doubled = 0;
    for (uint64_t i = 0, work = 0; i < b->n; i += run.count) {
        run = halves_run(halves + i, b->n - i);
        graph_pace(&work, run.count * 4);
        b->doubled += run_doubled(g, run);
    }
    heap_give(g->of->heap, &block);
    return STATUS_OK;
}

/* ---- add ---- */

/* Completes a call whose numbers and nodes are made. st: whether making them succeeded. */
static enum status batch_finish(struct batch *b, enum status st, struct failure *f)
{
    struct graph_edition *g = b->g;
    uint64_t before = g->edge_count;
    bool large = b->n >= before, afresh = large && !(b->replace && before);
    bool nothing = !b->n && !b->made;
    if (!st && b->counts_doubled && b->n) st = count_doubled(b, f);
    if (!st && !nothing)
        st = afresh ? graph_build(g, b->sources, b->targets, b->weights, b->n, b->made, f)
                    : merge(b, f);
    heap_give(g->of->heap, &b->block);
    if (st) graph_unmake_nodes(g, b->made);
    if (st || nothing) return st;
    if (!afresh && large)
        graph_lay_out(g);
    else
        graph_tidy(g);
    graph_complete(g);
    return STATUS_OK;
}

/* A call that adds edges: what was given, and what came of it. */
struct addition {
    struct batch batch; /* of the last attempt */
    bool replace;
    const uint64_t *sources, *targets;
    const uint64_t *row_ids, *offsets; /* of a matrix, whose columns are the targets */
    uint64_t rows;
};

static enum status run_addition(struct graph *g, struct addition *a, graph_change *change,
                                struct graph_counts *out, struct failure *f)
{
    const struct batch *b = &a->batch;
    enum status st = graph_write_run(g, b->n + a->rows, change, a, f);
    if (!st)
        *out = (struct graph_counts){.edges_added = b->n,
                                     .edges_removed = b->gone,
                                     .nodes_added = b->made,
                                     .edges_doubled = b->doubled};
    return st;
}

/* Each attempt begins anew. */
static enum status begin_batch(struct addition *a, struct graph_edition *g, struct failure *f)
{
    struct batch *b = &a->batch;
    b->g = g;
    b->replace = a->replace;
    b->made = 0;
    b->gone = 0;
    return batch_take(b, a->rows, f);
}

static enum status add_pairs(struct graph_edition *g, void *write, struct failure *f)
{
    struct addition *a = write;
    struct batch *b = &a->batch;
    enum status st = begin_batch(a, g, f);
    if (st) return st;
    st = graph_make_nodes(g, a->sources, b->n, b->sources, &b->made, f);
    if (!st) st = graph_make_nodes(g, a->targets, b->n, b->targets, &b->made, f);
    return batch_finish(b, st, f);
}

static enum status run_pairs(struct graph *g, struct addition *a, struct graph_counts *out,
                             struct failure *f)
{
    uint64_t n = a->batch.n;
    enum status st = graph_check_count(n, f);
    if (!st) st = check_weights(&a->batch, f);
    if (!st) st = graph_check_ids(a->sources, n, "the source of edge", f);
    if (!st) st = graph_check_ids(a->targets, n, "the target of edge", f);
    return st ? st : run_addition(g, a, add_pairs, out, f);
}

enum status graph_add_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                            const float *weights, uint64_t n, bool replace,
                            struct graph_counts *out, struct failure *f)
{
    struct addition a = {.batch = {.n = n, .weights = weights},
                         .replace = replace,
                         .sources = sources,
                         .targets = targets};
    return run_pairs(g, &a, out, f);
}

enum status graph_add_counted(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                              const float *weights, uint64_t n, struct graph_counts *out,
                              struct failure *f)
{
    struct addition a = {.batch = {.n = n, .weights = weights, .counts_doubled = true},
                         .sources = sources,
                         .targets = targets};
    return run_pairs(g, &a, out, f);
}

/* ---- for changes of weights ---- */

enum status graph_put_edges(struct graph_edition *g, uint32_t *sources, uint32_t *targets,
                            const float *weights, uint64_t n, uint32_t made, struct failure *f)
{
    struct batch b = {
        .g = g, .n = n, .weights = weights, .sources = sources, .targets = targets, .made = made};
    if (!g->edge_count) return graph_build(g, sources, targets, weights, n, made, f);
    enum status st = check_weights(&b, f);
    return st ? st : merge(&b, f);
}

void graph_settle(struct graph_edition *g, uint64_t n, uint64_t before)
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
    for (uint64_t i = 0; i < rows; i++) {
        graph_yield(i);
        if (offsets[i + 1] < offsets[i])
            return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                               "offset %" PRIu64 " is %" PRIu64 ", less than the one before it",
                               i + 1, offsets[i + 1]);
    }
    if (offsets[rows] != n)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "the last offset is %" PRIu64 ", and there are %" PRIu64 " columns",
                           offsets[rows], n);
    return STATUS_OK;
}

static enum status check_columns(const uint64_t *columns, uint64_t n, uint64_t rows,
                                 struct failure *f)
{
    for (uint64_t i = 0; i < n; i++) {
        graph_yield(i);
        if (columns[i] >= rows)
            return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NODE,
                               "edge %" PRIu64 ": its column %" PRIu64
                               " is none of the matrix's %" PRIu64 " rows",
                               i, columns[i], rows);
    }
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

static enum status add_rows(struct graph_edition *g, void *write, struct failure *f)
{
    struct addition *a = write;
    struct batch *b = &a->batch;
    const uint64_t *offsets = a->offsets, *columns = a->targets;
    enum status st = begin_batch(a, g, f);
    if (st) return st;
    uint32_t *numbers = b->targets + b->n;
    st = a->row_ids ? graph_make_nodes(g, a->row_ids, a->rows, numbers, &b->made, f)
                    : make_rows(b, a->rows, numbers, f);
    if (!st && !a->row_ids) st = graph_make_nodes(g, columns, b->n, b->targets, &b->made, f);
    for (uint64_t row = 0; !st && row < a->rows; row++)
        for (uint64_t i = offsets[row]; i < offsets[row + 1]; i++) {
            graph_yield(i);
            b->sources[i] = numbers[row];
        }
    for (uint64_t i = 0; !st && a->row_ids && i < b->n; i++) {
        graph_yield(i);
        b->targets[i] = numbers[columns[i]];
    }
    return batch_finish(b, st, f);
}

enum status graph_add_csr(struct graph *g, const uint64_t *row_ids, uint64_t rows,
                          const uint64_t *offsets, const uint64_t *columns, const float *weights,
                          uint64_t n, bool replace, struct graph_counts *out, struct failure *f)
{
    struct addition a = {.batch = {.n = n, .weights = weights},
                         .replace = replace,
                         .targets = columns,
                         .row_ids = row_ids,
                         .offsets = offsets,
                         .rows = rows};
    if (rows > GRAPH_NODES_MAX)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_NODES,
                           "%" PRIu64 " rows in one request", rows);
    enum status st = graph_check_count(n, f);
    if (!st) st = check_offsets(offsets, rows, n, f);
    if (!st) st = check_weights(&a.batch, f);
    if (!st && row_ids) st = graph_check_ids(row_ids, rows, "row", f);
    if (!st)
        st = row_ids ? check_columns(columns, n, rows, f)
                     : graph_check_ids(columns, n, "the target of edge", f);
    return st ? st : run_addition(g, &a, add_rows, out, f);
}
