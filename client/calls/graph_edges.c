/* graph_edges: adds and removes edges, in one request or in several, one after the other. */
#include <inttypes.h>
#include <string.h>

#include "client/calls/calls.h"

enum {
    PART_BYTES = 64 << 20, /* larger parts make the daemon lay out the graph less often */
    EDGE_BYTES = 20,       /* of an edge in a body */
};

/* ---- remove ---- */

static ea_status build_remove(ea_client *c, const char *graph, const ea_graph_edges *edges,
                              struct client_request **out)
{
    if (!edges) return ea_fail_null(c, "edges");
    EA_TAKE(c, graph_edges, e, edges);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_REMOVE_EDGES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphRemoveEdgesRequest m = {0};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, sources, U64, e.sources, e.count, 1);
    if (!st) st = TENSOR(m, targets, U64, e.targets, e.count, 1);
    return ea_build_write(c, r, st, engram_accel_v1_GraphRemoveEdgesRequest_fields, &m, e.write,
                          out);
}

ea_status ea_graph_remove_edges(ea_client *c, const char *graph, const ea_graph_edges *edges,
                                ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_remove(c, graph, edges, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_graph_remove_edges_send(ea_client *c, const char *graph, const ea_graph_edges *edges,
                                     const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_remove(c, graph, edges, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- a matrix ---- */

/* The offsets say how many columns and weights there are. The caller's arrays may be unaligned. */
static ea_status matrix_edges(ea_client *c, uint64_t rows, const uint64_t *offsets, uint64_t *n)
{
    if (!offsets || rows >= INT64_MAX / 64)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                       "offsets: %s for %" PRIu64 " rows", offsets ? "too many" : "NULL", rows);
    uint64_t last;
    memcpy(&last, offsets, sizeof last);
    if (last)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                       "offsets: the first is %" PRIu64 ", 0 wanted", last);
    for (uint64_t i = 1; i <= rows; i++) {
        uint64_t next;
        memcpy(&next, offsets + i, sizeof next);
        if (next < last)
            return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                           "offsets: number %" PRIu64 " goes back from %" PRIu64 " to %" PRIu64, i,
                           last, next);
        last = next;
    }
    *n = last;
    return EA_OK;
}

static ea_status build_csr(ea_client *c, const char *graph, const ea_graph_csr *matrix,
                           struct client_request **out)
{
    if (!matrix) return ea_fail_null(c, "matrix");
    EA_TAKE(c, graph_csr, x, matrix);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_ADD_CSR);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = x.replace; /* otherwise a repetition would add edges twice */
    engram_accel_v1_GraphAddCsrRequest m = {.replace = x.replace};
    uint64_t n = 0;
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = matrix_edges(c, x.rows, x.offsets, &n);
    if (!st && x.row_ids) st = TENSOR(m, ids, U64, x.row_ids, x.rows, 1);
    if (!st) st = TENSOR(m, offsets, U64, x.offsets, x.rows + 1, 1);
    if (!st) st = TENSOR(m, columns, U64, x.columns, n, 1);
    if (!st) st = TENSOR(m, weights, F32, x.weights, n, 1);
    return ea_build_write(c, r, st, engram_accel_v1_GraphAddCsrRequest_fields, &m, x.write, out);
}

