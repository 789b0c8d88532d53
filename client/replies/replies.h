/* replies: what the files that read replies share.
 * Owner:  the library. Thread: one at a time.
 * Errors: DATA_LOSS, and the note says what is wrong with the daemon's reply. */
#ifndef EA_REPLIES_H
#define EA_REPLIES_H

#include "client/client.h"

enum { EA_REPLY_TENSORS_MAX = 12 };

/* Tensors of a reply, in body order, before their memory is allocated. */
struct layout {
    struct note *note;
    uint64_t used;
    uint32_t count;
    struct {
        uint64_t offset;
        const void **pointer;
    } places[EA_REPLY_TENSORS_MAX];
};

ea_status ea_reply_broken(struct note *note, const char *text);
ea_status ea_reply_decode(const void *message, uint32_t message_bytes, const pb_msgdesc_t *fields,
                          void *out, struct note *note);
/* Adds the next tensor; *pointer will point to it, and is unchanged if the tensor is absent. */
ea_status ea_reply_place(struct layout *l, const char *name, bool present,
                         const engram_accel_v1_Tensor *t, engram_accel_v1_Dtype dtype,
                         const void **pointer);
/* Reports that a tensor does not have the expected shape. */
ea_status ea_reply_misfit(struct layout *l, const char *name, const engram_accel_v1_Tensor *t);
/* Allocates memory for meta and for a body that the tensors fill exactly, and sets the pointers. */
ea_status ea_reply_memory(struct layout *l, struct client_request *r, uint64_t body_bytes,
                          const engram_accel_v1_Meta *meta);

/* True for `lists` + 1 offsets from 0 to n, with list lengths between `least` and `most`. */
bool ea_reply_rising(const uint64_t *offsets, uint64_t lists, uint64_t n, uint64_t least,
                     uint64_t most);

/* Paths, of which the i-th ends at ids[i]. */
struct paths {
    const uint64_t *ids;
    uint64_t count;
    const uint64_t *offsets, *nodes; /* as many nodes as the last offset says: node_count */
    uint64_t node_count;
};
ea_status ea_reply_check_paths(const struct paths *p, struct note *note);

static inline bool shaped(const engram_accel_v1_Tensor *t, uint64_t rows, uint64_t columns)
{
    return t->rows == rows && t->columns == columns;
}

#define F32 engram_accel_v1_Dtype_DTYPE_FLOAT32
#define F64 engram_accel_v1_Dtype_DTYPE_FLOAT64
#define U64 engram_accel_v1_Dtype_DTYPE_UINT64
#define U32 engram_accel_v1_Dtype_DTYPE_UINT32
#define U8  engram_accel_v1_Dtype_DTYPE_UINT8
#define PLACE(layout, message, member, dtype, target)                                     \
    ea_reply_place((layout), #member, (message).has_##member, &(message).member, (dtype), \
                   (const void **)&(target))

/* What a reply says of how it was produced, by that life of the daemon. */
ea_meta ea_reply_meta(const engram_accel_v1_Meta *m, uint64_t instance);

/* ---- reports.c, graph.c: messages -> public structs ---- */

ea_screens ea_report_screens(const engram_accel_v1_Screens *m);
void ea_report_info(const engram_accel_v1_InfoReply *m, ea_info *out);
void ea_report_space(const engram_accel_v1_SpaceStats *m, ea_space_stats *out);
void ea_report_stats(const engram_accel_v1_StatsReply *m, ea_stats *out);
void ea_report_explain(const engram_accel_v1_ExplainReply *m, ea_explanation *out);
void ea_reply_collection(const engram_accel_v1_CollectionInfo *m, ea_collection_info *out);
void ea_reply_graph(const engram_accel_v1_GraphInfo *m, ea_graph_info *out);

/* ---- graph.c ---- */

/* Parse replies without a body: of create and describe, of what changes a graph. */
ea_status ea_reply_parse_graph_info(struct client_request *r, const void *message, uint32_t bytes,
                                    struct note *note);
