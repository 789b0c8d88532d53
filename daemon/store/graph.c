#include "daemon/store/graph_inside.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/job.h"
#include "daemon/store/array.h"

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

static void resident_mark_run(struct resident *r, const struct resident_run *run)
{
    dirty_mark(&((struct graph *)r)->dirty[run->part], run->first, run->count);
}

static void resident_give_to_job(struct resident *r, struct job *j)
{
    j->resident = r;
    j->graph = ((struct graph *)r)->now;
}

static bool resident_begin(struct job_object *o)
{
    struct graph *g = (struct graph *)o->resident;
    struct graph_edition *e = g->now;
    if (o->writer)
        graph_expect_write(g);
    else
        e = graph_pin(g);
    if (e) o->graph = e;
    return e != NULL;
}

static bool resident_renew(struct job_object *o)
{
    struct graph *g = (struct graph *)o->resident;
    if (o->graph == g->now) return true;
    struct graph_edition *e = graph_pin(g);
    if (!e) return false;
    graph_release(o->graph);
    o->graph = e;
    return true;
}

static void resident_share(struct job_object *to, const struct job_object *from)
{
    (void)gate_enter(&from->graph->gate); /* it is open: `from` is in there */
    to->graph = from->graph;
}

static void resident_release(struct job_object *o)
{
    if (o->writer)
        graph_publish((struct graph *)o->resident);
    else
        graph_release(o->graph);
    o->graph = NULL;
}

static struct leftovers resident_take_gone(struct resident *r)
{
    return graph_take_gone((struct graph *)r);
}

static void resident_end(struct resident *r)
{
    graph_destroy((struct graph *)r);
}

static void resident_take_number(struct resident *r)
{
    resident_change(r);
    atomic_store_explicit(&((struct graph *)r)->now->version, resident_version(r),
                          memory_order_relaxed);
}

static const struct resident_ops graph_ops = {
    .kind = RESIDENT_GRAPH,
    .bytes = resident_whole_bytes,
    .dirty_bytes = resident_changed_bytes,
    .track = resident_start_tracking,
    .soil = resident_mark_all,
    .soil_run = resident_mark_run,
    .lend = resident_give_to_job,
    .begin = resident_begin,
    .renew = resident_renew,
    .share = resident_share,
    .end = resident_release,
    .take_gone = resident_take_gone,
    .gone_is_much = graph_gone_is_much,
    .free_gone = graph_free_gone,
    .renumber = resident_take_number,
    .destroy = resident_end,
};

/* ---- lifetime ---- */

void graph_set_empty(struct graph_edition *g)
{
    memset(g->sides, 0, sizeof g->sides);
    memset(g->kinds, 0, sizeof g->kinds);
    g->numbers = g->free_count = 0;
    g->edge_count = g->order_changes = 0;
    g->weight_exponent = INT_MIN;
    g->factor_exponent = 0;
    g->weight_size = 0;
    g->largest_count = 0;
}

enum status graph_create(struct heap *heap, struct space *space, const char *name,
                         struct graph **out)
{
    struct graph *g = fault_here("store: graph") ? NULL : calloc(1, sizeof *g);
    if (!g) return STATUS_RESOURCE_EXHAUSTED;
    g->outside = g->spare_outside = (struct outside){.heap = heap, .owner = space->number};
    enum status st =
        outside_count(&g->outside, sizeof *g + sizeof *g->now + RESIDENT_OUTSIDE_BYTES);
    if (!st) g->now = graph_edition_create(g);
    if (!st && !g->now) st = STATUS_RESOURCE_EXHAUSTED;
    if (st) {
        outside_end(&g->outside);
        free(g);
        return st;
    }
    g->now->number = 1;
    graph_set_empty(g->now);
    resident_init(&g->resident, &graph_ops, space, name);
    atomic_store_explicit(&g->now->version, resident_version(&g->resident), memory_order_relaxed);
    g->heap = heap;
    pthread_mutex_init(&g->work_lock, NULL);
    graph_dirty_init(g);
    *out = g;
    return STATUS_OK;
}

/* The writer's own arrays stay while another edition may come back to them. */
static void drop_spare(struct graph *g)
{
    array_free(g->free_numbers, g->free_capacity * sizeof *g->free_numbers);
    array_free(g->marks, g->mark_words * sizeof *g->marks);
    g->free_numbers = NULL;
    g->marks = NULL;
    g->free_capacity = g->mark_words = 0;
    outside_end(&g->spare_outside);
}

