#include "tests/support/sample_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pb_encode.h>

#include "daemon/base/job.h"

engram_accel_v1_Tensor sample_tensor(int dtype, uint64_t rows, uint64_t columns)
{
    return (engram_accel_v1_Tensor){
        .dtype = (engram_accel_v1_Dtype)dtype, .rows = rows, .columns = columns};
}

void sample_add(struct sample *s, bool *present, engram_accel_v1_Tensor *t, int dtype,
                uint64_t rows, uint64_t columns)
{
    uint64_t elements = rows * columns;
    uint8_t *at = s->body + s->body_bytes;
    for (uint64_t i = 0; i < elements; i++) {
        float f = (float)i + 0.5F;
        if (dtype == DTYPE_FLOAT32) memcpy(at + i * 4, &f, sizeof f);
        if (dtype == DTYPE_UINT64) memcpy(at + i * 8, &(uint64_t){i + 1}, 8);
        if (dtype == DTYPE_UINT8) at[i] = 0xa5;
    }
    *present = true;
    *t = sample_tensor(dtype, rows, columns);
    s->body_bytes += frame_align(elements * dtype_bytes((enum dtype)dtype));
}
void sample_begin(struct sample *s, uint8_t kind, const pb_msgdesc_t *fields)
{
    s->kind = kind;
    s->fields = fields;
}

static void make_create(struct sample *s)
{
    sample_begin(s, OPERATION_COLLECTION_CREATE, engram_accel_v1_CollectionCreateRequest_fields);
    strcpy(s->message.create.name, "rows");
    s->message.create.dimension = 4;
    s->message.create.metric = engram_accel_v1_Metric_METRIC_COSINE;
}

static void make_drop(struct sample *s)
{
    sample_begin(s, OPERATION_COLLECTION_DROP, engram_accel_v1_CollectionDropRequest_fields);
    strcpy(s->message.drop.name, "rows");
}

static void make_list(struct sample *s)
{
    sample_begin(s, OPERATION_COLLECTION_LIST, engram_accel_v1_CollectionListRequest_fields);
    strcpy(s->message.list.after, "aardvark");
}

static void make_describe(struct sample *s)
{
    sample_begin(s, OPERATION_COLLECTION_DESCRIBE,
                 engram_accel_v1_CollectionDescribeRequest_fields);
    strcpy(s->message.describe.name, "rows");
}

static void make_swap(struct sample *s)
{
    sample_begin(s, OPERATION_SWAP, engram_accel_v1_SwapRequest_fields);
    s->message.swap.object = engram_accel_v1_ObjectKind_OBJECT_KIND_COLLECTION;
    strcpy(s->message.swap.name, "rows");
    strcpy(s->message.swap.with, "~rows");
}

static void make_changes(struct sample *s)
{
    sample_begin(s, OPERATION_CHANGES, engram_accel_v1_ChangesRequest_fields);
    s->message.changes.since = 5;
    s->message.changes.after_object = engram_accel_v1_ObjectKind_OBJECT_KIND_GRAPH;
    strcpy(s->message.changes.after, "links");
    s->message.changes.has_expect = true;
    s->message.changes.expect.generation = 0;
}

static void make_upsert(struct sample *s)
{
    sample_begin(s, OPERATION_UPSERT, engram_accel_v1_UpsertRequest_fields);
    strcpy(s->message.upsert.collection, "rows");
    ADD(s->message.upsert, ids, DTYPE_UINT64, 5, 1);
    ADD(s->message.upsert, rows, DTYPE_FLOAT32, 5, 4);
}

static void make_delete(struct sample *s)
{
    sample_begin(s, OPERATION_DELETE, engram_accel_v1_DeleteRequest_fields);
    strcpy(s->message.delete.collection, "rows");
    ADD(s->message.delete, ids, DTYPE_UINT64, 9, 1);
}

static void make_fetch(struct sample *s)
{
    sample_begin(s, OPERATION_FETCH, engram_accel_v1_FetchRequest_fields);
    strcpy(s->message.fetch.collection, "rows");
    ADD(s->message.fetch, ids, DTYPE_UINT64, 3, 1);
}

