/* graph_pieces: the memory of an edition that is being written. What another edition sees is copied
 * before it changes: a page of lists, or an array of what is of each node. Edges that others see
 * stay, and lists move to places behind them (graph_lists.c). */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/graph_inside.h"

enum { RELEASE_BYTES_MIN = 1 << 20, FIT_FACTOR = 4, PIECE_BYTES = 256 << 10 };
#define WIDE_BYTES_MAX (UINT64_C(1) << 30)

_Static_assert(SPREAD_PAGE_LISTS * sizeof(struct spread_list) == HEAP_UNIT, "a page is a unit");

void graph_populate(void *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        uint64_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (n >= HEAP_POPULATE_BYTES_MIN) heap_populate((char *)data + at, n);
        if (bytes > PIECE_BYTES) yield_check();
    }
}

void graph_copy(void *to, const void *from, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        uint64_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (n >= HEAP_POPULATE_BYTES_MIN) heap_populate((char *)to + at, n);
        memcpy((char *)to + at, (const char *)from + at, n);
        if (bytes > PIECE_BYTES) yield_check();
    }
}

/* ---- pieces ---- */

static struct graph_piece *piece_make(const struct graph_edition *g)
{
    struct graph_piece *p = fault_here("store: graph piece") ? NULL : calloc(1, sizeof *p);
    if (p) p->born = g->number;
    return p;
}

enum status graph_piece_take(struct graph_edition *g, graph_take *take, uint64_t bytes,
                             struct graph_piece **out)
{
    struct graph_piece *p = piece_make(g);
    if (!p) return STATUS_RESOURCE_EXHAUSTED;
    enum status st = take(g->of->heap, bytes, g->of->resident.space->number, &p->block);
    if (st)
        free(p);
    else
        *out = p;
    return st;
}

enum status graph_edges_take(struct graph_edition *g, uint64_t places, struct graph_piece **out)
{
    uint64_t bytes = places * sizeof(struct spread_edge);
    uint64_t span = bytes < WIDE_BYTES_MAX ? bytes * 2 : bytes + bytes / 4;
    uint32_t owner = g->of->resident.space->number;
    struct graph_piece *p = piece_make(g);
    if (!p) return STATUS_RESOURCE_EXHAUSTED;
    enum status st = heap_take_wide(g->of->heap, bytes, span, owner, &p->block);
    if (st) st = heap_take_fresh(g->of->heap, bytes, owner, &p->block);
    if (st)
        free(p);
    else
        *out = p;
    return st;
}

void graph_piece_free(struct heap *heap, struct graph_piece *p)
{
    if (!p) return;
    if (p->block.bytes >= RELEASE_BYTES_MIN)
        heap_release(heap, &p->block);
    else
        heap_give(heap, &p->block);
    free(p);
}

void graph_piece_leave(struct graph_edition *g, struct graph_piece *p)
{
    struct graph *of = g->of;
    if (!p) return;
    if (graph_piece_is_own(g, p)) {
        graph_piece_free(of->heap, p);
        return;
    }
    p->next = of->write.left;
    of->write.left = p;
}

static bool starve(struct graph_edition *g, enum status st)
{
    if (!g->of->write.starved) g->of->write.starved = st;
    return false;
}

/* ---- arrays ---- */

void graph_part_replace(struct graph_edition *g, enum graph_part part, struct graph_piece *piece)
{
    graph_piece_leave(g, g->parts[part]);
    g->parts[part] = piece;
}

static bool is_edges(enum graph_part part)
{
    return part == GRAPH_OUT_EDGES || part == GRAPH_IN_EDGES;
}

/* Takes more of the memory behind a piece, if its addresses suffice. */
static enum status extend(struct graph_edition *g, struct graph_piece *p, uint64_t bytes)
{
    struct heap *heap = g->of->heap;
    uint64_t span = p ? heap_span(heap, &p->block) : 0, generous = bytes + bytes / 8;
    if (bytes > span) return STATUS_RESOURCE_EXHAUSTED;
    if (generous <= span && !heap_extend(heap, &p->block, generous)) return STATUS_OK;
    return heap_extend(heap, &p->block, bytes);
}

static enum status take_array(struct graph_edition *g, enum graph_part part, uint64_t bytes,
                              struct graph_piece **out)
{
    if (is_edges(part)) return graph_edges_take(g, bytes / sizeof(struct spread_edge), out);
    return graph_piece_take(g, heap_take_fresh, bytes, out);
}

enum status graph_part_reserve(struct graph_edition *g, enum graph_part part, uint64_t count,
                               uint64_t keep)
{
    struct graph_piece *now = g->parts[part], *larger;
    uint64_t bytes = count * graph_element_bytes[part];
    uint64_t kept = keep * graph_element_bytes[part], present = now ? now->block.bytes : 0;
    if (bytes <= present || !extend(g, now, bytes)) return STATUS_OK;
    enum status st = STATUS_RESOURCE_EXHAUSTED;
    uint64_t generous = present + present / 2;
    if (generous > bytes) st = take_array(g, part, generous, &larger);
    if (st) st = take_array(g, part, bytes, &larger);
    if (st) return st;
    if (kept) graph_copy(larger->block.data, now->block.data, kept);
    graph_part_replace(g, part, larger);
    return STATUS_OK;
}

