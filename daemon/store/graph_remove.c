/* graph_remove: edges go, by the pairs of nodes that they join. */
#include "daemon/store/graph_inside.h"

enum { BATCH = 256, FEW = 256 };

/* Writes the pairs whose nodes both exist as halves. */
static uint64_t find_pairs(const struct graph_edition *g, const uint64_t *sources,
                           const uint64_t *targets, uint64_t n, struct graph_half *halves)
{
    uint32_t nodes[BATCH], others[BATCH];
    uint64_t found = 0;
    for (uint64_t first = 0; first < n; first += BATCH) {
        uint64_t count = n - first < BATCH ? n - first : BATCH;
        if (first % (8 * BATCH) == 0) yield_check();
        graph_find_many(g, sources + first, count, nodes);
        graph_find_many(g, targets + first, count, others);
        for (uint64_t i = 0; i < count; i++)
            if (nodes[i] != SPREAD_NO_NODE && others[i] != SPREAD_NO_NODE)
                halves[found++] = (struct graph_half){.node = nodes[i], .other = others[i]};
    }
    return found;
}

static uint64_t drop_halves(struct graph_edition *g, enum graph_side_of side,
                            struct graph_half *halves, uint64_t n)
{
    uint64_t dropped = 0, work = 0;
    struct half_run run;
    for (uint64_t i = 0; i < n; i += run.count) {
        run = halves_run(halves + i, n - i);
        graph_pace(&work, run.count * 4);
        dropped += list_drop_run(g, side, run);
    }
    return dropped;
}

static void remove_some(struct graph_edition *g, const uint64_t *sources, const uint64_t *targets,
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

struct edges_removal {
    const uint64_t *sources, *targets;
    uint64_t n;
    struct graph_counts counts;
};

static enum status remove_pairs(struct graph_edition *g, void *write, struct failure *f)
{
    struct edges_removal *r = write;
    /* All pairs at once, or, if there is no memory for that, FEW at a time. */
    struct graph_half few[2][FEW], *halves = few[0], *spare = few[1];
    struct heap_block block = {0};
    uint64_t n = r->n, step = FEW;
    if (n > FEW && graph_scratch(g, n * 2 * sizeof *halves, &block) == STATUS_OK) {
        halves = block.data;
        spare = halves + n;
        step = n;
    }
    r->counts = (struct graph_counts){0};
    for (uint64_t first = 0; first < n; first += step) {
        uint64_t count = n - first < step ? n - first : step;
        remove_some(g, r->sources + first, r->targets + first, count, halves, spare, &r->counts);
    }
    heap_give(g->of->heap, &block);
    if (!r->counts.edges_removed) return STATUS_OK;
    g->edge_count -= r->counts.edges_removed;
    graph_tidy(g);
    graph_complete(g);
    return STATUS_OK;
}

enum status graph_remove_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                               uint64_t n, struct graph_counts *out, struct failure *f)
{
    struct edges_removal r = {.sources = sources, .targets = targets, .n = n};
    enum status st = graph_write_run(g, n, remove_pairs, &r, f);
    if (!st) *out = r.counts;
    return st;
}
