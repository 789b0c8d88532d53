/* graph_weights: adds to the weights of edges; scales and prunes all edges of a graph. */
#include <string.h>

#include "client/calls/calls.h"

static ea_status build_weights(ea_client *c, const char *graph, const ea_graph_edges *edges,
                               struct client_request **out)
{
    if (!edges) return ea_fail_null(c, "edges");
    EA_TAKE(c, graph_edges, e, edges);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_ADD_WEIGHTS);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false; /* a repetition would add twice */
    r->expect = (struct expectation){.rows = e.count};
    engram_accel_v1_GraphAddWeightsRequest m = {
        .create = e.create, .has_low = e.low != NULL, .has_high = e.high != NULL};
    if (e.low) m.low = *e.low;
    if (e.high) m.high = *e.high;
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, sources, U64, e.sources, e.count, 1);
    if (!st) st = TENSOR(m, targets, U64, e.targets, e.count, 1);
    if (!st) st = TENSOR(m, deltas, F32, e.weights, e.count, 1);
    return ea_build_write(c, r, st, engram_accel_v1_GraphAddWeightsRequest_fields, &m, e.write,
                          out);
}

ea_status ea_graph_add_weights(ea_client *c, const char *graph, const ea_graph_edges *edges,
                               float *weights_out, ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_weights(c, graph, edges, &r);
    if (st) return st;
    ea_graph_counts counts = {0};
    r->answer = &counts;
    st = ea_run(c, r, ea_deadline_after(c->timeout_us), 0);
    const ea_result *sums = &r->result;
    if (!st && weights_out && sums->vectors)
        memcpy(weights_out, sums->vectors, sums->rows * sizeof *weights_out);
    if (!st && out) ea_copy_struct(out, c->sizes.graph_counts, &counts, sizeof counts);
    ea_request_release(c, r);
    return st;
}

ea_status ea_graph_add_weights_send(ea_client *c, const char *graph, const ea_graph_edges *edges,
                                    const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_weights(c, graph, edges, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- all edges ---- */

static ea_status build_scale(ea_client *c, const char *graph, float factor,
                             struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_SCALE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false; /* a repetition would scale twice */
    engram_accel_v1_GraphScaleRequest m = {.has_factor = true, .factor = factor};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    return ea_build_change(c, r, st, engram_accel_v1_GraphScaleRequest_fields, &m, out);
}

ea_status ea_graph_scale(ea_client *c, const char *graph, float factor, ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_scale(c, graph, factor, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_graph_scale_send(ea_client *c, const char *graph, float factor,
                              const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_scale(c, graph, factor, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_prune(ea_client *c, const char *graph, float below,
                             struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_PRUNE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphPruneRequest m = {.has_below = true, .below = below};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    return ea_build_change(c, r, st, engram_accel_v1_GraphPruneRequest_fields, &m, out);
}

ea_status ea_graph_prune(ea_client *c, const char *graph, float below, ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_prune(c, graph, below, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_graph_prune_send(ea_client *c, const char *graph, float below,
                              const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_prune(c, graph, below, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
