/* engram_accel_vectors: collections of vectors, and questions about them or about rows sent along.
 * engram_accel.h, which includes it, says who owns what, on which thread, and what errors mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_VECTORS_H)
#define ENGRAM_ACCEL_VECTORS_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- collections ---- */

typedef struct ea_collection_info {
    char name[65];
    uint32_t dimension;
    ea_metric metric;
    uint64_t rows, version, row_bytes, index_bytes;
    uint64_t vram_bytes;   /* of its replicas on GPUs; 0: there is none */
    uint64_t vram_version; /* of the freshest replica; 0: none is whole yet */
} ea_collection_info;

/* dimension 1..16384. ALREADY_EXISTS. out may be NULL. */
EA_API ea_status ea_collection_create(ea_client *c, const char *name, uint32_t dimension,
                                      ea_metric metric, ea_collection_info *out);
EA_API ea_status ea_collection_create_send(ea_client *c, const char *name, uint32_t dimension,
                                           ea_metric metric, const ea_send_options *how,
                                           uint64_t *request_id); /* answer->collection */
EA_API ea_status ea_collection_drop(ea_client *c, const char *name);
EA_API ea_status ea_collection_drop_send(ea_client *c, const char *name, const ea_send_options *how,
                                         uint64_t *request_id);
EA_API ea_status ea_collection_describe(ea_client *c, const char *name, ea_collection_info *out);
EA_API ea_status ea_collection_describe_send(ea_client *c, const char *name,
                                             const ea_send_options *how,
                                             uint64_t *request_id); /* answer->collection */
/* All of the space's, by name. *out is freed with ea_collection_list_free. No _send: it is several
 * requests, each of which asks for what follows the last. */
EA_API ea_status ea_collection_list(ea_client *c, ea_collection_info **out, size_t *count);
EA_API void ea_collection_list_free(ea_collection_info *list);

/* Rows for a collection. */
typedef struct ea_rows {
    const char *collection;
    const uint64_t *ids;
    const float *rows; /* count x dimension */
    uint64_t count;
    uint32_t dimension;
    ea_progress progress; /* NULL: none; not of a _send */
    void *user;           /* progress's */
} ea_rows;
typedef struct ea_upsert_counts {
    uint64_t inserted, replaced, rows, version;
} ea_upsert_counts;
/* Inserts rows, or replaces those that are there. Larger than one request: sent as several, which
 * overlap; then a failure leaves some of them applied, as *out (may be NULL) says. Sending all again
 * is always right. */
EA_API ea_status ea_upsert(ea_client *c, const ea_rows *rows, ea_upsert_counts *out);
/* One request, all or nothing. answer->upserted, and answer->result has meta. */
EA_API ea_status ea_upsert_send(ea_client *c, const ea_rows *rows, const ea_send_options *how,
                                uint64_t *request_id);

typedef struct ea_delete_counts {
    uint64_t deleted, missing;
} ea_delete_counts;
/* Unknown ids are counted, not an error. out may be NULL. */
EA_API ea_status ea_delete(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                           ea_delete_counts *out);
EA_API ea_status ea_delete_send(ea_client *c, const char *collection, const uint64_t *ids,
                                uint64_t n, const ea_send_options *how,
                                uint64_t *request_id); /* answer->deleted */

/* vectors[i] for ids[i]; zeros and found[i] = 0 where there is no such id. */
EA_API ea_status ea_fetch(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                          ea_result *out);
EA_API ea_status ea_fetch_send(ea_client *c, const char *collection, const uint64_t *ids,
                               uint64_t n, const ea_send_options *how, uint64_t *request_id);
/* limit rows from position offset in storage order: ids and vectors. */
EA_API ea_status ea_fetch_range(ea_client *c, const char *collection, uint64_t offset,
                                uint64_t limit, ea_result *out);
EA_API ea_status ea_fetch_range_send(ea_client *c, const char *collection, uint64_t offset,
                                     uint64_t limit, const ea_send_options *how,
                                     uint64_t *request_id);

/* ---- questions ----
 * Rows sent along (inline) may be more than the daemon takes in one request: a blocking call sends
 * them as several and joins the answers, so that nothing shows but meta's sums. A _send is one
 * request: RESOURCE_EXHAUSTED where it is too large. */

