#include <math.h>
#include <string.h>

#include "daemon/store/graph_inside.h"

enum { ROOM_MIN = 4, AHEAD = 8, LOOSE_FROM = 512 };

static struct spread_edge *edges_at(const struct graph *g, enum graph_side_of side, uint32_t node)
{
    return edges_of(g, side) + lists_of(g, side)[node].first;
}

static void mark_list(struct graph *g, enum graph_side_of side, uint32_t node)
{
    graph_mark(g, GRAPH_OUT + side, node, 1);
}

static void mark_edges(struct graph *g, enum graph_side_of side, uint64_t first, uint64_t count)
{
    graph_mark(g, GRAPH_OUT_EDGES + side, first, count);
}

/* ---- a run of edges comes ---- */

/* Places for a list that has to move: half as many again as it needs. */
static uint32_t room_for(uint64_t count)
{
    uint64_t room = count + count / 2;
    return (uint32_t)((room < ROOM_MIN ? ROOM_MIN : room) + 1) & ~UINT32_C(1);
}

static uint64_t count_matches(const struct spread_edge *edges, uint64_t count, struct half_run run)
{
    uint64_t matches = 0;
    for (uint64_t i = 0; i < count; i++)
        matches += halves_find(run, edges[i].node) != NULL;
    return matches;
}

struct list_plan list_plan_run(const struct graph *g, enum graph_side_of side, struct half_run run,
                               bool replace)
{
    uint32_t node = run.halves[0].node;
    struct spread_list list = {0}; /* the empty list of a node that was just made */
    struct list_plan plan = {0};
    if (node < g->numbers) list = lists_of(g, side)[node];
    if (replace && list.count)
        plan.gone = count_matches(edges_of(g, side) + list.first, list.count, run);
    plan.count = list.count - plan.gone + run.count;
    if (plan.count > list.room && plan.count <= GRAPH_DEGREE_MAX)
        plan.places = room_for(plan.count);
    return plan;
}

static void move_list(struct graph *g, enum graph_side_of side, uint32_t node, uint32_t room)
{
    struct graph_side *s = &g->sides[side];
    struct spread_list *list = &lists_of(g, side)[node];
    struct spread_edge *edges = edges_of(g, side);
    if (list->count) memcpy(edges + s->used, edges + list->first, list->count * sizeof *edges);
    s->holes += list->room;
    *list = (struct spread_list){.first = s->used, .count = list->count, .room = room};
    s->used += room;
    mark_edges(g, side, list->first, room);
}

/* Removes edge i of a list; the last edge takes its place. */
static void take_out(struct graph *g, enum graph_side_of side, struct spread_list *list, uint32_t i)
{
    struct spread_edge *edges = edges_of(g, side) + list->first;
    if (side == SIDE_OUT) graph_forget_weight(g, edges[i].weight);
    edges[i] = edges[--list->count];
    mark_edges(g, side, list->first + i, 1);
}

uint64_t list_drop_run(struct graph *g, enum graph_side_of side, struct half_run run)
{
    uint32_t node = run.halves[0].node;
    struct spread_list *list = &lists_of(g, side)[node];
    uint32_t before = list->count;
    for (uint32_t i = 0; i < list->count;) {
        struct graph_half *half = halves_find(run, edges_at(g, side, node)[i].node);
        if (!half) {
            i++;
            continue;
        }
        half->weight = 1;
        take_out(g, side, list, i);
    }
    if (list->count == before) return 0;
    mark_list(g, side, node);
    g->order_changes += side == SIDE_IN;
    return before - list->count;
}

static void drop_matches(struct graph *g, enum graph_side_of side, struct half_run run)
{
    uint32_t node = run.halves[0].node;
    struct spread_list *list = &lists_of(g, side)[node];
    for (uint32_t i = 0; i < list->count;) {
        if (halves_find(run, edges_at(g, side, node)[i].node))
            take_out(g, side, list, i);
        else
            i++;
    }
}

void list_take_run(struct graph *g, enum graph_side_of side, struct half_run run, bool replace)
{
    uint32_t node = run.halves[0].node;
    struct spread_list *list = &lists_of(g, side)[node];
    if (replace) drop_matches(g, side, run);
    uint64_t count = list->count + run.count;
    if (count > list->room) move_list(g, side, node, room_for(count));
    struct spread_edge *to = edges_at(g, side, node) + list->count;
    for (uint64_t i = 0; i < run.count; i++)
        to[i] = (struct spread_edge){run.halves[i].other, run.halves[i].weight};
    mark_edges(g, side, list->first + list->count, run.count);
    list->count = (uint32_t)count;
    mark_list(g, side, node);
    if (count > g->sides[side].count_max) g->sides[side].count_max = (uint32_t)count;
    g->order_changes += side == SIDE_IN;
}

