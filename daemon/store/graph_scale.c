/* graph_scale: changes of all edges of a graph at once. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/store/graph_inside.h"

/* After so many edges, and nodes, the thread looks whether others wait. */
enum { YIELD_EVERY = 1 << 15 };
/* Edges that lie together are touched as fast as one that lies anywhere. */
enum { EDGES_AS_ONE = 16 };

/* A walk over the lists of one side, in the order in which they lie in memory. */
struct lists_walk {
    const struct graph_edition *g;
    enum graph_side_of side;
    uint32_t next;
    uint64_t work; /* since it yielded */
};

/* False: that was the last. */
static bool next_list(struct lists_walk *w, uint32_t *node)
{
    if (w->next == w->g->numbers) return false;
    const uint32_t *order = w->side == SIDE_IN ? part_of(w->g, GRAPH_ORDER) : NULL;
    *node = order ? order[w->next] : w->next;
    w->next++;
    w->work += list_of(w->g, w->side, *node)->count + 1;
    if (w->work < YIELD_EVERY) return true;
    w->work = 0;
    yield_check();
    return true;
}

/* ---- scale ---- */

static enum status refuse_product(const struct graph_edition *g, uint32_t node,
                                  const struct spread_edge *edge, float factor, struct failure *f)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT,
                       "the edge from node %" PRIu64 " to node %" PRIu64
                       ": its weight, %.9g, times %.9g is not a finite number",
                       ids_of(g)[node], ids_of(g)[edge->node], (double)edge->weight,
                       (double)factor);
}

/* No list is read if the bound on weights proves that all products are finite. */
static enum status check_products(const struct graph_edition *g, float factor, struct failure *f)
{
    struct lists_walk w = {.g = g, .side = SIDE_OUT};
    uint32_t node;
    if (isfinite(ldexpf(factor, g->weight_exponent))) return STATUS_OK;
    while (next_list(&w, &node)) {
        struct spread_list list = *list_of(g, SIDE_OUT, node);
        const struct spread_edge *edges = edges_of(g, SIDE_OUT) + list.first;
        for (uint32_t i = 0; i < list.count; i++)
            if (!isfinite(edges[i].weight * factor))
                return refuse_product(g, node, &edges[i], factor, f);
    }
    return STATUS_OK;
}

/* Returns the largest magnitude that there is then. */
static float scale_side(struct graph_edition *g, enum graph_side_of side, float factor)
{
    struct lists_walk w = {.g = g, .side = side};
    uint32_t node;
    float most = 0;
    while (next_list(&w, &node)) {
        struct spread_list list = *list_of(g, side, node);
        struct spread_edge *edges = edges_of(g, side) + list.first;
        for (uint32_t i = 0; i < list.count; i++) {
            edges[i].weight *= factor;
            most = fmaxf(most, fabsf(edges[i].weight));
            if (side == SIDE_OUT) graph_count_weights(g, &edges[i].weight, 1);
        }
    }
    graph_mark(g, GRAPH_OUT_EDGES + side, 0, g->sides[side].used);
    return most;
}

static bool own_edges(struct graph_edition *g)
{
    return graph_part_own(g, GRAPH_OUT_EDGES, g->sides[SIDE_OUT].used) &&
           graph_part_own(g, GRAPH_IN_EDGES, g->sides[SIDE_IN].used);
}

static enum status scale(struct graph_edition *g, void *write, struct failure *f)
{
    float factor = *(const float *)write;
    enum status st = check_products(g, factor, f);
    if (st || !own_edges(g)) return st;
    g->weight_size = 0;
    g->largest_count = 0;
    float most = scale_side(g, SIDE_OUT, factor);
    scale_side(g, SIDE_IN, factor);
    g->weight_exponent = most > 0 ? graph_exponent(most) : INT_MIN;
    graph_complete(g);
    return STATUS_OK;
}

enum status graph_scale(struct graph *g, float factor, struct failure *f)
{
    uint64_t edges = g->now->edge_count;
    return edges ? graph_write_run(g, edges / EDGES_AS_ONE, scale, &factor, f) : STATUS_OK;
}

/* ---- prune ---- */

static uint64_t prune_side(struct graph_edition *g, enum graph_side_of side, float below)
{
    struct lists_walk w = {.g = g, .side = side};
    uint64_t dropped = 0;
    uint32_t node;
    while (next_list(&w, &node))
        dropped += list_drop_below(g, side, node, below);
    return dropped;
}

struct pruning {
    float below;
    uint64_t removed;
};

/* True if an edge goes. */
static bool finds_below(const struct graph_edition *g, float below)
{
    struct lists_walk w = {.g = g, .side = SIDE_OUT};
    uint32_t node;
    while (next_list(&w, &node)) {
        const struct spread_list *list = list_of(g, SIDE_OUT, node);
        const struct spread_edge *edges = edges_of(g, SIDE_OUT) + list->first;
        for (uint32_t i = 0; i < list->count; i++)
            if (edges[i].weight < below) return true;
    }
    return false;
}

static enum status prune(struct graph_edition *g, void *write, struct failure *f)
{
    struct pruning *p = write;
    p->removed = 0;
    if (!own_edges(g) || !graph_lists_own(g, SIDE_OUT) || !graph_lists_own(g, SIDE_IN))
        return STATUS_OK;
    p->removed = prune_side(g, SIDE_OUT, p->below);
    prune_side(g, SIDE_IN, p->below);
    g->edge_count -= p->removed;
    graph_tidy(g);
    graph_complete(g);
    return STATUS_OK;
}

enum status graph_prune(struct graph *g, float below, struct graph_counts *out, struct failure *f)
{
    struct pruning p = {.below = below};
    enum status st = STATUS_OK;
    if (finds_below(g->now, below))
        st = graph_write_run(g, g->now->edge_count / EDGES_AS_ONE, prune, &p, f);
    if (!st) *out = (struct graph_counts){.edges_removed = p.removed};
    return st;
}
