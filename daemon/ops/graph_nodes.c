/* graph_nodes: returns properties of nodes, in the order of their ids: kind, factor, degrees, and,
 * if asked for, their out-edges by target's id, then by weight. */
#include "daemon/base/yield.h"
#include "daemon/ops/arena.h"
#include "daemon/ops/check.h"
#include "daemon/ops/operation_inside.h"
#include "daemon/ops/radix.h"
#include "daemon/ops/work.h"

enum { PART_NODES = 1024, FIND_NODES = 1024, YIELD_EVERY = 1 << 12 };

struct nodes {
    struct spread_graph graph;
    uint64_t count, first; /* by position: that of the first */
    bool by_id;
    uint32_t *numbers; /* SPREAD_NO_NODE: no node has this id, or this position */
    _Atomic bool starved;
    _Atomic int refused; /* enum status: why the first allocation failed */
};

static struct nodes *nodes_of(struct job *j)
{
    return j->plan.scratch.data;
}

/* ---- one node's edges ---- */

/* A key that rises with the weight; -0 is before +0. */
static uint32_t weight_key(float weight)
{
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

static bool write_edges(struct job *j, struct nodes *w, uint64_t at, struct arena *a)
{
    const struct spread_graph *g = &w->graph;
    const struct spread_list *list = spread_out_list(g, w->numbers[at]);
    const struct spread_edge *edges = g->out_edges + list->first;
    uint64_t first = ((const uint64_t *)j->result.tensors[RESULT_NODES_OFFSETS].data)[at];
    uint64_t *targets = (uint64_t *)j->result.tensors[RESULT_NODES_TARGETS].data + first;
    float *weights = (float *)j->result.tensors[RESULT_NODES_WEIGHTS].data + first;
    if (!list->count) return true;
    struct radix_item *items = arena_take(a, list->count * sizeof *items);
    struct radix_item *room = arena_take(a, list->count * sizeof *room);
    if (!items || !room) return false;
    for (uint32_t i = 0; i < list->count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        items[i] = (struct radix_item){weight_key(edges[i].weight), i};
    }
    struct radix_item *sorted = radix_sort(items, room, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        sorted[i].key = g->ids[edges[sorted[i].value].node];
    }
    sorted = radix_sort(sorted, sorted == items ? room : items, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        targets[i] = sorted[i].key;
        weights[i] = edges[sorted[i].value].weight;
    }
    return true;
}

/* ---- parts ---- */

static void write_node(struct job *j, struct nodes *w, uint64_t at)
{
    const struct spread_graph *g = &w->graph;
    struct tensor *t = j->result.tensors;
    uint32_t node = w->numbers[at];
    bool known = node != SPREAD_NO_NODE;
    ((uint8_t *)t[0].data)[at] = known;
    ((uint8_t *)t[1].data)[at] = known && g->kinds ? g->kinds[node] : SPREAD_PLAIN;
    ((float *)t[2].data)[at] = !known ? 0.0f : g->factors ? g->factors[node] : 1.0f;
    ((uint32_t *)t[3].data)[at] = known ? spread_out_list(g, node)->count : 0;
    ((uint32_t *)t[4].data)[at] = known ? spread_in_list(g, node)->count : 0;
    if (!w->by_id) ((uint64_t *)t[RESULT_NODES_IDS].data)[at] = known ? g->ids[node] : 0;
}

static void nodes_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct nodes *w = nodes_of(j);
    uint64_t at = (uint64_t)part * PART_NODES, end = smaller(at + PART_NODES, w->count);
    struct arena a;
    arena_init(&a, j->heap, operation_owner(j));
    for (; at < end && !is_cancelled(j); at++) {
        yield_check();
        write_node(j, w, at);
        if (!j->request.edges || w->numbers[at] == SPREAD_NO_NODE) continue;
        if (!write_edges(j, w, at, &a)) {
            atomic_store(&w->refused, (int)a.refused);
            atomic_store(&w->starved, true);
            break;
        }
        arena_clear(&a);
    }
    arena_finish(&a);
}

/* ---- before and after ---- */

static enum status take_result(struct job *j, struct nodes *w, uint64_t edges)
{
    operation_shape(j, RESULT_NODES_FOUND, DTYPE_UINT8, w->count, 1);
    operation_shape(j, RESULT_NODES_KINDS, DTYPE_UINT8, w->count, 1);
    operation_shape(j, RESULT_NODES_FACTORS, DTYPE_FLOAT32, w->count, 1);
    operation_shape(j, RESULT_NODES_OUT_COUNTS, DTYPE_UINT32, w->count, 1);
    operation_shape(j, RESULT_NODES_IN_COUNTS, DTYPE_UINT32, w->count, 1);
    uint32_t tensors = w->by_id ? RESULT_NODES_IDS : RESULTS_GraphFetchNodes;
    if (!w->by_id) operation_shape(j, RESULT_NODES_IDS, DTYPE_UINT64, w->count, 1);
    if (!j->request.edges && w->by_id) return operation_take_result(j, RESULT_NODES_OFFSETS);
    if (!j->request.edges) return operation_take_result(j, tensors);
    operation_shape(j, RESULT_NODES_OFFSETS, DTYPE_UINT64, w->count + 1, 1);
    operation_shape(j, RESULT_NODES_TARGETS, DTYPE_UINT64, edges, 1);
    operation_shape(j, RESULT_NODES_WEIGHTS, DTYPE_FLOAT32, edges, 1);
    return operation_take_result(j, tensors);
}

