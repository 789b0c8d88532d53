#include <math.h>
#include <string.h>

#include "daemon/store/graph_inside.h"

enum { ROOM_MIN = 4, AHEAD = 8, LOOSE_FROM = 512 };

static struct spread_edge *edges_at(const struct graph_edition *g, enum graph_side_of side,
                                    uint32_t node)
{
    return edges_of(g, side) + list_of(g, side, node)->first;
}

static void mark_list(struct graph_edition *g, enum graph_side_of side, uint32_t node)
{
    graph_mark(g, GRAPH_OUT + side, node, 1);
}

static void mark_edges(struct graph_edition *g, enum graph_side_of side, uint64_t first,
                       uint64_t count)
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

/* True if others see the list's places: what is there must stay as it is. */
static bool is_seen(const struct graph_edition *g, enum graph_side_of side,
                    const struct spread_list *list)
{
    return list->room && list->first < graph_places_seen(g, side);
}

/* The places that a list moves to when `more` edges come and, after that, `gone` go; 0: it stays
 * where it is. A list that is seen moves first. */
static uint32_t places_for(const struct graph_edition *g, enum graph_side_of side,
                           const struct spread_list *list, uint64_t more, uint64_t gone)
{
    bool seen = is_seen(g, side, list);
    uint64_t count = list->count + more - (seen ? 0 : gone);
    if (count > list->room) return room_for(count);
    return seen ? list->room : 0;
}

static uint64_t count_matches(const struct spread_edge *edges, uint64_t count, struct half_run run)
{
    uint64_t matches = 0;
    for (uint64_t i = 0; i < count; i++)
        matches += halves_find(run, edges[i].node) != NULL;
    return matches;
}

struct list_plan list_plan_run(const struct graph_edition *g, enum graph_side_of side,
                               struct half_run run, bool replace)
{
    uint32_t node = run.halves[0].node;
    struct spread_list list = {0}; /* the empty list of a node that was just made */
    struct list_plan plan = {0};
    if (node < g->numbers) list = *list_of(g, side, node);
    if (replace && list.count)
        plan.gone = count_matches(edges_of(g, side) + list.first, list.count, run);
    plan.count = list.count - plan.gone + run.count;
    if (plan.count <= GRAPH_DEGREE_MAX)
        plan.places = places_for(g, side, &list, run.count, plan.gone);
    return plan;
}

/* list: the node's, of a page of the edition's own. False: there is no memory. */
static bool move_list(struct graph_edition *g, enum graph_side_of side, struct spread_list *list,
                      uint32_t room)
{
    struct graph_side *s = &g->sides[side];
    enum graph_part part = (enum graph_part)(GRAPH_OUT_EDGES + side);
    enum status st = graph_part_reserve(g, part, s->used + room, s->used);
    if (st) {
        g->of->write.starved = st;
        return false;
    }
    struct spread_edge *edges = edges_of(g, side);
    if (list->count) memcpy(edges + s->used, edges + list->first, list->count * sizeof *edges);
    s->holes += list->room;
    *list = (struct spread_list){.first = s->used, .count = list->count, .room = room};
    s->used += room;
    mark_edges(g, side, list->first, room);
    return true;
}

/* Returns a node's list, whose edges are to be changed; NULL: there is no memory. */
static struct spread_list *list_to_change(struct graph_edition *g, enum graph_side_of side,
                                          uint32_t node)
{
    struct spread_list *list = graph_list_own(g, side, node);
    if (!list || !is_seen(g, side, list)) return list;
    mark_list(g, side, node);
    return move_list(g, side, list, list->room) ? list : NULL;
}

/* Removes edge i of a list; the last edge takes its place. */
static void take_out(struct graph_edition *g, enum graph_side_of side, struct spread_list *list,
                     uint32_t i)
{
    struct spread_edge *edges = edges_of(g, side) + list->first;
    if (side == SIDE_OUT) graph_forget_weight(g, edges[i].weight);
    edges[i] = edges[--list->count];
    mark_edges(g, side, list->first + i, 1);
}

static bool any_match(const struct graph_edition *g, enum graph_side_of side, uint32_t node,
                      struct half_run run)
{
    const struct spread_list *list = list_of(g, side, node);
    const struct spread_edge *edges = edges_of(g, side) + list->first;
    for (uint32_t i = 0; i < list->count; i++)
        if (halves_find(run, edges[i].node)) return true;
    return false;
}

uint64_t list_drop_run(struct graph_edition *g, enum graph_side_of side, struct half_run run)
{
    uint32_t node = run.halves[0].node;
    if (!any_match(g, side, node, run)) return 0;
    struct spread_list *list = list_to_change(g, side, node);
    if (!list) return 0;
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
    mark_list(g, side, node);
    g->order_changes += side == SIDE_IN;
    return before - list->count;
}

static void drop_matches(struct graph_edition *g, enum graph_side_of side, struct half_run run,
                         struct spread_list *list)
{
    for (uint32_t i = 0; i < list->count;) {
        if (halves_find(run, edges_of(g, side)[list->first + i].node))
            take_out(g, side, list, i);
        else
            i++;
    }
}

