/* graph_nodes: makes, changes, removes and fetches nodes. */
#include "client/calls/calls.h"

static ea_status build_set(ea_client *c, const char *graph, const ea_graph_nodes *nodes,
                           struct client_request **out)
{
    if (!nodes) return ea_fail_null(c, "nodes");
    EA_TAKE(c, graph_nodes, n, nodes);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_SET_NODES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphSetNodesRequest m = {0};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, ids, U64, n.ids, n.count, 1);
    if (!st && n.kinds) st = TENSOR(m, kinds, U8, n.kinds, n.count, 1);
    if (!st && n.factors) st = TENSOR(m, factors, F32, n.factors, n.count, 1);
    return ea_build_write(c, r, st, engram_accel_v1_GraphSetNodesRequest_fields, &m, n.write, out);
}

ea_status ea_graph_set_nodes(ea_client *c, const char *graph, const ea_graph_nodes *nodes,
                             ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_set(c, graph, nodes, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_graph_set_nodes_send(ea_client *c, const char *graph, const ea_graph_nodes *nodes,
                                  const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_set(c, graph, nodes, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_remove(ea_client *c, const char *graph, const uint64_t *ids, uint64_t n,
                              struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_REMOVE_NODES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphRemoveNodesRequest m = {0};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, ids, U64, ids, n, 1);
    return ea_build_change(c, r, st, engram_accel_v1_GraphRemoveNodesRequest_fields, &m, out);
}

ea_status ea_graph_remove_nodes(ea_client *c, const char *graph, const uint64_t *ids, uint64_t n,
                                ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_remove(c, graph, ids, n, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_graph_remove_nodes_send(ea_client *c, const char *graph, const uint64_t *ids,
                                     uint64_t n, const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_remove(c, graph, ids, n, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_fetch(ea_client *c, const char *graph, const uint64_t *ids, uint64_t n,
                             bool edges, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_FETCH_NODES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->expect = (struct expectation){.rows = n, .edges = edges};
    engram_accel_v1_GraphFetchNodesRequest m = {.edges = edges};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, ids, U64, ids, n, 1);
    return ea_build_end(c, r, st, engram_accel_v1_GraphFetchNodesRequest_fields, &m, out);
}

ea_status ea_graph_fetch_nodes(ea_client *c, const char *graph, const uint64_t *ids, uint64_t n,
                               bool edges, ea_nodes *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_nodes_free(out);
    struct client_request *r;
    ea_status st = build_fetch(c, graph, ids, n, edges, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_graph_fetch_nodes_send(ea_client *c, const char *graph, const uint64_t *ids,
                                    uint64_t n, bool edges, const ea_send_options *how,
                                    uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_fetch(c, graph, ids, n, edges, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
