#include <inttypes.h>
#include <math.h>

#include "daemon/store/graph_inside.h"

enum { NOWHERE = UINT32_MAX };

/* Deltas on their way into a graph. Halves are those of the edges out of the sources, sorted, so
 * that the deltas of one pair lie together, in the request's order. */
struct weighing {
    struct graph_edition *g;
    const struct graph_deltas *d;
    float *out; /* as the caller gets them */
    struct heap_block block;
    uint32_t *sources, *targets;
    uint32_t made;
    struct graph_half *halves, *spare;
    /* at the place of a pair's first half: the edges that lead there, and the weight of the last */
    struct edges_seen {
        uint32_t count;
        float weight;
    } * seen;
    float *weights; /* of edges to make */
    uint64_t pairs, fresh;
};

/* ---- look ---- */

static enum status check(const struct graph_deltas *d, struct failure *f)
{
    enum status st = graph_check_count(d->n, f);
    if (!st) st = graph_check_ids(d->sources, d->n, "the source of edge", f);
    if (!st) st = graph_check_ids(d->targets, d->n, "the target of edge", f);
    for (uint64_t i = 0; !st && i < d->n; i++)
        if (!isfinite(d->deltas[i]))
            st = failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT,
                             "edge %" PRIu64 ": what is to be added is not a finite number", i);
    return st;
}

static enum status take(struct weighing *w, struct failure *f)
{
    uint64_t n = w->d->n;
    uint64_t bytes =
        n * (2 * sizeof *w->halves + sizeof *w->seen + sizeof *w->weights + 2 * sizeof *w->sources);
    enum status st = graph_scratch(w->g, bytes, &w->block);
    if (st) return graph_refuse(w->g, st, "the changes of weights", f);
    w->halves = w->block.data;
    w->spare = w->halves + n;
    w->seen = (struct edges_seen *)(w->spare + n);
    w->weights = (float *)(w->seen + n);
    w->sources = (uint32_t *)(w->weights + n);
    w->targets = w->sources + n;
    return STATUS_OK;
}

/* Finds the nodes' numbers, and makes the missing nodes if that is wanted. */
static enum status find_nodes(struct weighing *w, struct failure *f)
{
    const struct graph_deltas *d = w->d;
    enum status st = STATUS_OK;
    if (d->create) {
        st = graph_make_nodes(w->g, d->sources, d->n, w->sources, &w->made, f);
        if (!st) st = graph_make_nodes(w->g, d->targets, d->n, w->targets, &w->made, f);
    } else {
        graph_find_many(w->g, d->sources, d->n, w->sources);
        graph_find_many(w->g, d->targets, d->n, w->targets);
    }
    return st;
}

/* Counts the edges of each pair of a run, which has one source. */
static void see_run(struct weighing *w, struct half_run run)
{
    uint32_t node = run.halves[0].node;
    if (node >= w->g->numbers) return; /* it was just made, or is not there */
    struct spread_list list = *list_of(w->g, SIDE_OUT, node);
    const struct spread_edge *edges = edges_of(w->g, SIDE_OUT) + list.first;
    for (uint32_t i = 0; i < list.count; i++) {
        const struct graph_half *first = halves_find(run, edges[i].node);
        if (!first) continue;
        struct edges_seen *seen = &w->seen[first - w->halves];
        seen->count++;
        seen->weight = edges[i].weight;
    }
}

static void see(struct weighing *w)
{
    uint64_t n = w->d->n;
    for (uint64_t i = 0; i < n; i++) {
        graph_yield(i);
        w->halves[i] = (struct graph_half){.node = w->sources[i], .other = w->targets[i]};
        w->halves[i].at = (uint32_t)i;
        w->seen[i] = (struct edges_seen){0};
    }
    struct graph_half *sorted = halves_sort(w->halves, w->spare, n, true);
    if (sorted != w->halves) w->spare = w->halves;
    w->halves = sorted;
    struct half_run run;
    uint64_t work = 0;
    for (uint64_t i = 0; i < n; i += run.count) {
        run = halves_run(sorted + i, n - i);
        graph_pace(&work, run.count * 4);
        see_run(w, run);
    }
}

static bool same_pair(const struct graph_half *a, const struct graph_half *b)
{
    return a->node == b->node && a->other == b->other;
}

/* ---- add ---- */

static float clamp(const struct graph_deltas *d, float weight)
{
    return weight < d->low ? d->low : weight > d->high ? d->high : weight;
}

