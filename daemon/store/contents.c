#include "daemon/store/contents.h"

#include "daemon/store/attractor_inside.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/graph_inside.h"

static struct content of_collection(const struct collection *c)
{
    struct collection_info i = collection_info(c);
    const uint64_t column_bytes = i.rows * (sizeof(uint64_t) + sizeof(float));
    /* A writer may be at work between the two readings. */
    uint64_t index_bytes = i.index_bytes > column_bytes ? i.index_bytes - column_bytes : 0;
    uint64_t rest = index_bytes + i.shadow.bytes;
    return (struct content){
        .resident = &c->resident,
        .needed_bytes = i.rows * i.dimension * sizeof(float) + column_bytes + rest,
        .taken_bytes = i.room_bytes + rest,
    };
}

static struct content of_graph(const struct graph *g)
{
    struct graph_info i = graph_info(g);
    uint64_t bytes = i.work_bytes;
    for (int part = 0; part < GRAPH_PARTS; part++) {
        bool edges = part == GRAPH_OUT_EDGES || part == GRAPH_IN_EDGES;
        bytes += edges ? i.edges * graph_element_bytes[part]
                       : graph_known_part_bytes(g, (enum graph_part)part);
    }
    uint64_t index_bytes = atomic_load_explicit(&g->now->known.index_bytes, memory_order_relaxed);
    return (struct content){
        .resident = &g->resident,
        .needed_bytes = bytes + index_bytes,
        .taken_bytes = i.edge_bytes + i.node_bytes + i.work_bytes,
    };
}

static struct content of_attractor(const struct attractor *a)
{
    enum { PAGE = 4096 };
    struct attractor_info i = attractor_info(a);
    return (struct content){
        .resident = &a->resident,
        .needed_bytes = (uint64_t)i.dimension * i.dimension * sizeof(float),
        .taken_bytes = (i.weight_bytes + PAGE - 1) / PAGE * PAGE,
        .shared_bytes = i.dentate_bytes,
    };
}

/* Where each of the three tables is, which have their entries in the order in which they came. */
struct walk {
    const struct collection *collection;
    const struct graph *graph;
    const struct attractor *attractor;
};

/* Takes the first of the three; false: there is none. */
static bool step(struct walk *w, uint64_t after, struct content *out)
{
    while (w->collection && w->collection->resident.number <= after)
        w->collection = w->collection->hh.next;
    while (w->graph && w->graph->resident.number <= after)
        w->graph = w->graph->hh.next;
    while (w->attractor && w->attractor->resident.number <= after)
        w->attractor = w->attractor->hh.next;
    uint64_t c = w->collection ? w->collection->resident.number : UINT64_MAX;
    uint64_t g = w->graph ? w->graph->resident.number : UINT64_MAX;
    uint64_t a = w->attractor ? w->attractor->resident.number : UINT64_MAX;
    if (w->collection && c < g && c < a)
        *out = of_collection(w->collection);
    else if (w->graph && g < a)
        *out = of_graph(w->graph);
    else if (w->attractor)
        *out = of_attractor(w->attractor);
    else
        return false;
    return true;
}

size_t store_contents(const struct space *space, uint64_t after, struct content *out, size_t max,
                      bool *more)
{
    struct walk w = {space->collections, space->graphs, space->attractors};
    struct content one;
    size_t count = 0;
    while ((*more = step(&w, after, &one)) && count < max) {
        out[count++] = one;
        after = one.resident->number;
    }
    return count;
}
