/* adopt_graph: pages of lists, arrays of edges and of what is of each node stay where they are. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/adopt_inside.h"
#include "daemon/store/graph_inside.h"
#include "daemon/store/restore.h"
#include "daemon/store/space_inside.h"

/* The free numbers follow, then a struct heap_told for each part that there is and for each page of
 * lists. */
struct told_graph {
    uint64_t numbers, free_count, edge_count, order_changes, weight_size, largest_count;
    int64_t weight_exponent, factor_exponent;
    uint64_t kinds[3];
    struct {
        uint64_t used, holes, count_max, pages;
    } sides[SIDES];
    uint64_t parts; /* bits */
};

/* ---- telling ---- */

static void tell_piece(struct heap *heap, const struct graph_piece *p, struct catalogue_writer *w)
{
    struct heap_told told;
    heap_tell(heap, &p->block, &told);
    catalogue_put(w, &told, sizeof told);
}

void tell_graph(struct heap *heap, const struct resident *r, struct catalogue_writer *w)
{
    const struct graph *g = (const struct graph *)r;
    const struct graph_edition *e = g->now;
    struct told_graph t = {
        .numbers = e->numbers,
        .free_count = e->free_count,
        .edge_count = e->edge_count,
        .order_changes = e->order_changes,
        .weight_size = e->weight_size,
        .largest_count = e->largest_count,
        .weight_exponent = e->weight_exponent,
        .factor_exponent = e->factor_exponent,
    };
    memcpy(t.kinds, e->kinds, sizeof t.kinds);
    for (int side = 0; side < SIDES; side++) {
        t.sides[side].used = e->sides[side].used;
        t.sides[side].holes = e->sides[side].holes;
        t.sides[side].count_max = e->sides[side].count_max;
        t.sides[side].pages = e->lists[side].count;
    }
    for (int part = 0; part < GRAPH_PARTS; part++)
        if (e->parts[part]) t.parts |= UINT64_C(1) << part;
    catalogue_put(w, &t, sizeof t);
    catalogue_put(w, g->free_numbers, t.free_count * sizeof *g->free_numbers);
    for (int part = 0; part < GRAPH_PARTS; part++)
        if (e->parts[part]) tell_piece(heap, e->parts[part], w);
    for (int side = 0; side < SIDES; side++)
        for (uint32_t i = 0; i < e->lists[side].count; i++)
            tell_piece(heap, e->lists[side].pieces[i], w);
}

/* ---- adopting ---- */

static bool is_possible(const struct told_graph *t)
{
    uint64_t pages = (t->numbers + SPREAD_PAGE_LISTS - 1) >> SPREAD_PAGE_SHIFT;
    bool ok = t->numbers <= GRAPH_NODES_MAX && t->free_count <= t->numbers &&
              t->weight_exponent >= INT_MIN && t->weight_exponent <= INT_MAX &&
              t->factor_exponent >= INT_MIN && t->factor_exponent <= INT_MAX &&
              t->weight_size <= UINT32_MAX && !(t->parts >> GRAPH_PARTS) &&
              !(t->parts & (1 << GRAPH_OUT | 1 << GRAPH_IN));
    for (int side = 0; side < SIDES; side++)
        ok = ok && t->sides[side].holes <= t->sides[side].used &&
             t->sides[side].used - t->sides[side].holes >= t->edge_count &&
             t->sides[side].count_max <= UINT32_MAX && t->sides[side].pages >= pages &&
             t->sides[side].pages <= (uint64_t)GRAPH_NODES_MAX >> SPREAD_PAGE_SHIFT;
    return ok;
}

static enum status adopt_piece(struct adoption *a, const struct graph_edition *e, uint64_t bytes,
                               struct graph_piece **out, struct failure *f)
{
    struct heap_told told;
    struct heap_block block;
    catalogue_get(a->from, &told, sizeof told);
    if (a->from->bad) return adopt_refuse(a, "passes the catalogue's end", f);
    enum status st = heap_adopt_block(a->heap, &told, a->space->number, &block, f);
    if (!st && block.bytes < bytes) st = adopt_refuse(a, "has a part that is too small", f);
    if (st) return st;
    struct graph_piece *p = fault_here("adopt: graph piece") ? NULL : calloc(1, sizeof *p);
    if (!p)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a graph");
    p->born = e->number;
    p->block = block;
    *out = p;
    return STATUS_OK;
}