/* The numbers are the positions. A number that is free has the id of nobody, or one that another
 * number has. */
static uint64_t take_positions(const struct job *j, struct nodes *w)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < w->count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        uint32_t number = (uint32_t)(w->first + i);
        uint64_t id = w->graph.ids[number];
        bool known = id != UINT64_MAX && graph_find(j->graph, id) == number;
        w->numbers[i] = known ? number : SPREAD_NO_NODE;
        found += known;
    }
    return found;
}

/* Finds the numbers of all ids; returns how many there are. */
static uint64_t find_all(const struct job *j, struct nodes *w)
{
    const uint64_t *ids = j->request.ids.data;
    uint64_t found = 0;
    for (uint64_t first = 0, n; first < w->count; first += n) {
        n = smaller(FIND_NODES, w->count - first);
        yield_check();
        found += graph_find_many(j->graph, ids + first, n, w->numbers + first);
    }
    return found;
}

static enum status nodes_prepare(struct job *j)
{
    struct nodes *w = nodes_of(j);
    uint64_t found = w->by_id ? find_all(j, w) : take_positions(j, w);
    uint64_t edges = 0;
    for (uint64_t i = 0; i < w->count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        if (w->numbers[i] != SPREAD_NO_NODE)
            edges += spread_out_list(&w->graph, w->numbers[i])->count;
    }
    j->result.counts[0] = w->count - found;
    enum status st = take_result(j, w, edges);
    if (st || !j->request.edges) return st;
    uint64_t *offsets = j->result.tensors[RESULT_NODES_OFFSETS].data;
    offsets[0] = 0;
    for (uint64_t i = 0; i < w->count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        bool known = w->numbers[i] != SPREAD_NO_NODE;
        offsets[i + 1] =
            offsets[i] + (known ? spread_out_list(&w->graph, w->numbers[i])->count : 0);
    }
    return STATUS_OK;
}

static void nodes_finish(struct job *j)
{
    struct nodes *w = nodes_of(j);
    if (!j->failure.code && atomic_load(&w->starved))
        operation_refuse_memory(j, (enum status)atomic_load(&w->refused), "memory to sort edges");
    if (j->failure.code || is_cancelled(j)) operation_drop_result(j);
}

static enum status nodes_plan(struct job *j)
{
    const struct job_request *q = &j->request;
    struct nodes w = {.graph = graph_view(j->graph), .by_id = is_present(&q->ids)};
    uint64_t numbers_max = w.graph.nodes, bytes = 0;
    w.first = smaller(q->offset, numbers_max);
    w.count = w.by_id ? q->ids.rows : smaller(q->limit, numbers_max - w.first);
    uint64_t count = w.count;
    if (!w.by_id) j->result.positions = numbers_max;
    layout_add(&bytes, sizeof w);
    uint64_t numbers = layout_add(&bytes, count * sizeof *w.numbers);
    enum status st = operation_take_scratch(j, bytes);
    if (st) return operation_drop_all(j);
    w.numbers = scratch_at(j, numbers);
    operation_note_graph(j);
    *nodes_of(j) = w;
    j->plan.prepare = nodes_prepare;
    j->plan.run_part = nodes_part;
    j->plan.finish = nodes_finish;
    j->plan.parts = count ? (uint32_t)pieces_of(count, PART_NODES) : 1;
    return STATUS_OK;
}

enum { NODE_BYTES = 14 }; /* without its edges */

static void nodes_work(const struct job *j, struct work *w)
{
    uint64_t nodes = graph_nodes(j->graph);
    uint64_t count =
        is_present(&j->request.ids) ? j->request.ids.rows : smaller(j->request.limit, nodes);
    w->bytes_out = work_times(count, NODE_BYTES);
    if (!j->request.edges || !nodes) return;
    uint64_t degree = graph_edges(j->graph) / nodes + 1;
    w->bytes_out += work_times(work_times(count, degree), WORK_BEST_BYTES);
}

static enum status nodes_check(struct job *j)
{
    const struct job_request *q = &j->request;
    bool positions = q->offset || q->limit || q->cursor || q->keep;
    if (!is_present(&q->ids) || !positions) return STATUS_OK;
    return check_refuse(j, DETAIL_BAD_SHAPE,
                        "ids: offset and limit (or a cursor) are for a fetch without ids");
}

const struct operation_ops operation_graph_fetch_nodes = {
    .work = nodes_work, .check = nodes_check, .plan = nodes_plan};
