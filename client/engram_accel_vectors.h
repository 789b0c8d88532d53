/* engram_accel_vectors: collections of vectors, and questions about them or about rows sent along.
 * engram_accel.h, which includes it, says who owns what, which threads may call, and what errors
 * mean. */
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
    uint64_t vram_version; /* of the newest replica; 0: none is complete yet */
    /* Rows that the daemon's host also has in int8, and what they take (screen.memory); what
     * rounding took from a row, as a part of its norm, in the mean; how long ago their centre was
     * chosen. Pairs of a query and a row that were looked at so, and those that had to be scored,
     * since the daemon began. */
    uint64_t shadow_rows, shadow_bytes;
    double shadow_lost;
    uint64_t shadow_age_us, shadow_screened, shadow_passed;
    /* What follows ea_collection_describe alone knows. Searches that will do without the host's
     * rows in int8, because they were of no use lately; and of the rows in int8 of its replica, on
     * GPU vram_gpu: how many, their VRAM, what rounding took (0: not measured yet), the age of
     * their centre, and how many searches will do without them. */
    uint64_t shadow_rests;
    uint64_t vram_shadow_rows, vram_shadow_bytes;
    double vram_shadow_lost;
    uint64_t vram_shadow_age_us, vram_shadow_rests;
    uint32_t vram_gpu;
    ea_screens screens_cpu, screens_gpu;
} ea_collection_info;

/* dimension 1..EA_DIMENSION_MAX. ALREADY_EXISTS. out may be NULL. */
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
/* Lists all collections of the space by name. *out is freed with ea_collection_list_free. There is
 * no _send form, because it takes several requests, each of which asks for the names after the
 * last one. */
EA_API ea_status ea_collection_list(ea_client *c, ea_collection_info **out, size_t *count);
EA_API void ea_collection_list_free(ea_collection_info *list);

/* Rows for a collection. */
typedef struct ea_rows {
    const char *collection;
    const uint64_t *ids;
    const float *rows; /* count x dimension */
    uint64_t count;
    uint32_t dimension;
    ea_progress progress;  /* NULL: none; a _send does not call it */
    void *user;            /* passed to progress */
    const ea_write *write; /* what is expected; NULL: nothing */
} ea_rows;
typedef struct ea_upsert_counts {
    uint64_t inserted, replaced, rows, version;
} ea_upsert_counts;
/* Inserts rows, or replaces existing ones. More than fits one request is sent as several, which
 * overlap; a failure then leaves some of them applied, as *out (may be NULL) says. Sending all
 * rows again is always safe. */
EA_API ea_status ea_upsert(ea_client *c, const ea_rows *rows, ea_upsert_counts *out);
/* One request, all or nothing. answer->upserted, and answer->result has meta. */
EA_API ea_status ea_upsert_send(ea_client *c, const ea_rows *rows, const ea_send_options *how,
                                uint64_t *request_id);

typedef struct ea_delete_counts {
    uint64_t deleted, missing;
} ea_delete_counts;
/* Deletes rows. Unknown ids are counted as missing. out may be NULL. */
EA_API ea_status ea_delete(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                           ea_delete_counts *out);
EA_API ea_status ea_delete_send(ea_client *c, const char *collection, const uint64_t *ids,
                                uint64_t n, const ea_send_options *how,
                                uint64_t *request_id); /* answer->deleted */

/* Fetches vectors[i] for ids[i]; if there is no such id, found[i] is 0 and the vector is zeros. */
EA_API ea_status ea_fetch(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                          ea_result *out);
EA_API ea_status ea_fetch_send(ea_client *c, const char *collection, const uint64_t *ids,
                               uint64_t n, const ea_send_options *how, uint64_t *request_id);
/* Fetches ids and vectors of `limit` rows from position `offset` on, in storage order. */
EA_API ea_status ea_fetch_range(ea_client *c, const char *collection, uint64_t offset,
                                uint64_t limit, ea_result *out);
EA_API ea_status ea_fetch_range_send(ea_client *c, const char *collection, uint64_t offset,
                                     uint64_t limit, const ea_send_options *how,
                                     uint64_t *request_id);

/* ---- questions ----
 * Rows sent along (inline) may be more than the daemon takes in one request: a blocking call sends
 * them as several requests and joins the answers, which shows only in the sums of meta. A _send is
 * one request: RESOURCE_EXHAUSTED if it is too large. */

/* Allowed ids: a list, or a bitmap in which bit i stands for id bitmap_first + i. NULL filter:
 * all. */
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
    uint32_t k;              /* 1 or more */
    const ea_filter *filter; /* NULL: all */
    const float *threshold;  /* only scores at least (distances: at most) this; NULL: all */
} ea_knn_question;
/* Finds the k best rows of each query: ids and scores are rows x columns with rows = query_count,
 * columns = min(k, allowed rows). Row i has counts[i] results, then EA_NO_ID and NaN. */
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
    ea_metric metric;        /* for inline rows */
    const float *rows;       /* inline: row_count x dimension */
    uint64_t row_count;
} ea_similarity_question;
/* Scores each query against every allowed row: scores is query_count x columns, and ids[columns]
 * names the columns (inline: NULL, in the order of rows). With a threshold: the results of query i
 * are [offsets[i], offsets[i + 1]) of ids (inline: positions) and scores, best first; columns is
 * their number in all. */
EA_API ea_status ea_similarity(ea_client *c, const ea_similarity_question *question,
                               ea_result *out);
EA_API ea_status ea_similarity_send(ea_client *c, const ea_similarity_question *question,
                                    const ea_send_options *how, uint64_t *request_id);

typedef struct ea_score_question {
    const char *collection; /* NULL: rows are inline */
    const float *queries;   /* query_count x dimension */
    uint64_t query_count;
    uint32_t dimension;
    ea_metric metric;        /* 0: that of the collection */
    const uint64_t *offsets; /* query_count + 1; NULL: one query, all candidates */
    const uint64_t *ids;     /* count of them; or, inline, */
    const float *rows;       /* count x dimension */
    uint64_t count;
    uint32_t k; /* 0: all scores */
} ea_score_question;
/* Scores query i against candidates [offsets[i], offsets[i + 1]). k = 0: all scores, in order
 * (scores is count x 1); otherwise as ea_knn, where the ids of inline rows are positions within
 * each list. An unknown id gives NOT_FOUND. */
EA_API ea_status ea_score(ea_client *c, const ea_score_question *question, ea_result *out);
EA_API ea_status ea_score_send(ea_client *c, const ea_score_question *question,
                               const ea_send_options *how, uint64_t *request_id);

/* norms_out has n places. */
EA_API ea_status ea_norms(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                          float *norms_out);
/* answer->result: vectors is n x 1. */
EA_API ea_status ea_norms_send(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                               const ea_send_options *how, uint64_t *request_id);

typedef struct ea_average_question {
    const char *collection; /* NULL: rows are inline */
    const uint64_t *ids;    /* count of the collection's ids; or, inline, */
    const float *rows;      /* count x dimension */
    const float *weights;   /* count */
    uint64_t count;
    uint32_t dimension;
} ea_average_question;
/* Computes sum(w x) / sum(w); zeros if count is 0 or the weights sum to 0. average_out has
 * `dimension` places. */
EA_API ea_status ea_weighted_average(ea_client *c, const ea_average_question *question,
                                     float *average_out);
/* answer->result: vectors is 1 x dimension. */
EA_API ea_status ea_weighted_average_send(ea_client *c, const ea_average_question *question,
                                          const ea_send_options *how, uint64_t *request_id);

#ifdef __cplusplus
}
#endif

#endif