/* Allowed ids: a list, or a bitmap (bit i stands for id bitmap_first + i). NULL filter: all. */
typedef struct ea_filter {
    const uint64_t *ids;
    uint64_t id_count;
    const uint8_t *bitmap;
    uint64_t bitmap_bytes;
    uint64_t bitmap_first;
} ea_filter;

typedef struct ea_knn_question {
    const char *collection;
    const float *queries; /* query_count x dimension */
    uint64_t query_count;
    uint32_t dimension;
    uint32_t k;              /* 1 and more */
    const ea_filter *filter; /* NULL: all */
    const float *threshold;  /* keep only scores at least (distances: at most) this; NULL: all */
} ea_knn_question;
/* The k best rows of each query: ids and scores are rows x columns with rows = query_count, columns =
 * min(k, allowed rows); counts[i] of row i are hits, the rest EA_NO_ID and NaN. */
EA_API ea_status ea_knn(ea_client *c, const ea_knn_question *question, ea_result *out);
EA_API ea_status ea_knn_send(ea_client *c, const ea_knn_question *question,
                             const ea_send_options *how, uint64_t *request_id);

typedef struct ea_similarity_question {
    const char *collection; /* NULL: rows are inline */
    const float *queries;   /* query_count x dimension */
    uint64_t query_count;
    uint32_t dimension;
    const ea_filter *filter; /* NULL: all; not inline */
    const float *threshold;  /* NULL: all scores */
    ea_metric metric;        /* of inline rows */
    const float *rows;       /* inline: row_count x dimension */
    uint64_t row_count;
} ea_similarity_question;
/* Scores of each query against every allowed row: scores is query_count x columns, ids[columns] names
 * them (inline: NULL, they are the rows). With a threshold: offsets[query_count + 1] into ids (inline:
 * positions) and scores, best first; columns counts all matches. */
EA_API ea_status ea_similarity(ea_client *c, const ea_similarity_question *question,
                               ea_result *out);
EA_API ea_status ea_similarity_send(ea_client *c, const ea_similarity_question *question,
                                    const ea_send_options *how, uint64_t *request_id);

typedef struct ea_score_question {
    const char *collection; /* NULL: rows are inline */
    const float *queries;   /* query_count x dimension */
    uint64_t query_count;
    uint32_t dimension;
    ea_metric metric;        /* 0: the collection's */
    const uint64_t *offsets; /* query_count + 1; NULL: one query, all candidates */
    const uint64_t *ids;     /* count of them, or, inline, */
    const float *rows;       /* count x dimension */
    uint64_t count;
    uint32_t k; /* 0: all scores */
} ea_score_question;
/* Query i against candidates [offsets[i], offsets[i + 1]). k = 0: all scores, in order (scores is
 * count x 1); else as ea_knn, ids of inline rows being positions within each list. An unknown id is
 * NOT_FOUND. */
EA_API ea_status ea_score(ea_client *c, const ea_score_question *question, ea_result *out);
EA_API ea_status ea_score_send(ea_client *c, const ea_score_question *question,
                               const ea_send_options *how, uint64_t *request_id);

/* norms_out: n places. */
EA_API ea_status ea_norms(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                          float *norms_out);
/* answer->result: vectors is n x 1. */
EA_API ea_status ea_norms_send(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                               const ea_send_options *how, uint64_t *request_id);

typedef struct ea_average_question {
    const char *collection; /* NULL: rows are inline */
    const uint64_t *ids;    /* count of the collection's, or, inline, */
    const float *rows;      /* count x dimension */
    const float *weights;   /* count */
    uint64_t count;
    uint32_t dimension;
} ea_average_question;
/* sum(w x) / sum(w); zeros where count = 0 or the weights sum to 0. average_out: dimension. */
EA_API ea_status ea_weighted_average(ea_client *c, const ea_average_question *question,
                                     float *average_out);
/* answer->result: vectors is 1 x dimension. */
EA_API ea_status ea_weighted_average_send(ea_client *c, const ea_average_question *question,
                                          const ea_send_options *how, uint64_t *request_id);

#ifdef __cplusplus
}
#endif

#endif
