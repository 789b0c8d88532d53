/* Encodes replies about graphs. */
#include "daemon/wire/encode_inside.h"

_Static_assert(REPLY_FITS(engram_accel_v1_GraphListReply_size, ENCODE_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_GraphCreateReply_size, ENCODE_BYTES_MAX),
               "ENCODE_BYTES_MAX holds every reply");

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