bool graph_part_own(struct graph_edition *g, enum graph_part part, uint64_t keep)
{
    struct graph_piece *from = g->parts[part], *to;
    if (graph_piece_is_own(g, from)) return true;
    uint64_t bytes = from->block.bytes;
    enum status st = is_edges(part) ? take_array(g, part, bytes, &to)
                                    : graph_piece_take(g, heap_take, bytes, &to);
    if (st) return starve(g, st);
    graph_copy(to->block.data, from->block.data, keep * graph_element_bytes[part]);
    graph_part_replace(g, part, to);
    return true;
}

static void fit_part(struct graph_edition *g, enum graph_part part)
{
    uint64_t bytes = graph_part_bytes(g, part);
    struct graph_piece *now = g->parts[part], *smaller = NULL;
    if (!now || now->block.bytes <= bytes * FIT_FACTOR + HEAP_UNIT) return;
    if (bytes && take_array(g, part, bytes, &smaller)) return;
    if (bytes) graph_copy(smaller->block.data, now->block.data, bytes);
    graph_part_replace(g, part, smaller);
}

/* ---- pages of lists ---- */

static bool table_reserve(struct graph_pages *t, uint32_t count)
{
    uint32_t capacity = t->capacity * 2 > count ? t->capacity * 2 : count;
    if (count <= t->capacity) return true;
    if (fault_here("store: graph pages")) return false;
    struct graph_piece **pieces = realloc(t->pieces, capacity * sizeof *pieces);
    if (!pieces) return false;
    t->pieces = pieces;
    const struct spread_list **lists = realloc(t->lists, capacity * sizeof *lists);
    if (!lists) return false;
    t->lists = lists;
    t->capacity = capacity;
    return true;
}

static void put_page(struct graph_pages *t, uint32_t page, struct graph_piece *p)
{
    t->pieces[page] = p;
    t->lists[page] = p->block.data;
}

/* The bytes of a page's lists when there are so many nodes. */
static uint64_t page_bytes(uint32_t page, uint32_t numbers)
{
    uint64_t lists = (uint64_t)numbers - ((uint64_t)page << SPREAD_PAGE_SHIFT);
    if (lists > SPREAD_PAGE_LISTS) lists = SPREAD_PAGE_LISTS;
    return lists * sizeof(struct spread_list);
}

enum status graph_lists_reserve(struct graph_edition *g, enum graph_side_of side, uint32_t numbers)
{
    struct graph_pages *t = &g->lists[side];
    uint32_t want = (uint32_t)(((uint64_t)numbers + SPREAD_PAGE_LISTS - 1) >> SPREAD_PAGE_SHIFT);
    if (!table_reserve(t, want)) return STATUS_RESOURCE_EXHAUSTED;
    for (uint32_t page = t->count ? t->count - 1 : 0; page < want; page++) {
        uint64_t bytes = page_bytes(page, numbers);
        struct graph_piece *p = page < t->count ? t->pieces[page] : NULL;
        if (p && bytes <= p->block.bytes) continue;
        enum status st = p ? extend(g, p, bytes) : STATUS_OK;
        if (st) return st;
        if (p) continue;
        st = graph_piece_take(g, heap_take_fresh, page ? HEAP_UNIT : bytes, &p);
        if (st) return st;
        put_page(t, page, p);
        t->count++;
    }
    return STATUS_OK;
}

static bool page_own(struct graph_edition *g, enum graph_side_of side, uint32_t page)
{
    struct graph_pages *t = &g->lists[side];
    struct graph_piece *from = t->pieces[page], *to;
    if (graph_piece_is_own(g, from)) return true;
    enum status st = graph_piece_take(g, heap_take, from->block.bytes, &to);
    if (st) return starve(g, st);
    uint64_t bytes =
        (uint64_t)page << SPREAD_PAGE_SHIFT < g->numbers ? page_bytes(page, g->numbers) : 0;
    memcpy(to->block.data, from->block.data, bytes);
    put_page(t, page, to);
    graph_piece_leave(g, from);
    return true;
}

struct spread_list *graph_list_own(struct graph_edition *g, enum graph_side_of side, uint32_t node)
{
    return page_own(g, side, node >> SPREAD_PAGE_SHIFT) ? list_at(g, side, node) : NULL;
}

bool graph_lists_own(struct graph_edition *g, enum graph_side_of side)
{
    for (uint32_t page = 0; page < g->lists[side].count; page++) {
        if (!page_own(g, side, page)) return false;
        if (page % 16 == 15) yield_check();
    }
    return true;
}

bool graph_nodes_own(struct graph_edition *g)
{
    static const enum graph_part parts[] = {GRAPH_IDS, GRAPH_ORDER, GRAPH_KINDS, GRAPH_FACTORS};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!graph_part_own(g, parts[i], g->numbers)) return false;
    return graph_lists_own(g, SIDE_OUT) && graph_lists_own(g, SIDE_IN);
}

static void drop_pages(struct graph_edition *g, struct graph_pages *t, uint32_t keep)
{
    while (t->count > keep)
        graph_piece_leave(g, t->pieces[--t->count]);
}

void graph_pages_leave(struct graph_edition *g, struct graph_pages *t)
{
    drop_pages(g, t, 0);
    free(t->pieces);
    free(t->lists);
    *t = (struct graph_pages){0};
}

void graph_fit(struct graph_edition *g)
{
    if (!g->numbers) graph_empty(g);
    for (int part = 0; part < GRAPH_PARTS; part++)
        fit_part(g, (enum graph_part)part);
    uint32_t pages =
        (uint32_t)(((uint64_t)g->numbers + SPREAD_PAGE_LISTS - 1) >> SPREAD_PAGE_SHIFT);
    for (int side = 0; side < SIDES; side++)
        drop_pages(g, &g->lists[side], pages);
}
