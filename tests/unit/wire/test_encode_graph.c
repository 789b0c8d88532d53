/* Replies about graphs, and of a spread. */
#include "tests/unit/wire/reply.h"

static struct job job_of(enum operation operation)
{
    struct job j;
    memset(&j, 0, sizeof j);
    j.operation = operation;
    j.key.request_id = 41;
    j.backend = BACKEND_CPU;
    j.reason = REASON_GPU_ABSENT;
    j.result.version = 12;
    return j;
}

static void check_meta(bool present, const engram_accel_v1_Meta *m)
{
    cr_assert(present);
    cr_assert_eq((int)m->backend, BACKEND_CPU);
    cr_assert_eq((int)m->reason, REASON_GPU_ABSENT);
    cr_assert_eq(m->version, 12);
}

static void check_tensor(bool present, const engram_accel_v1_Tensor *t, int dtype, uint64_t rows,
                         uint64_t columns)
{
    cr_assert(present);
    cr_assert_eq((int)t->dtype, dtype);
    cr_assert_eq(t->rows, rows);
    cr_assert_eq(t->columns, columns);
}
#define CHECK(message, member, dtype, rows, columns) \
    check_tensor((message).has_##member, &(message).member, (dtype), (rows), (columns))

static void set_tensor(struct job *j, size_t i, enum dtype dtype, uint64_t rows, uint64_t columns)
{
    j->result.tensors[i] = (struct tensor){.dtype = dtype, .rows = rows, .columns = columns};
}

Test(encode_graph, graphs)
{
    struct graph_info info = {.name = "links",
                              .nodes = 10,
                              .edges = 20,
                              .version = 3,
                              .edge_bytes = 320,
                              .node_bytes = 640,
                              .work_bytes = 64,
                              .out_count_max = 7,
                              .in_count_max = 8,
                              .kinds = {5, 4, 1},
                              .vram_bytes = 4096,
                              .vram_version = 2};
    struct job j = job_of(OPERATION_GRAPH_CREATE);
    check_frame(encode_graph(j.operation, 6, &j, &info, fresh()), 48, 1, 6);
    engram_accel_v1_GraphCreateReply create;
    read_message(engram_accel_v1_GraphCreateReply_fields, &create);
    check_meta(create.has_meta, &create.meta);
    cr_assert(create.has_graph);
    cr_assert_str_eq(create.graph.name, "links");
    check_frame(encode_graph(OPERATION_GRAPH_DESCRIBE, 7, NULL, &info, fresh()), 51, 1, 7);
    engram_accel_v1_GraphDescribeReply describe;
    read_message(engram_accel_v1_GraphDescribeReply_fields, &describe);
    const engram_accel_v1_GraphInfo *g = &describe.graph;
    cr_assert(describe.has_graph);
    cr_assert(g->nodes == 10 && g->edges == 20 && g->version == 3);
    cr_assert(g->edge_bytes == 320 && g->node_bytes == 640 && g->work_bytes == 64);
    cr_assert(g->out_count_max == 7 && g->in_count_max == 8);
    cr_assert(g->episodes == 4 && g->concepts == 1);
    cr_assert(g->vram_bytes == 4096 && g->vram_version == 2);
}

Test(encode_graph, the_longest_list_fits)
{
    struct graph_info many[65];
    for (size_t i = 0; i < 65; i++) {
        memset(&many[i], 0xff, sizeof many[i]);
        many[i].name = "0123456789012345678901234567890123456789012345678901234567890123";
    }
    static engram_accel_v1_GraphListReply list;
    check_frame(encode_graph_list(8, many, 64, false, fresh()), 50, 1, 8);
    read_message(engram_accel_v1_GraphListReply_fields, &list);
    cr_assert_eq(list.graphs_count, 64);
    cr_assert(!list.more);
    cr_assert_str_eq(list.graphs[63].name, many[63].name);
    cr_assert_eq(list.graphs[63].vram_version, UINT64_MAX);
    check_frame(encode_graph_list(8, many, 65, false, fresh()), 50, 1, 8);
    read_message(engram_accel_v1_GraphListReply_fields, &list);
    cr_assert_eq(list.graphs_count, 64);
    cr_assert(list.more);
    check_frame(encode_graph_list(8, NULL, 0, false, fresh()), 50, 1, 8);
    cr_assert_eq(header.message_bytes, 0);
}

Test(encode_graph, counts_of_changes)
{
    static const enum operation changes[] = {
        OPERATION_GRAPH_ADD_EDGES, OPERATION_GRAPH_ADD_CSR, OPERATION_GRAPH_REMOVE_EDGES,
        OPERATION_GRAPH_SET_NODES, OPERATION_GRAPH_REMOVE_NODES};
    struct job j = job_of(changes[0]);
    for (size_t i = 0; i < 5; i++)
        j.result.counts[i] = i + 1;
    j.result.rows = 70;
    j.result.nodes = 30;
    for (size_t i = 0; i < 5; i++) {
        j.operation = changes[i];
        check_frame(encode_result(&j, fresh()), changes[i], 1, 41);
        cr_assert_eq(header.body_bytes, 0);
        engram_accel_v1_GraphChangeReply m;
        read_message(engram_accel_v1_GraphChangeReply_fields, &m);
        check_meta(m.has_meta, &m.meta);
        cr_assert(m.edges_added == 1 && m.edges_removed == 2 && m.nodes_added == 3);
        cr_assert(m.nodes_removed == 4 && m.missing == 5 && m.nodes == 30 && m.edges == 70);
    }
    j.operation = OPERATION_GRAPH_DROP;
    check_frame(encode_result(&j, fresh()), OPERATION_GRAPH_DROP, 1, 41);
    engram_accel_v1_GraphDropReply drop;
    read_message(engram_accel_v1_GraphDropReply_fields, &drop);
    check_meta(drop.has_meta, &drop.meta);
    cr_assert(drop.nodes == 1 && drop.edges == 2);
}

Test(encode_graph, nodes)
{
    struct job j = job_of(OPERATION_GRAPH_FETCH_NODES);
    j.result.body_bytes = 512;
    j.result.counts[0] = 1;
    set_tensor(&j, 0, DTYPE_UINT8, 5, 1);
    set_tensor(&j, 1, DTYPE_UINT8, 5, 1);
    set_tensor(&j, 2, DTYPE_FLOAT32, 5, 1);
    set_tensor(&j, 3, DTYPE_UINT32, 5, 1);
    set_tensor(&j, 4, DTYPE_UINT32, 5, 1);
    check_frame(encode_result(&j, fresh()), OPERATION_GRAPH_FETCH_NODES, 1, 41);
    engram_accel_v1_GraphFetchNodesReply m;
    read_message(engram_accel_v1_GraphFetchNodesReply_fields, &m);
    CHECK(m, found, DTYPE_UINT8, 5, 1);
    CHECK(m, in_counts, DTYPE_UINT32, 5, 1);
    cr_assert(!m.has_offsets && !m.has_targets && !m.has_weights);
    set_tensor(&j, 5, DTYPE_UINT64, 6, 1);
    set_tensor(&j, 6, DTYPE_UINT64, 9, 1);
    set_tensor(&j, 7, DTYPE_FLOAT32, 9, 1);
    check_frame(encode_result(&j, fresh()), OPERATION_GRAPH_FETCH_NODES, 1, 41);
    cr_assert_eq(header.body_bytes, 512);
    read_message(engram_accel_v1_GraphFetchNodesReply_fields, &m);
    check_meta(m.has_meta, &m.meta);
    cr_assert_eq(m.missing, 1);
    CHECK(m, kinds, DTYPE_UINT8, 5, 1);
    CHECK(m, factors, DTYPE_FLOAT32, 5, 1);
    CHECK(m, out_counts, DTYPE_UINT32, 5, 1);
    CHECK(m, offsets, DTYPE_UINT64, 6, 1);
    CHECK(m, targets, DTYPE_UINT64, 9, 1);
    CHECK(m, weights, DTYPE_FLOAT32, 9, 1);
}

Test(encode_graph, spread)
{
    static const enum dtype dtypes[] = {DTYPE_UINT64, DTYPE_UINT64,  DTYPE_FLOAT32, DTYPE_FLOAT32,
                                        DTYPE_UINT32, DTYPE_UINT32,  DTYPE_UINT64,  DTYPE_UINT64,
                                        DTYPE_UINT8,  DTYPE_FLOAT32, DTYPE_UINT64,  DTYPE_UINT64};
    struct job j = job_of(OPERATION_SPREAD);
    for (size_t i = 0; i < 12; i++)
        set_tensor(&j, i, dtypes[i], 100 + i, 1);
    engram_accel_v1_SpreadReply m;
    check_frame(encode_result(&j, fresh()), OPERATION_SPREAD, 1, 41);
    read_message(engram_accel_v1_SpreadReply_fields, &m);
    check_meta(m.has_meta, &m.meta);
    CHECK(m, offsets, DTYPE_UINT64, 100, 1);
    CHECK(m, ids, DTYPE_UINT64, 101, 1);
    CHECK(m, activations, DTYPE_FLOAT32, 102, 1);
    CHECK(m, confidences, DTYPE_FLOAT32, 103, 1);
    CHECK(m, visits, DTYPE_UINT32, 104, 1);
    CHECK(m, depths, DTYPE_UINT32, 105, 1);
    CHECK(m, touched, DTYPE_UINT64, 106, 1);
    CHECK(m, cycles, DTYPE_UINT64, 107, 1);
    CHECK(m, truncated, DTYPE_UINT8, 108, 1);
    CHECK(m, tier_sums, DTYPE_FLOAT32, 109, 1);
    CHECK(m, path_offsets, DTYPE_UINT64, 110, 1);
    CHECK(m, path_ids, DTYPE_UINT64, 111, 1);
    /* Neighbours have the same dtype: one that is left out must not move the others. */
    j.result.tensors[10].dtype = j.result.tensors[11].dtype = DTYPE_NONE;
    j.result.tensors[2].dtype = DTYPE_NONE;
    check_frame(encode_result(&j, fresh()), OPERATION_SPREAD, 1, 41);
    read_message(engram_accel_v1_SpreadReply_fields, &m);
    cr_assert(!m.has_path_offsets && !m.has_path_ids && !m.has_activations);
    CHECK(m, confidences, DTYPE_FLOAT32, 103, 1);
    CHECK(m, cycles, DTYPE_UINT64, 107, 1);
}

Test(encode_graph, the_longest_result_fits)
{
    struct job j = job_of(OPERATION_SPREAD);
    j.key.request_id = j.result.version = j.copy_ns = j.ticket.cpu_ns = UINT64_MAX;
    j.ticket.gpu_ns = j.ticket.wait_ns = j.result.body_bytes = UINT64_MAX;
    j.batch = UINT32_MAX;
    j.answered_ns = j.finished_ns = UINT64_MAX;
    j.started_ns = UINT64_MAX / 2;
    static const enum dtype dtypes[] = {2, 2, 1, 1, 3, 3, 2, 2, 4, 1, 2, 2};
    for (size_t i = 0; i < 12; i++)
        set_tensor(&j, i, dtypes[i], UINT64_MAX, UINT64_MAX);
    size_t bytes = encode_result(&j, fresh());
    check_frame(bytes, OPERATION_SPREAD, 1, UINT64_MAX);
    cr_assert_leq(bytes, ENCODE_RESULT_BYTES_MAX);
    engram_accel_v1_SpreadReply m;
    read_message(engram_accel_v1_SpreadReply_fields, &m);
    CHECK(m, path_ids, DTYPE_UINT64, UINT64_MAX, UINT64_MAX);
}
