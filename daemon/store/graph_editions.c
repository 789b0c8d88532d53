/* graph_editions: which edition of a graph is the newest, who sees which, and what a write begins
 * and ends with. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/graph_inside.h"

/* A write that touches more edges makes a new edition, even if nobody sees the newest: who comes
 * while it works need not wait for it. In place so many take some 5 ms. */
enum { IN_PLACE_EDGES_MAX = 1 << 15 };

struct graph_edition *graph_edition_create(struct graph *g)
{
    struct graph_edition *e = fault_here("store: graph edition") ? NULL : calloc(1, sizeof *e);
    if (e) e->of = g;
    return e;
}

void graph_edition_destroy(struct graph_edition *e)
{
    if (!e) return;
    for (int side = 0; side < SIDES; side++) {
        free(e->lists[side].pieces);
        free(e->lists[side].lists);
    }
    free(e);
}

/* ---------------------------------------------------------------- readers; the loop */

struct graph_edition *graph_now(const struct graph *g)
{
    return g->now;
}

struct graph_edition *graph_pin(struct graph *g)
{
    struct graph_edition *e = g->now;
    return gate_enter(&e->gate) ? e : NULL;
}

/* Ends e, which is not the newest and which nobody sees. Pieces that no other edition sees are
 * gone. */
static void retire(struct graph_edition *e)
{
    struct graph *g = e->of;
    struct graph_edition *older = e->older, *newer = e->newer;
    for (struct graph_piece *p = e->left, *next; p; p = next) {
        next = p->next;
        bool seen = older && p->born <= older->number;
        p->next = seen ? older->left : g->gone.memory;
        if (seen)
            older->left = p;
        else
            g->gone.memory = p;
    }
    if (e->index && e->index != newer->index && (!older || e->index != older->index))
        g->gone.indexes = node_index_list(e->index, g->gone.indexes);
    newer->older = older;
    if (older) older->newer = newer;
    graph_edition_destroy(e);
}

void graph_release(struct graph_edition *e)
{
    if (gate_leave(&e->gate) && e->newer) retire(e);
}

struct leftovers graph_take_gone(struct graph *g)
{
    struct leftovers gone = g->gone;
    g->gone = (struct leftovers){0};
    return gone;
}

/* More than the loop has time for. */
bool graph_gone_is_much(const struct leftovers *gone)
{
    enum { FEW_BYTES = 1 << 20, FEW = 8 };
    uint64_t bytes = 0, count = 0;
    for (const struct graph_piece *p = gone->memory; p && count <= FEW; p = p->next, count++)
        bytes += p->block.bytes;
    return gone->indexes || bytes > FEW_BYTES || count > FEW;
}

void graph_free_gone(struct heap *heap, struct leftovers gone)
{
    node_index_free_list(gone.indexes);
    for (struct graph_piece *p = gone.memory, *next; p; p = next) {
        next = p->next;
        yield_check();
        graph_piece_free(heap, p);
    }
}

/* ---------------------------------------------------------------- a write; the loop */

void graph_expect_write(struct graph *g)
{
    const struct graph_edition *older = g->now->older;
    g->write = (struct graph_write){.expected = true, .older = older ? older->number : 0};
    for (int part = 0; part < GRAPH_PARTS; part++)
        g->write.tracked[part] = g->dirty[part].words != NULL;
}

void graph_expect_write_alone(struct graph *g)
{
    graph_expect_write(g);
    g->write.alone = true;
}

/* What changed is dirty from now on. A part that was not tracked from the beginning is all. */
static void note_changes(struct graph *g)
{
    struct graph_write *w = &g->write;
    for (int part = 0; part < GRAPH_PARTS; part++) {
        if (!w->tracked[part] || w->changed_all[part])
            dirty_forget(&g->dirty[part]);
        else
            dirty_merge(&g->dirty[part], &w->changed[part]);
        dirty_forget(&w->changed[part]);
    }
}

static void succeed(struct graph *g, struct graph_edition *e)
{
    struct graph_edition *before = g->now;
    resident_set_version(&g->resident, graph_version(e));
    atomic_store_explicit(&g->numbers_now, e->numbers, memory_order_relaxed);
    before->left = g->write.left;
    before->newer = e;
    e->older = before;
    g->now = e;
    if (!gate_has_readers(&before->gate)) retire(before);
}