/* Takes the weight of an edge out of the bound on weights, and puts another one in its place. */
static void exchange_weight(struct graph *g, float before, float now)
{
    graph_forget_weight(g, before);
    graph_count_weights(g, &now, 1);
    int exponent = now != 0 ? graph_exponent(fabsf(now)) : g->weight_exponent;
    if (exponent > g->weight_exponent) g->weight_exponent = exponent;
}

void list_set_run(struct graph *g, enum graph_side_of side, struct half_run run)
{
    const struct spread_list *list = &lists_of(g, side)[run.halves[0].node];
    struct spread_edge *edges = edges_of(g, side) + list->first;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct graph_half *half = halves_find(run, edges[i].node);
        if (!half) continue;
        if (side == SIDE_OUT) exchange_weight(g, edges[i].weight, half->weight);
        edges[i].weight = half->weight;
        mark_edges(g, side, list->first + i, 1);
    }
}

uint64_t list_drop_below(struct graph *g, enum graph_side_of side, uint32_t node, float below)
{
    struct spread_list *list = &lists_of(g, side)[node];
    uint32_t before = list->count;
    for (uint32_t i = 0; i < list->count;) {
        if (edges_at(g, side, node)[i].weight < below)
            take_out(g, side, list, i);
        else
            i++;
    }
    if (list->count == before) return 0;
    mark_list(g, side, node);
    g->order_changes += side == SIDE_IN;
    return before - list->count;
}

/* ---- nodes go ---- */

uint64_t list_drop_nobody(struct graph *g, enum graph_side_of side, uint32_t node)
{
    struct spread_list *list = &lists_of(g, side)[node];
    const uint64_t *ids = ids_of(g);
    uint32_t before = list->count;
    for (uint32_t i = 0; i < list->count;) {
        if (ids[edges_at(g, side, node)[i].node] == GRAPH_NOBODY)
            take_out(g, side, list, i);
        else
            i++;
    }
    if (list->count == before) return 0;
    mark_list(g, side, node);
    g->order_changes += side == SIDE_IN;
    return before - list->count;
}

void list_drop(struct graph *g, enum graph_side_of side, uint32_t node)
{
    struct spread_list *list = &lists_of(g, side)[node];
    const struct spread_edge *edges = edges_of(g, side);
    for (uint32_t i = 0; side == SIDE_OUT && i < list->count; i++)
        graph_forget_weight(g, edges[list->first + i].weight);
    g->order_changes += side == SIDE_IN && list->count;
    g->sides[side].holes += list->room;
    *list = (struct spread_list){0};
    mark_list(g, side, node);
}

/* ---- the whole array ---- */

/* How many places a list keeps: none if it is empty, else at most half as many again as it needs;
 * tight: as many as it needs, rounded up to an even number. */
static uint32_t room_kept(const struct spread_list *list, bool tight)
{
    uint64_t more = tight ? 0 : list->count / 2;
    uint64_t most = (list->count + more + 1) & ~UINT64_C(1);
    return most < list->room ? (uint32_t)most : list->room;
}

bool side_is_loose(const struct graph *g, enum graph_side_of side)
{
    const struct graph_side *s = &g->sides[side];
    return s->used > LOOSE_FROM && (s->holes * 2 > s->used || s->used > g->edge_count * 4);
}

bool side_rewrite(struct graph *g, enum graph_side_of side, const uint32_t *order, bool tight)
{
    struct spread_list *lists = lists_of(g, side);
    const struct spread_edge *from = edges_of(g, side);
    uint64_t used = 0;
    for (uint32_t node = 0; node < g->numbers; node++)
        used += room_kept(&lists[node], tight);

    struct heap_block block = {0};
    uint64_t bytes = (used + (tight ? 0 : used / 8)) * sizeof *from;
    if (used && heap_take_fresh(g->heap, bytes, g->resident.space->number, &block)) return false;
    if (bytes >= HEAP_POPULATE_BYTES_MIN) heap_populate(block.data, used * sizeof *from);
    struct spread_edge *to = block.data;
    uint64_t at = 0;
    for (uint32_t i = 0; i < g->numbers; i++) {
        if (order && i + AHEAD < g->numbers) __builtin_prefetch(&lists[order[i + AHEAD]]);
        struct spread_list *list = &lists[order ? order[i] : i];
        uint32_t room = room_kept(list, tight);
        if (to && list->count) memcpy(to + at, from + list->first, list->count * sizeof *to);
        list->first = room ? at : 0;
        list->room = room;
        at += room;
    }
    graph_part_replace(g, GRAPH_OUT_EDGES + side, block);
    g->sides[side].used = used;
    g->sides[side].holes = 0;
    graph_mark(g, GRAPH_OUT + side, 0, g->numbers);
    mark_edges(g, side, 0, used);
    return true;
}