static void make_fetch_range(struct sample *s)
{
    sample_begin(s, OPERATION_FETCH, engram_accel_v1_FetchRequest_fields);
    strcpy(s->message.fetch.collection, "rows");
    s->message.fetch.offset = 10;
    s->message.fetch.limit = 100;
}

static void make_similarity(struct sample *s)
{
    sample_begin(s, OPERATION_SIMILARITY, engram_accel_v1_SimilarityRequest_fields);
    strcpy(s->message.similarity.collection, "rows");
    ADD(s->message.similarity, queries, DTYPE_FLOAT32, 2, 4);
    s->message.similarity.has_filter = true;
    s->message.similarity.filter.bitmap_first = 64;
    ADD(s->message.similarity.filter, bitmap, DTYPE_UINT8, 70, 1);
    s->message.similarity.has_threshold = true;
    s->message.similarity.threshold = 0.25F;
}

static void make_similarity_inline(struct sample *s)
{
    sample_begin(s, OPERATION_SIMILARITY, engram_accel_v1_SimilarityRequest_fields);
    ADD(s->message.similarity, queries, DTYPE_FLOAT32, 2, 4);
    ADD(s->message.similarity, rows, DTYPE_FLOAT32, 6, 4);
    s->message.similarity.metric = engram_accel_v1_Metric_METRIC_DOT;
}

static void make_knn(struct sample *s)
{
    sample_begin(s, OPERATION_KNN, engram_accel_v1_KnnRequest_fields);
    strcpy(s->message.knn.collection, "rows");
    s->message.knn.k = 10;
    ADD(s->message.knn, queries, DTYPE_FLOAT32, 3, 4);
    s->message.knn.has_filter = true;
    ADD(s->message.knn.filter, ids, DTYPE_UINT64, 20, 1);
    s->message.knn.has_threshold = true;
    s->message.knn.threshold = -1.0F;
}

static void make_knn_plain(struct sample *s)
{
    sample_begin(s, OPERATION_KNN, engram_accel_v1_KnnRequest_fields);
    strcpy(s->message.knn.collection, "rows");
    s->message.knn.k = 1;
    ADD(s->message.knn, queries, DTYPE_FLOAT32, 1, 3);
}

static void fill_offsets(struct sample *s, uint64_t a, uint64_t b, uint64_t c)
{
    ADD(s->message.score, offsets, DTYPE_UINT64, 3, 1);
    memcpy(s->body + s->body_bytes - 64, (uint64_t[3]){a, b, c}, 24);
}

static void make_score(struct sample *s)
{
    sample_begin(s, OPERATION_SCORE_CANDIDATES, engram_accel_v1_ScoreCandidatesRequest_fields);
    strcpy(s->message.score.collection, "rows");
    ADD(s->message.score, queries, DTYPE_FLOAT32, 2, 4);
    fill_offsets(s, 0, 2, 5);
    ADD(s->message.score, ids, DTYPE_UINT64, 5, 1);
    s->message.score.k = 2;
}

static void make_score_inline(struct sample *s)
{
    sample_begin(s, OPERATION_SCORE_CANDIDATES, engram_accel_v1_ScoreCandidatesRequest_fields);
    ADD(s->message.score, queries, DTYPE_FLOAT32, 2, 4);
    fill_offsets(s, 0, 1, 3);
    ADD(s->message.score, rows, DTYPE_FLOAT32, 3, 4);
    s->message.score.metric = engram_accel_v1_Metric_METRIC_SQUARED_EUCLIDEAN;
}

static void make_norms(struct sample *s)
{
    sample_begin(s, OPERATION_NORMS, engram_accel_v1_NormsRequest_fields);
    ADD(s->message.norms, rows, DTYPE_FLOAT32, 7, 3);
}

