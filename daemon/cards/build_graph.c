/* build_graph: the orders that bring a graph's replica up to date. */
#include "daemon/cards/cards_inside.h"
#include "daemon/store/graph.h"

_Static_assert((int)GRAPH_PARTS == (int)ORDER_PARTS_MAX, "a part has an array in the replica");
_Static_assert((int)GRAPH_OUT == PART_OUT && (int)GRAPH_IN == PART_IN, "parts are called alike");
_Static_assert((int)GRAPH_OUT_EDGES == PART_OUT_EDGES, "parts are called alike");
_Static_assert((int)GRAPH_IN_EDGES == PART_IN_EDGES, "parts are called alike");
_Static_assert((int)GRAPH_IDS == PART_IDS && (int)GRAPH_ORDER == PART_ORDER, "so are these");
_Static_assert((int)GRAPH_KINDS == PART_KINDS && (int)GRAPH_FACTORS == PART_FACTORS, "and these");

/* With this many free places the ring is as empty as it is likely to get. */
enum { ROOMY_ORDERS = 64 };

static struct graph *graph_of(const struct resident *of)
{
    return (struct graph *)of;
}

uint64_t build_graph_bytes(const struct resident *of)
{
    uint64_t bytes = 0;
    for (int part = 0; part < GRAPH_PARTS; part++)
        bytes += build_mapped(graph_known_part_bytes(graph_of(of), (enum graph_part)part));
    return bytes;
}

static void order_run(struct cards *g, struct job *j, struct card_replica *r,
                      const struct graph_run *run, uint64_t version)
{
    struct order order = {.kind = ORDER_UPLOAD_PART, .version = version};
    struct order_upload_part *up = &order.part;
    *up = (struct order_upload_part){
        .part = run->part,
        .fresh = !r->begun,
        .round = r->round,
        .space_bytes_max = build_space_bytes_max(g, r),
        .first = run->first,
        .count = run->bytes,
        .bytes = run->bytes ? heap_place(g->options.heap, run->data) : PLACE_NONE,
    };
    for (int part = 0; part < GRAPH_PARTS; part++)
        up->part_bytes[part] = graph_part_bytes(j->graph, (enum graph_part)part);
    build_order(g, j, r, &order, run->bytes);
}

/* Scattered changes can be more runs than the ring ever has room for, so that they could never be
 * uploaded at once. In that case the parts are uploaded as a whole. */
static bool has_room_for_all(struct graph *graph, uint32_t orders_max)
{
    if (graph_dirty_runs(graph) <= orders_max) return true;
    if (orders_max < ROOMY_ORDERS) return false;
    resident_soil(graph_resident(graph));
    return resident_track(graph_resident(graph));
}

/* Graphs are what an operation names first. */
bool build_graph(struct cards *g, struct job *j, uint32_t operand, uint64_t bytes_max,
                 uint32_t orders_max)
{
    struct card_replica *r = replica_of(job_operand(j, operand));
    struct graph *graph = graph_of(r->resident);
    bool all = bytes_max == UINT64_MAX;
    if (all && !has_room_for_all(graph, orders_max)) return false;
    struct graph_run run = {0}, next;
    uint64_t version = graph_version(j->graph), left = all ? 0 : bytes_max;
    bool more = graph_next_dirty(graph, left, &run), stop = false;
    replica_set_bytes(r, resident_bytes(r->resident));
    if (!more) order_run(g, j, r, &run, version);
    for (uint32_t given = 1; more && !stop; given++, run = next) {
        graph_clean(graph, &run);
        if (!all) left = left > run.bytes ? left - run.bytes : 0;
        more = graph_next_dirty(graph, left, &next);
        stop = given == orders_max || (!all && !left);
        order_run(g, j, r, &run, more ? 0 : version);
    }
    r->version = more ? 0 : version;
    return true;
}