/* Adds the deltas of the pair whose first half is number i, and keeps one half with the sum, among
 * those of edges that are there or in the arrays of edges to make. Returns where the next pair
 * begins. */
static uint64_t add_pair(struct weighing *w, uint64_t i)
{
    struct graph_half pair = w->halves[i];
    bool there = w->seen[i].count;
    float weight = there ? w->seen[i].weight : 0;
    for (; i < w->d->n && same_pair(&w->halves[i], &pair); i++) {
        uint32_t at = w->halves[i].at;
        weight = clamp(w->d, weight + w->d->deltas[at]);
        w->out[at] = weight;
    }
    if (there) {
        pair.weight = weight;
        w->halves[w->pairs++] = pair;
    } else {
        w->sources[w->fresh] = pair.node;
        w->targets[w->fresh] = pair.other;
        w->weights[w->fresh++] = weight;
    }
    return i;
}

static enum status refuse(const struct weighing *w, uint32_t at, bool several, struct failure *f)
{
    return failure_set(
        f, several ? STATUS_FAILED_PRECONDITION : STATUS_NOT_FOUND,
        several ? DETAIL_SEVERAL_EDGES : DETAIL_UNKNOWN_EDGE,
        several ? "edge %" PRIu32 ": several lead from node %" PRIu64 " to node %" PRIu64
                : "edge %" PRIu32 ": there is none from node %" PRIu64 " to node %" PRIu64,
        at, w->d->sources[at], w->d->targets[at]);
}

/* Refuses the first edge, in the request's order, of which there is not exactly one. */
static enum status check_pairs(const struct weighing *w, struct failure *f)
{
    uint32_t worst = NOWHERE;
    bool several = false;
    for (uint64_t i = 0; i < w->d->n; i++) {
        graph_yield(i);
        const struct graph_half *h = &w->halves[i];
        uint32_t count = w->seen[i].count;
        bool first = !i || !same_pair(h, h - 1);
        if (!first || count == 1 || (!count && w->d->create) || h->at > worst) continue;
        worst = h->at;
        several = count > 1;
    }
    return worst == NOWHERE ? STATUS_OK : refuse(w, worst, several, f);
}

static void set_side(struct weighing *w, enum graph_side_of side)
{
    struct half_run run;
    uint64_t work = 0;
    for (uint64_t i = 0; i < w->pairs; i += run.count) {
        run = halves_run(w->halves + i, w->pairs - i);
        graph_pace(&work, run.count * 4);
        list_set_run(w->g, side, run);
    }
}

static void set_weights(struct weighing *w)
{
    set_side(w, SIDE_OUT);
    for (uint64_t i = 0; i < w->pairs; i++) {
        graph_yield(i);
        struct graph_half *h = &w->halves[i];
        *h = (struct graph_half){.node = h->other, .other = h->node, .weight = h->weight};
    }
    w->halves = halves_sort(w->halves, w->spare, w->pairs, true);
    set_side(w, SIDE_IN);
}

static enum status weigh(struct weighing *w, struct failure *f)
{
    enum status st = find_nodes(w, f);
    if (st) return st;
    see(w);
    st = check_pairs(w, f);
    for (uint64_t i = 0, next, work = 0; !st && i < w->d->n; i = next) {
        next = add_pair(w, i);
        graph_pace(&work, next - i);
    }
    if (!st && w->fresh)
        st = graph_put_edges(w->g, w->sources, w->targets, w->weights, w->fresh, w->made, f);
    if (!st) set_weights(w);
    return st;
}

static enum status change(struct graph_edition *g, void *write, struct failure *f)
{
    struct weighing *w = write;
    uint64_t before = g->edge_count;
    w->g = g;
    w->made = 0;
    w->pairs = w->fresh = 0;
    enum status st = take(w, f);
    if (st) return st;
    st = weigh(w, f);
    heap_give(g->of->heap, &w->block);
    if (st) {
        graph_unmake_nodes(g, w->made);
        return st;
    }
    graph_settle(g, w->fresh, before);
    graph_complete(g);
    return STATUS_OK;
}

enum status graph_add_weights(struct graph *g, const struct graph_deltas *d, float *weights,
                              struct graph_counts *out, struct failure *f)
{
    struct weighing w = {.d = d, .out = weights};
    *out = (struct graph_counts){0};
    enum status st = check(d, f);
    if (!st && d->n) st = graph_write_run(g, d->n, change, &w, f);
    if (!st) *out = (struct graph_counts){.edges_added = w.fresh, .nodes_added = w.made};
    return st;
}
