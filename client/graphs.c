/* graphs: create, drop, describe, list; nodes. */
#include "client/client.h"

#include <stdlib.h>
#include <string.h>

#define F32 engram_accel_v1_Dtype_DTYPE_FLOAT32
#define U64 engram_accel_v1_Dtype_DTYPE_UINT64
#define U8  engram_accel_v1_Dtype_DTYPE_UINT8
#define TENSOR(message, member, dtype, data, rows)                                                \
    ea_request_tensor(c, r, #member, &(message).has_##member, &(message).member, (dtype), (data), \
                      (rows), 1)

static void convert(const engram_accel_v1_GraphInfo *m, ea_graph_info *out)
{
    *out = (ea_graph_info){
        .nodes = m->nodes,
        .edges = m->edges,
        .version = m->version,
        .edge_bytes = m->edge_bytes,
        .node_bytes = m->node_bytes,
        .work_bytes = m->work_bytes,
        .out_count_max = m->out_count_max,
        .in_count_max = m->in_count_max,
        .episodes = m->episodes,
        .concepts = m->concepts,
        .vram_bytes = m->vram_bytes,
        .vram_version = m->vram_version,
    };
    memcpy(out->name, m->name, sizeof out->name);
}

/* Sends a filled message whose reply is one graph, or nothing of interest. */
static ea_status ask(ea_client *c, uint8_t kind, const pb_msgdesc_t *fields, const void *message,
                     bool repeatable, ea_graph_info *out)
{
    struct client_request *r = ea_request_take(c, kind);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphInfo info;
    r->repeatable = repeatable;
    r->out = out ? &info : NULL;
    ea_status st = ea_request_message(c, r, fields, message);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    st = ea_call(c, r, NULL);
    if (!st && out) convert(&info, out);
    return st;
}

ea_status ea_graph_create(ea_client *c, const char *name, ea_graph_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    engram_accel_v1_GraphCreateRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    if (st) return st;
    return ask(c, engram_accel_v1_Kind_KIND_GRAPH_CREATE, engram_accel_v1_GraphCreateRequest_fields,
               &m, false, out);
}

ea_status ea_graph_drop(ea_client *c, const char *name)
{
    if (!c) return EA_INVALID_ARGUMENT;
    engram_accel_v1_GraphDropRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    if (st) return st;
    return ask(c, engram_accel_v1_Kind_KIND_GRAPH_DROP, engram_accel_v1_GraphDropRequest_fields, &m,
               false, NULL);
}

ea_status ea_graph_describe(ea_client *c, const char *name, ea_graph_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    engram_accel_v1_GraphDescribeRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    if (st) return st;
    return ask(c, engram_accel_v1_Kind_KIND_GRAPH_DESCRIBE,
               engram_accel_v1_GraphDescribeRequest_fields, &m, true, out);
}

static ea_status list_page(ea_client *c, const char *after, engram_accel_v1_GraphListReply *page)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_LIST);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphListRequest m = {0};
    memcpy(m.after, after, strlen(after));
    r->out = page;
    ea_status st = ea_request_message(c, r, engram_accel_v1_GraphListRequest_fields, &m);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    return ea_call(c, r, NULL);
}

/* Names must rise, or a broken daemon could keep us asking for ever. */
static bool page_rises(const char *after, const engram_accel_v1_GraphListReply *page)
{
    for (size_t i = 0; i < page->graphs_count; i++) {
        if (strcmp(after, page->graphs[i].name) >= 0) return false;
        after = page->graphs[i].name;
    }
    return page->graphs_count || !page->more;
}

ea_status ea_graph_list(ea_client *c, ea_graph_info **out, size_t *count)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out or count: NULL");
    ea_graph_info *list = NULL;
    size_t used = 0;
    engram_accel_v1_GraphListReply page;
    ea_status st;
    do {
        const char *after = used ? list[used - 1].name : "";
        st = list_page(c, after, &page);
        if (!st && !page_rises(after, &page))
            st = ea_fail(c, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE,
                         "the daemon's reply: a list out of order");
        if (st) break;
        ea_graph_info *larger = realloc(list, (used + page.graphs_count + 1) * sizeof *list);
        if (!larger) {
            st = ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory for the list");
            break;
        }
        list = larger;
        for (size_t i = 0; i < page.graphs_count; i++)
            convert(&page.graphs[i], &list[used++]);
    } while (page.more);
    if (st) {
        free(list);
        return st;
    }
    *out = list;
    *count = used;
    return EA_OK;
}

void ea_graph_list_free(ea_graph_info *list)
{
    free(list);
}

/* ---- nodes ---- */

ea_status ea_graph_set_nodes(ea_client *c, const char *graph, const uint64_t *ids,
                             const uint8_t *kinds, const float *factors, uint64_t n,
                             ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_SET_NODES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphSetNodesRequest m = {0};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, ids, U64, ids, n);
    if (!st && kinds) st = TENSOR(m, kinds, U8, kinds, n);
    if (!st && factors) st = TENSOR(m, factors, F32, factors, n);
    return ea_change(c, r, st, engram_accel_v1_GraphSetNodesRequest_fields, &m, out);
}

ea_status ea_graph_remove_nodes(ea_client *c, const char *graph, const uint64_t *ids, uint64_t n,
                                ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_REMOVE_NODES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphRemoveNodesRequest m = {0};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, ids, U64, ids, n);
    return ea_change(c, r, st, engram_accel_v1_GraphRemoveNodesRequest_fields, &m, out);
}

void ea_nodes_free(ea_nodes *n)
{
    if (!n) return;
    free(n->memory);
    *n = (ea_nodes){0};
}

ea_status ea_graph_fetch_nodes(ea_client *c, const char *graph, const uint64_t *ids, uint64_t n,
                               bool edges, ea_nodes *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    ea_nodes_free(out);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_FETCH_NODES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    ea_nodes nodes;
    r->out = &nodes;
    r->expect = (struct expectation){.rows = n, .edges = edges};
    engram_accel_v1_GraphFetchNodesRequest m = {.edges = edges};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, ids, U64, ids, n);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_GraphFetchNodesRequest_fields, &m);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    ea_result result = {0};
    st = ea_call(c, r, &result);
    if (st) return st;
    *out = nodes;
    out->memory = result.memory;
    return EA_OK;
}