static void make_average(struct sample *s)
{
    sample_begin(s, OPERATION_WEIGHTED_AVERAGE, engram_accel_v1_WeightedAverageRequest_fields);
    ADD(s->message.average, weights, DTYPE_FLOAT32, 3, 1);
    ADD(s->message.average, rows, DTYPE_FLOAT32, 3, 4);
}

static void make_average_ids(struct sample *s)
{
    sample_begin(s, OPERATION_WEIGHTED_AVERAGE, engram_accel_v1_WeightedAverageRequest_fields);
    strcpy(s->message.average.collection, "rows");
    ADD(s->message.average, weights, DTYPE_FLOAT32, 3, 1);
    ADD(s->message.average, ids, DTYPE_UINT64, 3, 1);
}

/* ---- graphs ---- */

static void make_graph_create(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_CREATE, engram_accel_v1_GraphCreateRequest_fields);
    strcpy(s->message.graph_create.name, "links");
}

static void make_graph_drop(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_DROP, engram_accel_v1_GraphDropRequest_fields);
    strcpy(s->message.graph_drop.name, "links");
}

static void make_graph_list(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_LIST, engram_accel_v1_GraphListRequest_fields);
    strcpy(s->message.graph_list.after, "g");
}

static void make_graph_describe(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_DESCRIBE, engram_accel_v1_GraphDescribeRequest_fields);
    strcpy(s->message.graph_describe.name, "links");
}

static void make_add_edges(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_ADD_EDGES, engram_accel_v1_GraphAddEdgesRequest_fields);
    strcpy(s->message.add_edges.graph, "links");
    s->message.add_edges.replace = true;
    ADD(s->message.add_edges, sources, DTYPE_UINT64, 9, 1);
    ADD(s->message.add_edges, targets, DTYPE_UINT64, 9, 1);
    ADD(s->message.add_edges, weights, DTYPE_FLOAT32, 9, 1);
}

static void make_add_weights(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_ADD_WEIGHTS, engram_accel_v1_GraphAddWeightsRequest_fields);
    strcpy(s->message.add_weights.graph, "links");
    s->message.add_weights.create = true;
    s->message.add_weights.has_high = true;
    s->message.add_weights.high = 1;
    ADD(s->message.add_weights, sources, DTYPE_UINT64, 3, 1);
    ADD(s->message.add_weights, targets, DTYPE_UINT64, 3, 1);
    ADD(s->message.add_weights, deltas, DTYPE_FLOAT32, 3, 1);
}

static void make_scale(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_SCALE, engram_accel_v1_GraphScaleRequest_fields);
    strcpy(s->message.scale.graph, "links");
    s->message.scale.has_factor = true;
    s->message.scale.factor = 0.5F;
}

static void make_prune(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_PRUNE, engram_accel_v1_GraphPruneRequest_fields);
    strcpy(s->message.prune.graph, "links");
    s->message.prune.has_below = true;
    s->message.prune.below = -1;
}

/* Two rows with ids, one and two edges. */
static void make_add_csr(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_ADD_CSR, engram_accel_v1_GraphAddCsrRequest_fields);
    strcpy(s->message.add_csr.graph, "links");
    ADD(s->message.add_csr, ids, DTYPE_UINT64, 2, 1);
    ADD(s->message.add_csr, offsets, DTYPE_UINT64, 3, 1);
    memcpy(s->body + s->body_bytes - 64, (uint64_t[3]){0, 1, 3}, 24);
    ADD(s->message.add_csr, columns, DTYPE_UINT64, 3, 1);
    memset(s->body + s->body_bytes - 64, 0, 24);
    ADD(s->message.add_csr, weights, DTYPE_FLOAT32, 3, 1);
}

static void make_remove_edges(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_REMOVE_EDGES, engram_accel_v1_GraphRemoveEdgesRequest_fields);
    strcpy(s->message.remove_edges.graph, "links");
    ADD(s->message.remove_edges, sources, DTYPE_UINT64, 3, 1);
    ADD(s->message.remove_edges, targets, DTYPE_UINT64, 3, 1);
}

