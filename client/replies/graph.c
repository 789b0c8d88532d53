/* graph: turns replies about graphs, and to spreads, into results. */
#include <string.h>

#include "client/replies/replies.h"

void ea_reply_graph(const engram_accel_v1_GraphInfo *m, ea_graph_info *out)
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
    ea_text_plain(out->name);
}

/* Create and describe differ in the field that holds the graph. */
ea_status ea_reply_parse_graph_info(struct client_request *r, const void *message, uint32_t bytes,
                                    struct note *note)
{
    engram_accel_v1_GraphCreateReply create = {0};
    engram_accel_v1_GraphDescribeReply describe = {0};
    bool creates = r->kind == engram_accel_v1_Kind_KIND_GRAPH_CREATE;
    ea_status st = creates
                       ? ea_reply_decode(message, bytes, engram_accel_v1_GraphCreateReply_fields,
                                         &create, note)
                       : ea_reply_decode(message, bytes, engram_accel_v1_GraphDescribeReply_fields,
                                         &describe, note);
    if (st) return st;
    if (creates ? !create.has_graph : !describe.has_graph)
        return ea_reply_broken(note, "names no graph");
    ea_reply_graph(creates ? &create.graph : &describe.graph, r->answer);
    return EA_OK;
}

ea_status ea_reply_parse_graph_change(struct client_request *r, const void *message, uint32_t bytes,
                                      struct note *note)
{
    engram_accel_v1_GraphChangeReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_GraphChangeReply_fields, &m, note);
    if (st) return st;
    *(ea_graph_counts *)r->answer = (ea_graph_counts){
        .edges_added = m.edges_added,
        .edges_removed = m.edges_removed,
        .nodes_added = m.nodes_added,
        .nodes_removed = m.nodes_removed,
        .missing = m.missing,
        .nodes = m.nodes,
        .edges = m.edges,
        .version = m.meta.version,
        .edges_doubled = m.edges_doubled,
    };
    return EA_OK;
}

/* ---- tensors ---- */