ea_status ea_reply_parse_graph_change(struct client_request *r, const void *message, uint32_t bytes,
                                      struct note *note);
/* What became of weights: counts go to *r->answer, an ea_graph_counts, weights to r->result. */
ea_status ea_reply_parse_weights(struct client_request *r, const void *message, uint32_t bytes,
                                 uint64_t body_bytes, struct note *note);
/* Parse nodes and spreads: shapes and pointers go to *r->answer, an ea_nodes or ea_spread_result,
 * whose memory is r->result.memory. */
ea_status ea_reply_parse_nodes(struct client_request *r, const void *message, uint32_t bytes,
                               uint64_t body_bytes, struct note *note);
ea_status ea_reply_parse_spread(struct client_request *r, const void *message, uint32_t bytes,
                                uint64_t body_bytes, struct note *note);
ea_status ea_reply_check_graph(const struct client_request *r, struct note *note);

/* ---- objects.c ---- */

ea_status ea_reply_parse_swapped(struct client_request *r, const void *message, uint32_t bytes,
                                 struct note *note);

/* ---- attractor.c ---- */

void ea_reply_attractor(const engram_accel_v1_AttractorInfo *m, ea_attractor_info *out);
/* Parse replies without a body: of create and describe, of drop, learn and set. */
ea_status ea_reply_parse_attractor_info(struct client_request *r, const void *message,
                                        uint32_t bytes, struct note *note);
ea_status ea_reply_parse_attractor_drop(struct client_request *r, const void *message,
                                        uint32_t bytes, struct note *note);
ea_status ea_reply_parse_learned(struct client_request *r, const void *message, uint32_t bytes,
                                 struct note *note);
ea_status ea_reply_parse_weights_set(struct client_request *r, const void *message, uint32_t bytes,
                                     struct note *note);
/* Parse weights, into r->result, and completions, into *r->answer, an ea_engine_completed whose
 * memory is r->result.memory. */
ea_status ea_reply_parse_attractor_weights(struct client_request *r, const void *message,
                                           uint32_t bytes, uint64_t body_bytes, struct note *note);
ea_status ea_reply_parse_engine_completed(struct client_request *r, const void *message,
                                          uint32_t bytes, uint64_t body_bytes, struct note *note);

/* ---- hrr.c ---- */

/* Parses results of holographic operations, which go to *r->answer, an ea_hrr_result whose memory
 * is r->result.memory. */
ea_status ea_reply_parse_holographic(struct client_request *r, const void *message, uint32_t bytes,
                                     uint64_t body_bytes, struct note *note);

/* ---- complete.c ---- */

/* Parses completed states, which go to *r->answer, an ea_completed whose memory is
 * r->result.memory. */
ea_status ea_reply_parse_completed(struct client_request *r, const void *message, uint32_t bytes,
                                   uint64_t body_bytes, struct note *note);

/* ---- covariance.c ---- */

/* Parses mean and covariance, which go to *r->answer, an ea_covariance_result whose memory is
 * r->result.memory. */
ea_status ea_reply_parse_covariance(struct client_request *r, const void *message, uint32_t bytes,
                                    uint64_t body_bytes, struct note *note);

/* ---- recall.c ---- */

/* Parses what was recalled, which goes to *r->answer, an ea_recall_result whose memory is
 * r->result.memory. */
ea_status ea_reply_parse_recall(struct client_request *r, const void *message, uint32_t bytes,
                                uint64_t body_bytes, struct note *note);
ea_status ea_reply_check_recall(const struct client_request *r, struct note *note);

/* ---- cluster.c ---- */

/* Parses clusters, which go to *r->answer, an ea_clusters whose memory is r->result.memory. */
ea_status ea_reply_parse_clusters(struct client_request *r, const void *message, uint32_t bytes,
                                  uint64_t body_bytes, struct note *note);
ea_status ea_reply_check_clusters(const struct client_request *r, struct note *note);

#endif