void graph_empty(struct graph_edition *g)
{
    for (int part = 0; part < GRAPH_PARTS; part++)
        graph_part_replace(g, (enum graph_part)part, NULL);
    for (int side = 0; side < SIDES; side++)
        graph_pages_leave(g, &g->lists[side]);
    if (graph_in_place(g)) drop_spare(g->of);
    if (graph_in_place(g) || g->index != g->of->now->index) node_index_free(g->index);
    g->index = NULL;
    graph_set_empty(g);
}

void graph_clear(struct graph *g)
{
    bool had = g->now->numbers;
    assert(!g->now->older);
    graph_empty(g->now);
    graph_soil(g);
    graph_drop_work(g);
    if (had) graph_complete(g->now);
    g->write.completed = false;
    graph_free_gone(g->heap, graph_take_gone(g));
}

void graph_destroy(struct graph *g)
{
    if (!g) return;
    graph_clear(g);
    graph_edition_destroy(g->now);
    pthread_mutex_destroy(&g->work_lock);
    outside_end(&g->outside);
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

enum status graph_scratch(struct graph_edition *g, uint64_t bytes, struct heap_block *out)
{
    *out = (struct heap_block){0};
    enum status st = heap_take(g->of->heap, bytes ? bytes : 1, g->of->resident.space->number, out);
    if (!st) graph_populate(out->data, bytes);
    return st;
}

enum status graph_refuse(struct graph_edition *g, enum status st, const char *what,
                         struct failure *f)
{
    const struct graph *of = g->of;
    heap_refuse(of->heap, st, of->resident.space->number, what, f);
    if (f && (of->write.older || gate_has_readers(&of->now->gate)))
        f->retry_after_ms = RETRY_MEMORY_MS;
    return st == STATUS_OK ? st : STATUS_RESOURCE_EXHAUSTED;
}

/* ---- readers ---- */

static uint64_t known(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

struct resident *graph_resident(struct graph *g)
{
    return &g->resident;
}

uint64_t graph_nodes(const struct graph_edition *e)
{
    return known(&e->known.nodes);
}

uint64_t graph_edges(const struct graph_edition *e)
{
    return known(&e->known.edges);
}

uint64_t graph_version(const struct graph_edition *e)
{
    return known(&e->version);
}

uint64_t graph_out_count_max(const struct graph_edition *e)
{
    return known(&e->known.count_max[SIDE_OUT]);
}

uint64_t graph_known_part_bytes(const struct graph *g, enum graph_part part)
{
    return known(&g->now->known.part_bytes[part]);
}

struct graph_info graph_info(const struct graph *g)
{
    const struct graph_known *k = &g->now->known;
    struct graph_info info = {
        .name = g->resident.name,
        .nodes = known(&k->nodes),
        .edges = known(&k->edges),
        .version = resident_version(&g->resident),
        .edge_bytes = known(&k->edge_bytes),
        .node_bytes = known(&k->node_bytes),
        .work_bytes = known(&g->work_bytes),
        .out_count_max = known(&k->count_max[SIDE_OUT]),
        .in_count_max = known(&k->count_max[SIDE_IN]),
    };
    for (int kind = 0; kind < 3; kind++)
        info.kinds[kind] = known(&k->kinds[kind]);
    return info;
}

struct spread_graph graph_view(const struct graph_edition *e)
{
    int weight = e->weight_exponent == INT_MIN ? 0 : e->weight_exponent;
    return (struct spread_graph){
        .nodes = e->numbers,
        .edges = e->edge_count,
        .out_pages = e->lists[SIDE_OUT].lists,
        .in_pages = e->lists[SIDE_IN].lists,
        .out_edges = edges_of(e, SIDE_OUT),
        .in_edges = edges_of(e, SIDE_IN),
        .ids = ids_of(e),
        .kinds = part_of(e, GRAPH_KINDS),
        .factors = part_of(e, GRAPH_FACTORS),
        .order = part_of(e, GRAPH_ORDER),
        .grid = spread_grid_of(weight, e->factor_exponent, e->sides[SIDE_IN].count_max),
    };
}

uint32_t graph_find(const struct graph_edition *e, uint64_t id)
{
    return node_index_find(e->index, ids_of(e), e->numbers, id);
}

uint64_t graph_find_many(const struct graph_edition *e, const uint64_t *ids, size_t count,
                         uint32_t *nodes)
{
    return node_index_find_many(e->index, ids_of(e), e->numbers, ids, count, nodes);
}

int graph_exponent(float magnitude)
{
    int e;
    return frexpf(magnitude, &e) == 0.5f ? e - 1 : e;
}