static void make_set_nodes(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_SET_NODES, engram_accel_v1_GraphSetNodesRequest_fields);
    strcpy(s->message.set_nodes.graph, "links");
    ADD(s->message.set_nodes, ids, DTYPE_UINT64, 5, 1);
    ADD(s->message.set_nodes, kinds, DTYPE_UINT8, 5, 1);
    memcpy(s->body + s->body_bytes - 64, "\0\1\2\1\0", 5);
    ADD(s->message.set_nodes, factors, DTYPE_FLOAT32, 5, 1);
}

static void make_remove_nodes(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_REMOVE_NODES, engram_accel_v1_GraphRemoveNodesRequest_fields);
    strcpy(s->message.remove_nodes.graph, "links");
    ADD(s->message.remove_nodes, ids, DTYPE_UINT64, 4, 1);
}

static void make_fetch_nodes(struct sample *s)
{
    sample_begin(s, OPERATION_GRAPH_FETCH_NODES, engram_accel_v1_GraphFetchNodesRequest_fields);
    strcpy(s->message.fetch_nodes.graph, "links");
    s->message.fetch_nodes.edges = true;
    ADD(s->message.fetch_nodes, ids, DTYPE_UINT64, 4, 1);
}

/* Three sets, the second of them empty, and every tensor that there is. */
static void make_spread(struct sample *s)
{
    sample_begin(s, OPERATION_SPREAD, engram_accel_v1_SpreadRequest_fields);
    engram_accel_v1_SpreadRequest *m = &s->message.spread;
    strcpy(m->graph, "links");
    m->mode = engram_accel_v1_SpreadMode_SPREAD_MODE_LINEAR;
    m->hops = 3;
    m->decay = engram_accel_v1_DecayLaw_DECAY_TABLE;
    m->has_threshold = true;
    m->threshold = 0.25F;
    m->paths = true;
    m->k = 7;
    m->touched_max = 1000;
    m->time_max_us = 5000;
    ADD(*m, seed_offsets, DTYPE_UINT64, 4, 1);
    memcpy(s->body + s->body_bytes - 64, (uint64_t[4]){0, 2, 2, 5}, 32);
    ADD(*m, seeds, DTYPE_UINT64, 5, 1);
    ADD(*m, activations, DTYPE_FLOAT32, 5, 1);
    ADD(*m, decay_table, DTYPE_FLOAT32, 3, 1);
    m->has_within = true;
    m->within.bitmap_first = 8;
    ADD(m->within, bitmap, DTYPE_UINT8, 70, 1);
}

/* The least that can be asked. */
static void make_spread_plain(struct sample *s)
{
    sample_begin(s, OPERATION_SPREAD, engram_accel_v1_SpreadRequest_fields);
    strcpy(s->message.spread.graph, "links");
    s->message.spread.mode = engram_accel_v1_SpreadMode_SPREAD_MODE_ENGRAM;
    ADD(s->message.spread, seeds, DTYPE_UINT64, 2, 1);
}

static void make_spread_embeddings(struct sample *s)
{
    make_spread_plain(s);
    strcpy(s->message.spread.embeddings, "rows");
}

