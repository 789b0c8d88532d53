/* graph_edges: edges up and away, in one request or in several, one after the other. */
#include "client/client.h"

#include <inttypes.h>
#include <string.h>

#define F32 engram_accel_v1_Dtype_DTYPE_FLOAT32
#define U64 engram_accel_v1_Dtype_DTYPE_UINT64
#define TENSOR(message, member, dtype, data, rows)                                                \
    ea_request_tensor(c, r, #member, &(message).has_##member, &(message).member, (dtype), (data), \
                      (rows), 1)

enum {
    PART_BYTES = 64 << 20, /* the more at once, the less often all is laid out anew */
    EDGE_BYTES = 20,       /* in a body */
};

ea_status ea_change(ea_client *c, struct client_request *r, ea_status st,
                    const pb_msgdesc_t *fields, const void *message, ea_graph_counts *out)
{
    ea_graph_counts counts = {0};
    r->out = &counts;
    if (!st) st = ea_request_message(c, r, fields, message);
    if (st)
        ea_request_release(c, r);
    else
        st = ea_call(c, r, NULL);
    if (!st && out) *out = counts;
    return st;
}

ea_status ea_graph_remove_edges(ea_client *c, const char *graph, const uint64_t *sources,
                                const uint64_t *targets, uint64_t n, ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_REMOVE_EDGES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphRemoveEdgesRequest m = {0};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = TENSOR(m, sources, U64, sources, n);
    if (!st) st = TENSOR(m, targets, U64, targets, n);
    return ea_change(c, r, st, engram_accel_v1_GraphRemoveEdgesRequest_fields, &m, out);
}

/* How many columns and weights there are is what offsets say. Nobody's arrays need be aligned. */
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

ea_status ea_graph_add_csr(ea_client *c, const char *graph, const uint64_t *row_ids, uint64_t rows,
                           const uint64_t *offsets, const uint64_t *columns, const float *weights,
                           bool replace, ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_ADD_CSR);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = replace; /* the others would be there twice */
    engram_accel_v1_GraphAddCsrRequest m = {.replace = replace};
    uint64_t n = 0;
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    if (!st) st = matrix_edges(c, rows, offsets, &n);
    if (!st && row_ids) st = TENSOR(m, ids, U64, row_ids, rows);
    if (!st) st = TENSOR(m, offsets, U64, offsets, rows + 1);
    if (!st) st = TENSOR(m, columns, U64, columns, n);
    if (!st) st = TENSOR(m, weights, F32, weights, n);
    return ea_change(c, r, st, engram_accel_v1_GraphAddCsrRequest_fields, &m, out);
}

/* ---- edges in parts ---- */

struct edges_upload {
    ea_client *c;
    const char *graph;
    const uint64_t *sources, *targets;
    const float *weights;
    uint64_t total, done;
    bool replace;
    int64_t deadline_ns;
    uint64_t instance; /* the daemon's that has the first part; 0: nobody has */
    ea_graph_counts sum;
};

static bool same_pair(const struct edges_upload *u, uint64_t a, uint64_t b)
{
    return memcmp(u->sources + a, u->sources + b, sizeof *u->sources) == 0 &&
           memcmp(u->targets + a, u->targets + b, sizeof *u->targets) == 0;
}

/* Where the part that begins at u->done ends. What is replaced with a part would be replaced again
 * with the next, so duplicates of one pair are not parted. */
static uint64_t part_end(const struct edges_upload *u)
{
    uint64_t bytes = PART_BYTES, most = u->c->limits.body_bytes_max;
    if (most < bytes + 3 * EA_ALIGN) bytes = most > 3 * EA_ALIGN ? most - 3 * EA_ALIGN : 0;
    uint64_t edges = bytes / EDGE_BYTES ? bytes / EDGE_BYTES : 1, left = u->total - u->done;
    if (edges >= left) return u->total;
    uint64_t end = u->done + edges, cut = end;
    if (!u->replace) return end;
    while (cut > u->done && same_pair(u, cut - 1, cut))
        cut--;
    if (cut > u->done) return cut;
    while (end < u->total && same_pair(u, end - 1, end))
        end++;
    return end;
}

static ea_status send_part(struct edges_upload *u, uint64_t end)
{
    ea_client *c = u->c;
    uint64_t at = u->done, n = end - at;
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_ADD_EDGES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    ea_graph_counts counts;
    r->out = &counts;
    r->repeatable = u->replace; /* the others would be there twice */
    engram_accel_v1_GraphAddEdgesRequest m = {.replace = u->replace};
    ea_status st = ea_check_name(c, "graph", u->graph, m.graph);
    if (!st) st = TENSOR(m, sources, U64, n ? u->sources + at : NULL, n);
    if (!st) st = TENSOR(m, targets, U64, n ? u->targets + at : NULL, n);
    if (!st) st = TENSOR(m, weights, F32, n ? u->weights + at : NULL, n);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_GraphAddEdgesRequest_fields, &m);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    st = ea_call_until(c, r, u->deadline_ns, u->instance, NULL);
    if (st) return st;
    u->instance = c->instance;
    u->done = end;
    u->sum.edges_added += counts.edges_added;
    u->sum.edges_removed += counts.edges_removed;
    u->sum.nodes_added += counts.nodes_added;
    u->sum.nodes_removed += counts.nodes_removed;
    u->sum.missing += counts.missing;
    u->sum.nodes = counts.nodes;
    u->sum.edges = counts.edges;
    u->sum.version = counts.version;
    return EA_OK;
}

ea_status ea_graph_add_edges(ea_client *c, const char *graph, const uint64_t *sources,
                             const uint64_t *targets, const float *weights, uint64_t n,
                             bool replace, ea_progress progress, void *user, ea_graph_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (out) *out = (ea_graph_counts){0};
    if (n && (!sources || !targets || !weights))
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "sources, targets or weights: NULL for %" PRIu64 " edges", n);
    if (n > INT64_MAX / 64)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "edges: too many");
    struct edges_upload u = {.c = c,
                             .graph = graph,
                             .sources = sources,
                             .targets = targets,
                             .weights = weights,
                             .total = n,
                             .replace = replace,
                             .deadline_ns = ea_deadline_after(c->timeout_ms)};
    char name[EA_NAME_MAX + 1];
    ea_status st = ea_check_name(c, "graph", graph, name);
    if (!st) st = ea_connect_until(c, u.deadline_ns); /* it says how large a part may be */
    /* No edges are one request too: the daemon says whether the graph is there. */
    for (bool first = true; !st && (first || u.done < n); first = false) {
        st = send_part(&u, part_end(&u));
        if (!st && progress && !progress(u.done, n, user))
            st = ea_fail(c, EA_CANCELLED, EA_DETAIL_CANCELLED_BY_CLIENT, "stopped by the caller");
    }
    if (out) *out = u.sum;
    return st;
}