void list_take_run(struct graph_edition *g, enum graph_side_of side, struct half_run run,
                   bool replace)
{
    uint32_t node = run.halves[0].node;
    struct spread_list *list = graph_list_own(g, side, node);
    if (!list) return;
    if (is_seen(g, side, list) &&
        !move_list(g, side, list, places_for(g, side, list, run.count, 0)))
        return;
    if (replace) drop_matches(g, side, run, list);
    uint64_t count = list->count + run.count;
    if (count > list->room && !move_list(g, side, list, room_for(count))) return;
    struct spread_edge *to = edges_of(g, side) + list->first + list->count;
    for (uint64_t i = 0; i < run.count; i++)
        to[i] = (struct spread_edge){run.halves[i].other, run.halves[i].weight};
    mark_edges(g, side, list->first + list->count, run.count);
    list->count = (uint32_t)count;
    mark_list(g, side, node);
    if (count > g->sides[side].count_max) g->sides[side].count_max = (uint32_t)count;
    g->order_changes += side == SIDE_IN;
}

/* Takes the weight of an edge out of the bound on weights, and puts another one in its place. */
static void exchange_weight(struct graph_edition *g, float before, float now)
{
    graph_forget_weight(g, before);
    graph_count_weights(g, &now, 1);
    int exponent = now != 0 ? graph_exponent(fabsf(now)) : g->weight_exponent;
    if (exponent > g->weight_exponent) g->weight_exponent = exponent;
}

void list_set_run(struct graph_edition *g, enum graph_side_of side, struct half_run run)
{
    const struct spread_list *list = list_to_change(g, side, run.halves[0].node);
    if (!list) return;
    struct spread_edge *edges = edges_of(g, side) + list->first;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct graph_half *half = halves_find(run, edges[i].node);
        if (!half) continue;
        if (side == SIDE_OUT) exchange_weight(g, edges[i].weight, half->weight);
        edges[i].weight = half->weight;
        mark_edges(g, side, list->first + i, 1);
    }
}

/* ---- edges go ---- */

typedef bool edge_goes(const struct graph_edition *g, const struct spread_edge *edge,
                       const void *rule);

static bool any_goes(const struct graph_edition *g, enum graph_side_of side, uint32_t node,
                     edge_goes *goes, const void *rule)
{
    const struct spread_list *list = list_of(g, side, node);
    const struct spread_edge *edges = edges_of(g, side) + list->first;
    for (uint32_t i = 0; i < list->count; i++)
        if (goes(g, &edges[i], rule)) return true;
    return false;
}

/* Returns how many edges went. */
static uint64_t list_drop_some(struct graph_edition *g, enum graph_side_of side, uint32_t node,
                               edge_goes *goes, const void *rule)
{
    if (!any_goes(g, side, node, goes, rule)) return 0;
    struct spread_list *list = list_to_change(g, side, node);
    if (!list) return 0;
    uint32_t before = list->count;
    for (uint32_t i = 0; i < list->count;) {
        if (goes(g, &edges_at(g, side, node)[i], rule))
            take_out(g, side, list, i);
        else
            i++;
    }
    mark_list(g, side, node);
    g->order_changes += side == SIDE_IN;
    return before - list->count;
}

static bool is_below(const struct graph_edition *g, const struct spread_edge *edge,
                     const void *below)
{
    return edge->weight < *(const float *)below;
}

uint64_t list_drop_below(struct graph_edition *g, enum graph_side_of side, uint32_t node,
                         float below)
{
    return list_drop_some(g, side, node, is_below, &below);
}

static bool is_nobodys(const struct graph_edition *g, const struct spread_edge *edge,
                       const void *nothing)
{
    return ids_of(g)[edge->node] == GRAPH_NOBODY;
}

uint64_t list_drop_nobody(struct graph_edition *g, enum graph_side_of side, uint32_t node)
{
    return list_drop_some(g, side, node, is_nobodys, NULL);
}

void list_drop(struct graph_edition *g, enum graph_side_of side, uint32_t node)
{
    struct spread_list *list = graph_list_own(g, side, node);
    const struct spread_edge *edges = edges_of(g, side);
    if (!list) return;
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

bool side_is_loose(const struct graph_edition *g, enum graph_side_of side)
{
    const struct graph_side *s = &g->sides[side];
    return s->used > LOOSE_FROM && (s->holes * 2 > s->used || s->used > g->edge_count * 4);
}

static uint64_t places_kept(const struct graph_edition *g, enum graph_side_of side, bool tight)
{
    uint64_t used = 0;
    for (uint32_t node = 0; node < g->numbers; node++) {
        graph_yield(node);
        used += room_kept(list_of(g, side, node), tight);
    }
    return used;
}

bool side_rewrite(struct graph_edition *g, enum graph_side_of side, const uint32_t *order,
                  bool tight)
{
    const struct spread_edge *from = edges_of(g, side);
    uint64_t used = places_kept(g, side, tight), at = 0;
    struct graph_piece *piece = NULL;
    if (used && graph_edges_take(g, used + (tight ? 0 : used / 8), &piece)) return false;
    if (!graph_lists_own(g, side)) {
        graph_piece_free(g->of->heap, piece);
        return false;
    }
    struct spread_edge *to = piece ? piece->block.data : NULL;
    graph_populate(to, used * sizeof *to);
    for (uint32_t i = 0; i < g->numbers; i++) {
        graph_yield(i);
        if (order && i + AHEAD < g->numbers) __builtin_prefetch(list_at(g, side, order[i + AHEAD]));
        struct spread_list *list = list_at(g, side, order ? order[i] : i);
        uint32_t room = room_kept(list, tight);
        if (to && list->count) memcpy(to + at, from + list->first, list->count * sizeof *to);
        list->first = room ? at : 0;
        list->room = room;
        at += room;
    }
    graph_part_replace(g, (enum graph_part)(GRAPH_OUT_EDGES + side), piece);
    g->sides[side].used = used;
    g->sides[side].holes = 0;
    graph_mark(g, (enum graph_part)(GRAPH_OUT + side), 0, g->numbers);
    mark_edges(g, side, 0, used);
    return true;
}
