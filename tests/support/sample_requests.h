/* sample_requests: one valid request of every kind and form, and what it takes to bend it.
 * Owner:  the tests of the wire and the fuzz targets.
 * Thread: any; no state.
 * Errors: aborts when a sample does not encode: that is a mistake in the sample. */
#ifndef ENGRAM_TESTS_SAMPLE_REQUESTS_H
#define ENGRAM_TESTS_SAMPLE_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/frame.h"
#include "proto/engram_accel.pb.h"

enum { SAMPLE_BYTES_MAX = 4096 };

struct sample {
    const char *name; /* "knn with a filter list" */
    uint8_t kind;
    const pb_msgdesc_t *fields;
    union {
        engram_accel_v1_HelloRequest hello;
        engram_accel_v1_PingRequest ping;
        engram_accel_v1_InfoRequest info;
        engram_accel_v1_StatsRequest stats;
        engram_accel_v1_CancelRequest cancel;
        engram_accel_v1_ExplainRequest explain;
        engram_accel_v1_ConfigGetRequest config_get;
        engram_accel_v1_ConfigSetRequest config_set;
        engram_accel_v1_ConfigReloadRequest config_reload;
        engram_accel_v1_SaveRequest save;
        engram_accel_v1_SpacesRequest spaces;
        engram_accel_v1_SlowlogRequest slowlog;
        engram_accel_v1_MemoryRequest memory;
        engram_accel_v1_MemoryHistoryRequest memory_history;
        engram_accel_v1_CollectionCreateRequest create;
        engram_accel_v1_CollectionDropRequest drop;
        engram_accel_v1_CollectionListRequest list;
        engram_accel_v1_CollectionDescribeRequest describe;
        engram_accel_v1_SwapRequest swap;
        engram_accel_v1_ChangesRequest changes;
        engram_accel_v1_UpsertRequest upsert;
        engram_accel_v1_DeleteRequest delete;
        engram_accel_v1_FetchRequest fetch;
        engram_accel_v1_SimilarityRequest similarity;
        engram_accel_v1_KnnRequest knn;
        engram_accel_v1_ScoreCandidatesRequest score;
        engram_accel_v1_NormsRequest norms;
        engram_accel_v1_WeightedAverageRequest average;
        engram_accel_v1_SpreadRequest spread;
        engram_accel_v1_BindRequest bind;
        engram_accel_v1_UnbindRequest unbind;
        engram_accel_v1_BindManyRequest bind_many;
        engram_accel_v1_SuperposeRequest superpose;
        engram_accel_v1_PermuteRequest permute;
        engram_accel_v1_RandomRequest random;
        engram_accel_v1_CleanupRequest cleanup;
        engram_accel_v1_CompleteRequest complete;
        engram_accel_v1_CompleteEngineRequest complete_engine;
        engram_accel_v1_AttractorCreateRequest attractor_create;
        engram_accel_v1_AttractorDropRequest attractor_drop;
        engram_accel_v1_AttractorListRequest attractor_list;
        engram_accel_v1_AttractorDescribeRequest attractor_describe;
        engram_accel_v1_AttractorLearnRequest attractor_learn;
        engram_accel_v1_AttractorFetchRequest attractor_fetch;
        engram_accel_v1_AttractorSetRequest attractor_set;
        engram_accel_v1_RecallRequest recall;
        engram_accel_v1_CovarianceRequest covariance;
        engram_accel_v1_ClusterRequest cluster;
        engram_accel_v1_GraphCreateRequest graph_create;
        engram_accel_v1_GraphDropRequest graph_drop;
        engram_accel_v1_GraphListRequest graph_list;
        engram_accel_v1_GraphDescribeRequest graph_describe;
        engram_accel_v1_GraphAddEdgesRequest add_edges;
        engram_accel_v1_GraphAddWeightsRequest add_weights;
        engram_accel_v1_GraphScaleRequest scale;
        engram_accel_v1_GraphPruneRequest prune;
        engram_accel_v1_GraphAddCsrRequest add_csr;
        engram_accel_v1_GraphRemoveEdgesRequest remove_edges;
        engram_accel_v1_GraphSetNodesRequest set_nodes;
        engram_accel_v1_GraphRemoveNodesRequest remove_nodes;
        engram_accel_v1_GraphFetchNodesRequest fetch_nodes;
    } message;
    uint64_t body_bytes;
    _Alignas(64) uint8_t body[1024];
};

size_t sample_count(void);
void sample_get(size_t i, struct sample *out);
/* The sample called name. */
void sample_find(const char *name, struct sample *out);

/* Encodes only the message; returns its bytes. */
uint32_t sample_message(const struct sample *s, void *buffer, size_t size);
/* The whole frame into SAMPLE_BYTES_MAX bytes; returns its length. */
size_t sample_frame(const struct sample *s, uint64_t request_id, void *buffer);

engram_accel_v1_Tensor sample_tensor(int dtype, uint64_t rows, uint64_t columns);

#endif