static const struct {
    const char *name;
    void (*make)(struct sample *s);
} makers[] = {
    {"hello", sample_make_hello},
    {"ping", sample_make_ping},
    {"info", sample_make_info},
    {"stats", sample_make_stats},
    {"cancel", sample_make_cancel},
    {"explain", sample_make_explain},
    {"config get", sample_make_config_get},
    {"config set", sample_make_config_set},
    {"spaces", sample_make_spaces},
    {"config reload", sample_make_config_reload},
    {"save", sample_make_save},
    {"slowlog", sample_make_slowlog},
    {"memory", sample_make_memory},
    {"memory history", sample_make_memory_history},
    {"create", make_create},
    {"drop", make_drop},
    {"list", make_list},
    {"describe", make_describe},
    {"swap", make_swap},
    {"changes", make_changes},
    {"upsert", make_upsert},
    {"delete", make_delete},
    {"fetch", make_fetch},
    {"fetch_range", make_fetch_range},
    {"similarity", make_similarity},
    {"similarity_inline", make_similarity_inline},
    {"knn", make_knn},
    {"knn_plain", make_knn_plain},
    {"score", make_score},
    {"score_inline", make_score_inline},
    {"norms", make_norms},
    {"average", make_average},
    {"average_ids", make_average_ids},
    {"bind", sample_make_bind},
    {"bind_inline", sample_make_bind_inline},
    {"unbind", sample_make_unbind},
    {"bind_many", sample_make_bind_many},
    {"superpose", sample_make_superpose},
    {"permute", sample_make_permute},
    {"random", sample_make_random},
    {"cleanup", sample_make_cleanup},
    {"complete", sample_make_complete},
    {"complete with a mask", sample_make_complete_masked},
    {"complete_engine", sample_make_complete_engine},
    {"covariance", sample_make_covariance},
    {"covariance by id", sample_make_covariance_ids},
    {"covariance inline", sample_make_covariance_inline},
    {"cluster", sample_make_cluster},
    {"cluster by id", sample_make_cluster_ids},
    {"cluster inline", sample_make_cluster_inline},
    {"recall", sample_make_recall},
    {"recall by id", sample_make_recall_ids},
    {"spread", make_spread},
    {"spread_plain", make_spread_plain},
    {"spread_embeddings", make_spread_embeddings},
    {"graph_create", make_graph_create},
    {"graph_drop", make_graph_drop},
    {"graph_list", make_graph_list},
    {"graph_describe", make_graph_describe},
    {"add_edges", make_add_edges},
    {"add_csr", make_add_csr},
    {"add_weights", make_add_weights},
    {"scale", make_scale},
    {"prune", make_prune},
    {"remove_edges", make_remove_edges},
    {"set_nodes", make_set_nodes},
    {"remove_nodes", make_remove_nodes},
    {"fetch_nodes", make_fetch_nodes},
    {"attractor_create", sample_make_attractor_create},
    {"attractor_drop", sample_make_attractor_drop},
    {"attractor_list", sample_make_attractor_list},
    {"attractor_describe", sample_make_attractor_describe},
    {"attractor_learn", sample_make_attractor_learn},
    {"attractor_learn_ids", sample_make_attractor_learn_ids},
    {"attractor_fetch", sample_make_attractor_fetch},
    {"attractor_set", sample_make_attractor_set},
};

size_t sample_count(void)
{
    return sizeof makers / sizeof *makers;
}

void sample_get(size_t i, struct sample *out)
{
    memset(out, 0, sizeof *out);
    out->name = makers[i].name;
    makers[i].make(out);
}

void sample_find(const char *name, struct sample *out)
{
    for (size_t i = 0; i < sample_count(); i++)
        if (strcmp(makers[i].name, name) == 0) {
            sample_get(i, out);
            return;
        }
    fprintf(stderr, "no sample %s\n", name);
    abort();
}

uint32_t sample_message(const struct sample *s, void *buffer, size_t size)
{
    pb_ostream_t out = pb_ostream_from_buffer(buffer, size);
    if (!pb_encode(&out, s->fields, &s->message)) {
        fprintf(stderr, "sample %s: %s\n", s->name, PB_GET_ERROR(&out));
        abort();
    }
    return (uint32_t)out.bytes_written;
}

size_t sample_frame(const struct sample *s, uint64_t request_id, void *buffer)
{
    uint8_t *bytes = buffer;
    memset(bytes, 0, SAMPLE_BYTES_MAX);
    struct frame_header h = {
        .kind = s->kind, .request_id = request_id, .body_bytes = s->body_bytes};
    h.message_bytes = sample_message(s, bytes + FRAME_HEADER_BYTES, 1024);
    frame_write(&h, bytes);
    memcpy(bytes + frame_body_offset(&h), s->body, s->body_bytes);
    return frame_body_offset(&h) + s->body_bytes;
}