/* True for a column of a table; an empty table has none. */
static bool column(bool present, const engram_accel_v1_Tensor *t, uint64_t rows)
{
    return present ? shaped(t, rows, 1) : rows == 0;
}
#define COLUMN(message, member, rows)                         \
    column((message).has_##member, &(message).member, (rows)) \
        ? EA_OK                                               \
        : ea_reply_misfit(&l, #member, &(message).member)

ea_status ea_reply_parse_nodes(struct client_request *r, const void *message, uint32_t bytes,
                               uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_GraphFetchNodesReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_GraphFetchNodesReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_nodes *out = r->answer;
    *out = (ea_nodes){0};
    if (!st) st = PLACE(&l, m, found, U8, out->found);
    if (!st) st = PLACE(&l, m, kinds, U8, out->kinds);
    if (!st) st = PLACE(&l, m, factors, F32, out->factors);
    if (!st) st = PLACE(&l, m, out_counts, U32, out->out_counts);
    if (!st) st = PLACE(&l, m, in_counts, U32, out->in_counts);
    if (!st) st = PLACE(&l, m, offsets, U64, out->offsets);
    if (!st) st = PLACE(&l, m, targets, U64, out->targets);
    if (!st) st = PLACE(&l, m, weights, F32, out->weights);
    if (!st) st = PLACE(&l, m, ids, U64, out->ids);
    bool by_position = r->expect.by_position;
    uint64_t n = by_position ? m.found.rows : r->expect.rows;
    if (!st && n > r->expect.rows) st = ea_reply_misfit(&l, "found", &m.found);
    if (!st) st = COLUMN(m, found, n);
    if (!st) st = COLUMN(m, kinds, n);
    if (!st) st = COLUMN(m, factors, n);
    if (!st) st = COLUMN(m, out_counts, n);
    if (!st) st = COLUMN(m, in_counts, n);
    if (!st) st = COLUMN(m, offsets, r->expect.edges ? n + 1 : 0);
    if (!st) st = COLUMN(m, targets, r->expect.edges ? m.targets.rows : 0);
    if (!st) st = COLUMN(m, weights, m.targets.rows);
    if (!st) st = COLUMN(m, ids, by_position ? n : 0);
    if (st) return st;
    out->count = n;
    out->missing = m.missing;
    out->cursor = m.cursor;
    out->positions = m.positions;
    r->result.columns = m.targets.rows;
    st = ea_reply_memory(&l, r, body_bytes, &m.meta);
    out->meta = r->result.meta;
    return st;
}

ea_status ea_reply_parse_weights(struct client_request *r, const void *message, uint32_t bytes,
                                 uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_GraphAddWeightsReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_GraphAddWeightsReply_fields, &m, note);
    struct layout l = {.note = note};
    if (!st) st = PLACE(&l, m, weights, F32, r->result.vectors);
    if (!st) st = COLUMN(m, weights, r->expect.rows);
    if (st) return st;
    r->result.rows = r->expect.rows;
    r->result.columns = 1;
    *(ea_graph_counts *)r->answer = (ea_graph_counts){
        .edges_added = m.edges_added,
        .nodes_added = m.nodes_added,
        .nodes = m.nodes,
        .edges = m.edges,
        .version = m.meta.version,
    };
    return ea_reply_memory(&l, r, body_bytes, &m.meta);
}

static ea_status place_entries(struct layout *l, const engram_accel_v1_SpreadReply *m,
                               ea_spread_result *out)
{
    ea_status st = PLACE(l, *m, offsets, U64, out->offsets);
    if (!st) st = PLACE(l, *m, ids, U64, out->ids);
    if (!st) st = PLACE(l, *m, activations, F32, out->activations);
    if (!st) st = PLACE(l, *m, confidences, F32, out->confidences);
    if (!st) st = PLACE(l, *m, visits, U32, out->visits);
    if (!st) st = PLACE(l, *m, depths, U32, out->depths);
    if (!st) st = PLACE(l, *m, touched, U64, out->touched);
    if (!st) st = PLACE(l, *m, cycles, U64, out->cycles);
    if (!st) st = PLACE(l, *m, truncated, U8, out->truncated);
    if (!st) st = PLACE(l, *m, tier_sums, F32, out->tier_sums);
    if (!st) st = PLACE(l, *m, path_offsets, U64, out->path_offsets);
    if (!st) st = PLACE(l, *m, path_ids, U64, out->path_ids);
    return st;
}

ea_status ea_reply_parse_spread(struct client_request *r, const void *message, uint32_t bytes,
                                uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_SpreadReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_SpreadReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_spread_result *out = r->answer;
    *out = (ea_spread_result){0};
    if (!st) st = place_entries(&l, &m, out);
    uint64_t sets = r->expect.queries, n = m.has_ids ? m.ids.rows : 0;
    bool paths = r->expect.paths;
    if (!st) st = COLUMN(m, offsets, sets + 1);
    if (!st) st = COLUMN(m, ids, n);
    if (!st) st = COLUMN(m, activations, n);
    if (!st) st = COLUMN(m, confidences, n);
    if (!st) st = COLUMN(m, visits, n);
    if (!st) st = COLUMN(m, depths, n);
    if (!st) st = COLUMN(m, touched, sets);
    if (!st) st = COLUMN(m, cycles, sets);
    if (!st) st = COLUMN(m, truncated, sets);
    if (!st && !shaped(&m.tier_sums, sets, 3)) st = ea_reply_misfit(&l, "tier_sums", &m.tier_sums);
    if (!st) st = COLUMN(m, path_offsets, paths ? n + 1 : 0);
    if (!st) st = COLUMN(m, path_ids, paths ? m.path_ids.rows : 0);
    if (st) return st;
    out->sets = sets;
    out->count = n;
    r->result.columns = m.path_ids.rows;
    st = ea_reply_memory(&l, r, body_bytes, &m.meta);
    out->meta = r->result.meta;
    out->embeddings_version = m.embeddings_version;
    return st;
}

/* ---- numbers ---- */

static ea_status check_nodes(const struct client_request *r, struct note *note)
{
    const ea_nodes *out = r->answer;
    if (!out->offsets) return EA_OK;
    if (!ea_reply_rising(out->offsets, out->count, r->result.columns, 0, UINT64_MAX))
        return ea_reply_broken(note, "offsets do not rise from 0 to the number of edges");
    for (uint64_t i = 0; i < out->count; i++)
        if (out->out_counts[i] != out->offsets[i + 1] - out->offsets[i])
            return ea_reply_broken(note, "counts other edges than it holds");
    return EA_OK;
}

static ea_status check_spread(const struct client_request *r, struct note *note)
{
    const ea_spread_result *out = r->answer;
    if (!ea_reply_rising(out->offsets, out->sets, out->count, 0, r->expect.columns_max))
        return ea_reply_broken(note,
                               "offsets do not rise from 0 to the number of nodes, k at most");
    if (!r->expect.paths) return EA_OK;
    const struct paths paths = {out->ids, out->count, out->path_offsets, out->path_ids,
                                r->result.columns};
    return ea_reply_check_paths(&paths, note);
}

ea_status ea_reply_check_graph(const struct client_request *r, struct note *note)
{
    return r->kind == engram_accel_v1_Kind_KIND_SPREAD ? check_spread(r, note)
                                                       : check_nodes(r, note);
}
