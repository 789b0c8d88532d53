#include "daemon/store/graph_inside.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/job.h"
#include "daemon/store/array.h"

enum { RELEASE_BYTES_MIN = 1 << 20, FIT_FACTOR = 4 };

const uint8_t graph_element_bytes[GRAPH_PARTS] = {
    [GRAPH_OUT] = sizeof(struct spread_list),
    [GRAPH_IN] = sizeof(struct spread_list),
    [GRAPH_OUT_EDGES] = sizeof(struct spread_edge),
    [GRAPH_IN_EDGES] = sizeof(struct spread_edge),
    [GRAPH_IDS] = sizeof(uint64_t),
    [GRAPH_ORDER] = sizeof(uint32_t),
    [GRAPH_KINDS] = sizeof(uint8_t),
    [GRAPH_FACTORS] = sizeof(float),
};

/* ---- as a resident; the resident is the first member, so that it can be cast ---- */

static uint64_t resident_whole_bytes(const struct resident *r)
{
    uint64_t bytes = 0;
    for (int part = 0; part < GRAPH_PARTS; part++)
        bytes += graph_known_part_bytes((const struct graph *)r, (enum graph_part)part);
    return bytes;
}

static uint64_t resident_changed_bytes(const struct resident *r)
{
    return graph_dirty_bytes((const struct graph *)r);
}

static bool resident_start_tracking(struct resident *r)
{
    return graph_track((struct graph *)r);
}

static void resident_mark_all(struct resident *r)
{
    graph_soil((struct graph *)r);
}

static void resident_give_to_job(struct resident *r, struct job *j)
{
    j->resident = r;
    j->graph = (struct graph *)r;
}

static bool resident_begin(struct resident *r, struct job *j)
{
    j->graph = (struct graph *)r;
    return true;
}

static void resident_release(struct resident *r, struct job *j)
{
    j->graph = NULL;
}

static void resident_end(struct resident *r)
{
    graph_destroy((struct graph *)r);
}

static const struct resident_ops graph_ops = {
    .kind = RESIDENT_GRAPH,
    .bytes = resident_whole_bytes,
    .dirty_bytes = resident_changed_bytes,
    .track = resident_start_tracking,
    .soil = resident_mark_all,
    .lend = resident_give_to_job,
    .begin = resident_begin,
    .end = resident_release,
    .destroy = resident_end,
};

/* ---- lifetime ---- */

static void set_empty(struct graph *g)
{
    memset(g->sides, 0, sizeof g->sides);
    memset(g->kinds, 0, sizeof g->kinds);
    g->numbers = g->free_count = 0;
    g->edge_count = g->order_changes = 0;
    g->weight_exponent = INT_MIN;
    g->factor_exponent = 0;
    g->weight_size = 0;
    g->largest_count = 0;
    g->index.sparse = true;
}

enum status graph_create(struct heap *heap, struct space *space, const char *name,
                         struct graph **out)
{
    struct graph *g = fault_here("store: graph") ? NULL : calloc(1, sizeof *g);
    if (!g) return STATUS_RESOURCE_EXHAUSTED;
    resident_init(&g->resident, &graph_ops, space, name);
    g->heap = heap;
    pthread_mutex_init(&g->work_lock, NULL);
    graph_dirty_init(g);
    set_empty(g);
    *out = g;
    return STATUS_OK;
}

void graph_empty(struct graph *g)
{
    for (int part = 0; part < GRAPH_PARTS; part++)
        heap_release(g->heap, &g->parts[part]);
    array_free(g->free_numbers, g->free_capacity * sizeof *g->free_numbers);
    array_free(g->marks, g->mark_words * sizeof *g->marks);
    g->free_numbers = NULL;
    g->marks = NULL;
    g->free_capacity = g->mark_words = 0;
    id_index_finish(&g->index);
    set_empty(g);
}

void graph_clear(struct graph *g)
{
    bool had = g->numbers;
    graph_empty(g);
    graph_soil(g);
    graph_drop_work(g);
    if (had) graph_publish(g);
}

void graph_destroy(struct graph *g)
{
    if (!g) return;
    graph_clear(g);
    pthread_mutex_destroy(&g->work_lock);
    free(g);
}

void graph_drop_work(struct graph *g)
{
    pthread_mutex_lock(&g->work_lock);
    while (g->work) {
        struct graph_work *w = g->work;
        g->work = w->next;
        heap_release(g->heap, &w->block);
        free(w);
    }
    graph_count_work(g);
    pthread_mutex_unlock(&g->work_lock);
}

/* ---- memory ---- */

void graph_part_replace(struct graph *g, enum graph_part part, struct heap_block block)
{
    if (g->parts[part].bytes >= RELEASE_BYTES_MIN)
        heap_release(g->heap, &g->parts[part]);
    else
        heap_give(g->heap, &g->parts[part]);
    g->parts[part] = block;
}

enum status graph_part_reserve(struct graph *g, enum graph_part part, uint64_t count, uint64_t keep)
{
    const struct heap_block *now = &g->parts[part];
    uint64_t bytes = count * graph_element_bytes[part];
    uint64_t kept = keep * graph_element_bytes[part];
    if (bytes <= now->bytes) return STATUS_OK;