void graph_publish(struct graph *g)
{
    struct graph_edition *e = g->write.edition;
    if (e) {
        note_changes(g);
        if (e == g->now)
            gate_open(&e->gate);
        else
            succeed(g, e);
    }
    g->write = (struct graph_write){0};
}

struct graph_edition *graph_written(const struct graph *g)
{
    return g->write.edition ? g->write.edition : g->now;
}

/* ---------------------------------------------------------------- a write; its thread */

/* True if no reader sees the newest edition; none will until the gate is opened. starved: there is
 * no memory for another one. */
static bool begin_in_place(struct graph *g, bool starved)
{
    if (!starved && space_is_calm(g->resident.space)) return false;
    if (g->write.older || !gate_close(&g->now->gate)) return false;
    g->write.edition = g->now;
    return true;
}

static bool copy_table(struct graph_pages *to, const struct graph_pages *from)
{
    uint32_t capacity = from->count + 1;
    *to = (struct graph_pages){.count = from->count, .capacity = capacity};
    if (fault_here("store: graph pages")) return false;
    to->pieces = malloc(capacity * sizeof *to->pieces);
    to->lists = malloc(capacity * sizeof *to->lists);
    if (!to->pieces || !to->lists) return false;
    if (!from->count) return true;
    memcpy(to->pieces, from->pieces, from->count * sizeof *to->pieces);
    memcpy(to->lists, from->lists, from->count * sizeof *to->lists);
    return true;
}

static void copy_values(struct graph_edition *to, const struct graph_edition *from)
{
    memcpy(to->parts, from->parts, sizeof to->parts);
    memcpy(to->sides, from->sides, sizeof to->sides);
    memcpy(to->kinds, from->kinds, sizeof to->kinds);
    to->numbers = from->numbers;
    to->free_count = from->free_count;
    to->index = from->index;
    to->weight_exponent = from->weight_exponent;
    to->factor_exponent = from->factor_exponent;
    to->weight_size = from->weight_size;
    to->largest_count = from->largest_count;
    to->order_changes = from->order_changes;
    to->edge_count = from->edge_count;
}

