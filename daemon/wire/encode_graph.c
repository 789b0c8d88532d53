/* Graphs and spreading. */
#include "daemon/wire/encode_inside.h"

_Static_assert(REPLY_FITS(engram_accel_v1_GraphListReply_size, ENCODE_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_GraphCreateReply_size, ENCODE_BYTES_MAX),
               "ENCODE_BYTES_MAX holds every reply");
_Static_assert(REPLY_FITS(engram_accel_v1_SpreadReply_size, ENCODE_RESULT_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_GraphFetchNodesReply_size, ENCODE_RESULT_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_GraphChangeReply_size, ENCODE_RESULT_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_GraphDropReply_size, ENCODE_RESULT_BYTES_MAX),
               "ENCODE_RESULT_BYTES_MAX holds every result");

static void fill_graph(engram_accel_v1_GraphInfo *m, const struct graph_info *info)
{
    *m = (engram_accel_v1_GraphInfo){
        .nodes = info->nodes,
        .edges = info->edges,
        .version = info->version,
        .edge_bytes = info->edge_bytes,
        .node_bytes = info->node_bytes,
        .work_bytes = info->work_bytes,
        .out_count_max = info->out_count_max,
        .in_count_max = info->in_count_max,
        .episodes = info->kinds[SPREAD_EPISODE],
        .concepts = info->kinds[SPREAD_CONCEPT],
        .vram_bytes = info->vram_bytes,
        .vram_version = info->vram_version,
    };
    COPY_TEXT(m->name, info->name);
}

size_t encode_graph(enum operation operation, uint64_t request_id, const struct job *j,
                    const struct graph_info *info, void *buffer)
{
    struct frame_header h = {.kind = (uint8_t)operation, .request_id = request_id};
    if (operation == OPERATION_GRAPH_DESCRIBE) {
        engram_accel_v1_GraphDescribeReply m = {.has_graph = true};
        fill_graph(&m.graph, info);
        return encode_frame(h, engram_accel_v1_GraphDescribeReply_fields, &m, buffer);
    }
    engram_accel_v1_GraphCreateReply m = {.has_meta = j != NULL, .has_graph = true};
    if (j) m.meta = encode_meta(j);
    fill_graph(&m.graph, info);
    return encode_frame(h, engram_accel_v1_GraphCreateReply_fields, &m, buffer);
}

size_t encode_graph_list(uint64_t request_id, const struct graph_info *infos, size_t count,
                         bool more, void *buffer)
{
    engram_accel_v1_GraphListReply m;
    m.graphs_count = 0;
    m.more = more || count > COUNT(m.graphs);
    while (m.graphs_count < count && m.graphs_count < COUNT(m.graphs)) {
        fill_graph(&m.graphs[m.graphs_count], &infos[m.graphs_count]);
        m.graphs_count++;
    }
    struct frame_header h = {.kind = OPERATION_GRAPH_LIST, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_GraphListReply_fields, &m, buffer);
}

/* ---- results ---- */

/* Tensor i is field i's; a tensor of another dtype than its field's is a mistake, and left out. */
static void fill_in_order(const struct job *j, const struct encode_slot *slots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct tensor *t = &j->result.tensors[i];
        if (t->dtype != slots[i].dtype) continue;
        *slots[i].present = true;
        *slots[i].wire = (engram_accel_v1_Tensor){
            .dtype = (engram_accel_v1_Dtype)t->dtype, .rows = t->rows, .columns = t->columns};
    }
}

static size_t encode_change(const struct job *j, struct frame_header h, void *buffer)
{
    const struct job_result *r = &j->result;
    engram_accel_v1_GraphChangeReply m = {
        .has_meta = true,
        .meta = encode_meta(j),
        .edges_added = r->counts[0],
        .edges_removed = r->counts[1],
        .nodes_added = r->counts[2],
        .nodes_removed = r->counts[3],
        .missing = r->counts[4],
        .nodes = r->nodes,
        .edges = r->rows,
    };
    return encode_frame(h, engram_accel_v1_GraphChangeReply_fields, &m, buffer);
}

static size_t encode_nodes(const struct job *j, struct frame_header h, void *buffer)
{
    engram_accel_v1_GraphFetchNodesReply m = {
        .has_meta = true, .meta = encode_meta(j), .missing = j->result.counts[0]};
    const struct encode_slot slots[] = {
        SLOT(m, found, DTYPE_UINT8),      SLOT(m, kinds, DTYPE_UINT8),
        SLOT(m, factors, DTYPE_FLOAT32),  SLOT(m, out_counts, DTYPE_UINT32),
        SLOT(m, in_counts, DTYPE_UINT32), SLOT(m, offsets, DTYPE_UINT64),
        SLOT(m, targets, DTYPE_UINT64),   SLOT(m, weights, DTYPE_FLOAT32),
    };
    fill_in_order(j, slots, COUNT(slots));
    return encode_frame(h, engram_accel_v1_GraphFetchNodesReply_fields, &m, buffer);
}

static size_t encode_spread(const struct job *j, struct frame_header h, void *buffer)
{
    engram_accel_v1_SpreadReply m = {.has_meta = true, .meta = encode_meta(j)};
    const struct encode_slot slots[] = {
        SLOT(m, offsets, DTYPE_UINT64),      SLOT(m, ids, DTYPE_UINT64),
        SLOT(m, activations, DTYPE_FLOAT32), SLOT(m, confidences, DTYPE_FLOAT32),
        SLOT(m, visits, DTYPE_UINT32),       SLOT(m, depths, DTYPE_UINT32),
        SLOT(m, touched, DTYPE_UINT64),      SLOT(m, cycles, DTYPE_UINT64),
        SLOT(m, truncated, DTYPE_UINT8),     SLOT(m, tier_sums, DTYPE_FLOAT32),
        SLOT(m, path_offsets, DTYPE_UINT64), SLOT(m, path_ids, DTYPE_UINT64),
    };
    _Static_assert(COUNT(slots) <= JOB_TENSORS_MAX, "a result holds them");
    fill_in_order(j, slots, COUNT(slots));
    return encode_frame(h, engram_accel_v1_SpreadReply_fields, &m, buffer);
}

size_t encode_graph_result(const struct job *j, struct frame_header h, void *buffer)
{
    switch (j->operation) {
    case OPERATION_SPREAD: return encode_spread(j, h, buffer);
    case OPERATION_GRAPH_FETCH_NODES: return encode_nodes(j, h, buffer);
    case OPERATION_GRAPH_DROP: {
        engram_accel_v1_GraphDropReply m = {.has_meta = true,
                                            .meta = encode_meta(j),
                                            .nodes = j->result.counts[0],
                                            .edges = j->result.counts[1]};
        return encode_frame(h, engram_accel_v1_GraphDropReply_fields, &m, buffer);
    }
    default: return encode_change(j, h, buffer);
    }
}