    struct heap_block larger;
    enum status st = STATUS_RESOURCE_EXHAUSTED;
    uint64_t generous = now->bytes + now->bytes / 2;
    uint32_t owner = g->resident.space->number;
    if (generous > bytes) st = heap_take_fresh(g->heap, generous, owner, &larger);
    if (st) st = heap_take_fresh(g->heap, bytes, owner, &larger);
    if (st) return st;
    if (kept >= HEAP_POPULATE_BYTES_MIN) heap_populate(larger.data, kept);
    if (kept) memcpy(larger.data, now->data, kept);
    graph_part_replace(g, part, larger);
    return STATUS_OK;
}

static void fit_part(struct graph *g, enum graph_part part)
{
    uint64_t bytes = graph_part_bytes(g, part);
    struct heap_block smaller = {0};
    if (g->parts[part].bytes <= bytes * FIT_FACTOR + HEAP_UNIT) return;
    if (bytes && heap_take_fresh(g->heap, bytes, g->resident.space->number, &smaller)) return;
    if (bytes) memcpy(smaller.data, g->parts[part].data, bytes);
    graph_part_replace(g, part, smaller);
}

void graph_fit(struct graph *g)
{
    if (!g->numbers) graph_empty(g);
    for (int part = 0; part < GRAPH_PARTS; part++)
        fit_part(g, part);
}

enum status graph_scratch(struct graph *g, uint64_t bytes, struct heap_block *out)
{
    *out = (struct heap_block){0};
    enum status st = heap_take(g->heap, bytes ? bytes : 1, g->resident.space->number, out);
    if (!st && bytes >= HEAP_POPULATE_BYTES_MIN) heap_populate(out->data, bytes);
    return st;
}

enum status graph_refuse(struct graph *g, enum status st, const char *what, struct failure *f)
{
    return heap_refuse(g->heap, st, g->resident.space->number, what, f);
}

/* ---- readers ---- */

static void know(_Atomic uint64_t *known, uint64_t value)
{
    atomic_store_explicit(known, value, memory_order_relaxed);
}

static uint64_t known(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static bool is_edges(int part)
{
    return part == GRAPH_OUT_EDGES || part == GRAPH_IN_EDGES;
}

void graph_publish(struct graph *g)
{
    uint64_t edge_bytes = 0;
    uint64_t node_bytes = g->index.slot_count * sizeof *g->index.slots;
    for (int part = 0; part < GRAPH_PARTS; part++)
        *(is_edges(part) ? &edge_bytes : &node_bytes) += g->parts[part].bytes;
    know(&g->known.nodes, g->numbers - g->free_count);
    know(&g->known.edges, g->edge_count);
    know(&g->known.edge_bytes, edge_bytes);
    know(&g->known.node_bytes, node_bytes);
    for (int side = 0; side < SIDES; side++)
        know(&g->known.count_max[side], g->sides[side].count_max);
    for (int kind = 0; kind < 3; kind++)
        know(&g->known.kinds[kind], g->kinds[kind]);
    for (int part = 0; part < GRAPH_PARTS; part++)
        know(&g->known.part_bytes[part], graph_part_bytes(g, (enum graph_part)part));
    resident_change(&g->resident);
}

struct resident *graph_resident(struct graph *g)
{
    return &g->resident;
}

uint64_t graph_nodes(const struct graph *g)
{
    return known(&g->known.nodes);
}

uint64_t graph_edges(const struct graph *g)
{
    return known(&g->known.edges);
}

uint64_t graph_known_part_bytes(const struct graph *g, enum graph_part part)
{
    return known(&g->known.part_bytes[part]);
}

struct graph_info graph_info(const struct graph *g)
{
    struct graph_info info = {
        .name = g->resident.name,
        .nodes = graph_nodes(g),
        .edges = graph_edges(g),
        .version = resident_version(&g->resident),
        .edge_bytes = known(&g->known.edge_bytes),
        .node_bytes = known(&g->known.node_bytes),
        .work_bytes = known(&g->work_bytes),
        .out_count_max = known(&g->known.count_max[SIDE_OUT]),
        .in_count_max = known(&g->known.count_max[SIDE_IN]),
    };
    for (int kind = 0; kind < 3; kind++)
        info.kinds[kind] = known(&g->known.kinds[kind]);
    return info;
}

struct spread_graph graph_view(const struct graph *g)
{
    int weight = g->weight_exponent == INT_MIN ? 0 : g->weight_exponent;
    return (struct spread_graph){
        .nodes = g->numbers,
        .edges = g->edge_count,
        .out = lists_of(g, SIDE_OUT),
        .in = lists_of(g, SIDE_IN),
        .out_edges = edges_of(g, SIDE_OUT),
        .in_edges = edges_of(g, SIDE_IN),
        .ids = ids_of(g),
        .kinds = g->parts[GRAPH_KINDS].data,
        .factors = g->parts[GRAPH_FACTORS].data,
        .order = g->parts[GRAPH_ORDER].data,
        .grid = spread_grid_of(weight, g->factor_exponent, g->sides[SIDE_IN].count_max),
    };
}

uint32_t graph_find(const struct graph *g, uint64_t id)
{
    return id_index_find(&g->index, ids_of(g), id);
}

uint64_t graph_find_many(const struct graph *g, const uint64_t *ids, size_t count, uint32_t *nodes)
{
    return id_index_find_many(&g->index, ids_of(g), ids, count, nodes);
}

int graph_exponent(float magnitude)
{
    int e;
    return frexpf(magnitude, &e) == 0.5f ? e - 1 : e;
}