ea_status ea_graph_add_csr(ea_client *c, const char *graph, const ea_graph_csr *matrix,
                           ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_csr(c, graph, matrix, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_graph_add_csr_send(ea_client *c, const char *graph, const ea_graph_csr *matrix,
                                const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_csr(c, graph, matrix, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- edges ---- */

static ea_status build_edges(ea_client *c, const char *graph, const ea_graph_edges *e,
                             struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_ADD_EDGES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = e->replace; /* otherwise a repetition would add edges twice */
    engram_accel_v1_GraphAddEdgesRequest m = {.replace = e->replace,
                                              .count_doubled = e->count_doubled};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, sources, U64, e->sources, e->count, 1);
    if (!st) st = TENSOR(m, targets, U64, e->targets, e->count, 1);
    if (!st) st = TENSOR(m, weights, F32, e->weights, e->count, 1);
    return ea_build_write(c, r, st, engram_accel_v1_GraphAddEdgesRequest_fields, &m, e->write, out);
}

ea_status ea_graph_add_edges_send(ea_client *c, const char *graph, const ea_graph_edges *edges,
                                  const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!edges) return ea_fail_null(c, "edges");
    EA_TAKE(c, graph_edges, e, edges);
    struct client_request *r;
    ea_status st = build_edges(c, graph, &e, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- edges in parts ---- */

struct edges_upload {
    ea_client *c;
    const char *graph;
    const ea_graph_edges *edges;
    uint64_t done;
    int64_t deadline_ns;
    uint64_t instance; /* of the daemon that has the first part; 0: no part was sent */
    ea_graph_counts sum;
};

static bool same_pair(const ea_graph_edges *e, uint64_t a, uint64_t b)
{
    return memcmp(e->sources + a, e->sources + b, sizeof *e->sources) == 0 &&
           memcmp(e->targets + a, e->targets + b, sizeof *e->targets) == 0;
}

/* Returns the end of the part that begins at u->done. With replace, duplicates of one pair must be
 * in the same part, because the next part would replace them again. */
static uint64_t part_end(const struct edges_upload *u)
{
    const ea_graph_edges *e = u->edges;
    if (e->write) return e->count; /* one request, or none */
    uint64_t bytes = PART_BYTES, most = u->c->limits.body_bytes_max;
    if (most < bytes + 3 * EA_ALIGN) bytes = most > 3 * EA_ALIGN ? most - 3 * EA_ALIGN : 0;
    uint64_t count = bytes / EDGE_BYTES ? bytes / EDGE_BYTES : 1, left = e->count - u->done;
    if (count >= left) return e->count;
    uint64_t end = u->done + count, cut = end;
    if (!e->replace) return end;
    while (cut > u->done && same_pair(e, cut - 1, cut))
        cut--;
    if (cut > u->done) return cut;
    while (end < e->count && same_pair(e, end - 1, end))
        end++;
    return end;
}

static ea_status send_part(struct edges_upload *u, uint64_t end)
{
    ea_client *c = u->c;
    ea_graph_edges part = *u->edges;
    part.count = end - u->done;
    part.sources = part.count ? part.sources + u->done : NULL;
    part.targets = part.count ? part.targets + u->done : NULL;
    part.weights = part.count ? part.weights + u->done : NULL;
    struct client_request *r;
    ea_status st = build_edges(c, u->graph, &part, &r);
    if (st) return st;
    ea_graph_counts counts;
    r->answer = &counts;
    st = ea_run(c, r, u->deadline_ns, u->instance);
    ea_request_release(c, r);
    if (st) return st;
    u->instance = c->instance;
    u->done = end;
    u->sum.edges_added += counts.edges_added;
    u->sum.edges_removed += counts.edges_removed;
    u->sum.nodes_added += counts.nodes_added;
    u->sum.nodes_removed += counts.nodes_removed;
    u->sum.missing += counts.missing;
    u->sum.edges_doubled += counts.edges_doubled;
    u->sum.nodes = counts.nodes;
    u->sum.edges = counts.edges;
    u->sum.version = counts.version;
    return EA_OK;
}

ea_status ea_graph_add_edges(ea_client *c, const char *graph, const ea_graph_edges *edges,
                             ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!edges) return ea_fail_null(c, "edges");
    EA_TAKE(c, graph_edges, e, edges);
    if (e.count && (!e.sources || !e.targets || !e.weights))
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "sources, targets or weights: NULL for %" PRIu64 " edges", e.count);
    if (e.count > INT64_MAX / 64)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "edges: too many");
    struct edges_upload u = {
        .c = c, .graph = graph, .edges = &e, .deadline_ns = ea_deadline_after(c->timeout_us)};
    char name[EA_NAME_MAX + 1];
    bool outermost = ea_call_begin(c);
    ea_status st = ea_check_name(c, "graph", graph, name);
    if (!st) st = ea_connect_until(c, u.deadline_ns); /* Hello says how large a part may be */
    /* Without edges one request is sent: the daemon says whether the graph exists. */
    for (bool first = true; !st && (first || u.done < e.count); first = false) {
        st = send_part(&u, part_end(&u));
        if (!st && e.progress && !e.progress(u.done, e.count, e.user))
            st = ea_fail(c, EA_CANCELLED, EA_DETAIL_CANCELLED_BY_CLIENT, "stopped by the caller");
    }
    ea_call_end(c, outermost);
    if (out) ea_copy_struct(out, c->sizes.graph_counts, &u.sum, sizeof u.sum);
    return st;
}