static enum status adopt_pages(struct adoption *a, struct graph_edition *e, int side,
                               uint64_t pages, struct failure *f)
{
    struct graph_pages *t = &e->lists[side];
    if (!pages) return STATUS_OK;
    t->pieces = fault_here("adopt: graph pages") ? NULL : calloc(pages, sizeof *t->pieces);
    t->lists = t->pieces ? calloc(pages, sizeof *t->lists) : NULL;
    if (!t->lists)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a graph");
    t->capacity = (uint32_t)pages;
    while (t->count < pages) {
        uint64_t first = (uint64_t)t->count << SPREAD_PAGE_SHIFT;
        uint64_t lists = e->numbers > first ? e->numbers - first : 0;
        if (lists > SPREAD_PAGE_LISTS) lists = SPREAD_PAGE_LISTS;
        struct graph_piece *p = NULL;
        enum status st = adopt_piece(a, e, lists * sizeof(struct spread_list), &p, f);
        if (st) return st;
        t->pieces[t->count] = p;
        t->lists[t->count++] = p->block.data;
    }
    return STATUS_OK;
}

static enum status adopt_parts(struct adoption *a, struct graph_edition *e,
                               const struct told_graph *t, struct failure *f)
{
    enum status st = STATUS_OK;
    for (int part = 0; part < GRAPH_PARTS && !st; part++)
        if (t->parts & UINT64_C(1) << part) st = adopt_piece(a, e, 0, &e->parts[part], f);
    for (int part = GRAPH_OUT_EDGES; part < GRAPH_PARTS && !st; part++) {
        uint64_t bytes = graph_part_bytes(e, (enum graph_part)part);
        if (bytes && (!e->parts[part] || e->parts[part]->block.bytes < bytes))
            st = adopt_refuse(a, "has a part that is too small", f);
    }
    for (int side = 0; side < SIDES && !st; side++)
        st = adopt_pages(a, e, side, t->sides[side].pages, f);
    return st;
}

/* Lists lie in the array of edges: whoever follows one finds edges there. */
static bool lists_are_inside(const struct graph_edition *e)
{
    for (int side = 0; side < SIDES; side++)
        for (uint32_t node = 0; node < e->numbers; node++) {
            const struct spread_list *l = list_of(e, (enum graph_side_of)side, node);
            uint64_t used = e->sides[side].used;
            if (l->count > l->room || l->room > used || l->first > used - l->room) return false;
        }
    return true;
}

static void set_values(struct graph_edition *e, const struct told_graph *t)
{
    e->numbers = (uint32_t)t->numbers;
    e->free_count = (uint32_t)t->free_count;
    e->edge_count = t->edge_count;
    e->order_changes = t->order_changes;
    e->weight_size = (uint32_t)t->weight_size;
    e->largest_count = t->largest_count;
    e->weight_exponent = (int)t->weight_exponent;
    e->factor_exponent = (int)t->factor_exponent;
    memcpy(e->kinds, t->kinds, sizeof e->kinds);
    for (int side = 0; side < SIDES; side++)
        e->sides[side] = (struct graph_side){.used = t->sides[side].used,
                                             .holes = t->sides[side].holes,
                                             .count_max = (uint32_t)t->sides[side].count_max};
}

enum status adopt_graph(struct adoption *a, struct failure *f)
{
    struct told_graph t;
    struct graph *g = NULL;
    catalogue_get(a->from, &t, sizeof t);
    if (!is_possible(&t)) return adopt_refuse(a, "has numbers that cannot be", f);
    const uint32_t *spare = catalogue_look(a->from, t.free_count * sizeof *spare);
    if (!spare) return adopt_refuse(a, "passes the catalogue's end", f);
    for (uint64_t i = 0; i < t.free_count; i++)
        if (spare[i] >= t.numbers) return adopt_refuse(a, "has a free number past its nodes", f);
    enum status st = store_graph_create(a->store, a->space, a->told.name, f, &g);
    if (st) return st;
    struct graph_edition *e = g->now;
    set_values(e, &t);
    st = adopt_parts(a, e, &t, f);
    if (!st && !lists_are_inside(e)) st = adopt_refuse(a, "has lists past its edges", f);
    if (!st) st = graph_adopt_nodes(e, spare, f);
    if (st) {
        graph_empty(e);
        return st;
    }
    graph_complete(e);
    g->write = (struct graph_write){0};
    struct graph_bounds bounds = graph_bounds_of(e);
    graph_restore(g, a->told.version, &bounds);
    return STATUS_OK;
}