static enum status begin_next(struct graph *g)
{
    struct graph_edition *e = graph_edition_create(g);
    if (!e) return STATUS_RESOURCE_EXHAUSTED;
    e->number = g->now->number + 1;
    copy_values(e, g->now);
    if (!copy_table(&e->lists[SIDE_OUT], &g->now->lists[SIDE_OUT]) ||
        !copy_table(&e->lists[SIDE_IN], &g->now->lists[SIDE_IN])) {
        graph_edition_destroy(e);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    g->write.edition = e;
    return STATUS_OK;
}

void graph_mark(struct graph_edition *g, enum graph_part part, uint64_t first, uint64_t count)
{
    struct graph_write *w = &g->of->write;
    uint64_t bytes = graph_element_bytes[part];
    if (!w->tracked[part] || w->changed_all[part] || !count) return;
    w->changed[part].shift = g->of->dirty[part].shift;
    if (!dirty_cover(&w->changed[part], (first + count) * bytes)) w->changed_all[part] = true;
    dirty_mark(&w->changed[part], first * bytes, count * bytes);
}

/* A next edition goes, with all that only it has; what it wrote behind the last place of shared
 * arrays, and its entries in a shared index, are seen by nobody. */
static void abandon(struct graph *g)
{
    struct graph_edition *e = g->write.edition, *now = g->now;
    for (int part = 0; part < GRAPH_PARTS; part++)
        dirty_forget(&g->write.changed[part]);
    g->write.edition = NULL;
    g->write.left = NULL;
    g->write.starved = STATUS_OK;
    if (!e) return;
    if (e == now) {
        gate_open(&e->gate);
        return;
    }
    for (int part = 0; part < GRAPH_PARTS; part++)
        if (e->parts[part] && e->parts[part]->born == e->number)
            graph_piece_free(g->heap, e->parts[part]);
    for (int side = 0; side < SIDES; side++)
        for (uint32_t i = 0; i < e->lists[side].count; i++)
            if (e->lists[side].pieces[i]->born == e->number)
                graph_piece_free(g->heap, e->lists[side].pieces[i]);
    if (e->index != now->index) node_index_free(e->index);
    graph_edition_destroy(e);
}

static enum status attempt(struct graph *g, bool in_place, graph_change *change, void *write,
                           struct failure *f)
{
    enum status st = in_place ? STATUS_OK : begin_next(g);
    if (st) {
        graph_refuse(g->now, st, "another version of the graph", f);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    struct graph_write *w = &g->write;
    st = change(w->edition, write, f);
    if (w->starved) {
        graph_refuse(g->now, w->starved, "a copy of what requests read", f);
        st = STATUS_RESOURCE_EXHAUSTED;
    }
    if (st || !w->completed) abandon(g);
    return st;
}

bool graph_upkeep_waits(const struct graph_edition *g)
{
    return graph_in_place(g) && !g->of->write.alone && g->numbers > IN_PLACE_EDGES_MAX;
}

static bool upkeep_is_due(const struct graph_edition *e)
{
    return e->numbers > IN_PLACE_EDGES_MAX && graph_upkeep_is_due(e);
}

/* Where there is no memory for what only another edition needs, it is done in place if nobody sees
 * the newest. Nobody comes while somebody alone uses the graph. */
enum status graph_write_run(struct graph *of, uint64_t edges, graph_change *change, void *write,
                            struct failure *f)
{
    bool unexpected = !of->write.expected;
    if (unexpected) graph_expect_write_alone(of);
    bool alone = of->write.alone;
    bool brief = edges <= IN_PLACE_EDGES_MAX && !upkeep_is_due(of->now);
    bool in_place = (alone || brief) && begin_in_place(of, alone);
    enum status st = attempt(of, in_place, change, write, f);
    if (st == STATUS_RESOURCE_EXHAUSTED && !in_place && begin_in_place(of, true))
        st = attempt(of, true, change, write, f);
    if (unexpected) {
        graph_publish(of);
        graph_free_gone(of->heap, graph_take_gone(of));
    }
    return st;
}

/* ---------------------------------------------------------------- what the loop reads */

static void know(_Atomic uint64_t *known, uint64_t value)
{
    atomic_store_explicit(known, value, memory_order_relaxed);
}

static void know_bytes(struct graph_edition *g)
{
    struct graph_known *k = &g->known;
    uint64_t edge_bytes = 0, node_bytes = node_index_bytes(g->index);
    for (int part = 0; part < GRAPH_PARTS; part++) {
        uint64_t bytes = g->parts[part] ? g->parts[part]->block.bytes : 0;
        bool edges = part == GRAPH_OUT_EDGES || part == GRAPH_IN_EDGES;
        *(edges ? &edge_bytes : &node_bytes) += bytes;
        know(&k->part_bytes[part], graph_part_bytes(g, (enum graph_part)part));
    }
    for (int side = 0; side < SIDES; side++) {
        const struct graph_pages *t = &g->lists[side];
        if (t->count > 1) node_bytes += (uint64_t)(t->count - 1) * HEAP_UNIT;
        if (t->count) node_bytes += t->pieces[t->count - 1]->block.bytes;
    }
    know(&k->index_bytes, node_index_bytes(g->index));
    know(&k->edge_bytes, edge_bytes);
    know(&k->node_bytes, node_bytes);
}

void graph_complete(struct graph_edition *g)
{
    struct graph *of = g->of;
    struct graph_known *k = &g->known;
    if (of->write.starved) return;
    of->write.completed = true;
    know(&k->nodes, g->numbers - g->free_count);
    know(&k->edges, g->edge_count);
    know_bytes(g);
    for (int side = 0; side < SIDES; side++)
        know(&k->count_max[side], g->sides[side].count_max);
    for (int kind = 0; kind < 3; kind++)
        know(&k->kinds[kind], g->kinds[kind]);
    uint64_t version = space_next_version(of->resident.space);
    atomic_store_explicit(&g->version, version, memory_order_relaxed);
    if (!graph_in_place(g)) return;
    resident_set_version(&of->resident, version);
    atomic_store_explicit(&of->numbers_now, g->numbers, memory_order_relaxed);
}
