/* engram_accel_cluster: clusters of similar vectors, by rules that have one result
 * (docs/clustering.md has them, kernels/cluster.h every bit); engram_accel.h, which includes this
 * header, says who owns what, which threads may call, and what errors mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_CLUSTER_H)
#define ENGRAM_ACCEL_CLUSTER_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ea_cluster_rule {
    EA_CLUSTER_CENTROID = 1, /* the cosine of the centroids of two clusters */
    EA_CLUSTER_AVERAGE = 2   /* the mean similarity of their members, in time as well */
} ea_cluster_rule;

#define EA_NO_CLUSTER UINT32_MAX /* a row's label: it is in none */

/* At least two rows, in input order. Set unused members to zero. */
typedef struct ea_cluster_question {
    const char *collection; /* NULL: rows are sent along */
    const uint64_t *ids;    /* of rows in the collection; NULL: all of it, by rising id */
    const float *rows;      /* count x dimension */
    uint64_t count;         /* of ids or rows */
    uint32_t dimension;     /* of rows */
    const float *times;     /* hours, finite, one a row; EA_CLUSTER_AVERAGE alone; NULL: none */
    uint64_t time_count;
    ea_cluster_rule rule; /* 0: EA_CLUSTER_CENTROID */
    /* In -1 .. 1. Two clusters are merged while the value of the best pair is at least this; NULL:
     * 0.8, and 0.55 for EA_CLUSTER_AVERAGE */
    const float *threshold;
    const float *threshold_second; /* of clusters that are large enough; centroid alone; 0.9 */
    const float *score_min;        /* others are left out; NULL: -1, and 0.65 for average */
    const uint32_t *size_min;      /* smaller ones are left out; at least 1; NULL: 3 */
    const uint32_t *clusters_max;  /* the best so many stay; at least 1; NULL: 100; average: all */
    /* The centroid of cluster i is stored in this collection with the id into_first + i. NULL: none
     * is stored */
    const char *into;
    uint64_t into_first;
    const ea_write *write; /* what is expected of it; NULL: nothing */
    bool dry_run; /* nothing is clustered or stored: meta->predicted_ns says what it would take */
} ea_cluster_question;

/* Zero it before its first use; a call frees what it held. Clusters come by size, the largest
 * first, then by score, then by their lowest input index. */
typedef struct ea_clusters {
    const ea_meta *meta; /* NULL: there was no reply */
    uint64_t rows, count;
    uint32_t dimension;
    const uint32_t *labels;      /* rows: the cluster of each, or EA_NO_CLUSTER */
    const uint32_t *sizes;       /* count */
    const float *scores;         /* count: the mean cosine of the members to their centroid, or with
                              * EA_CLUSTER_AVERAGE the mean similarity of the members */
    const float *centroids;      /* count x dimension: the mean of the members */
    const uint64_t *ids;         /* rows, if a whole collection was clustered; NULL: it was not */
    uint64_t merges, scans;      /* scans: of all clusters, for the nearest of one */
    uint64_t inserted, replaced; /* into `into` */
    uint64_t collection_version, into_version; /* 0: none was named */
    void *memory;                              /* private to the library */
} ea_clusters;
EA_API void ea_clusters_free(ea_clusters *r);

/* One request. INVALID_ARGUMENT: a rule that there is none of (EA_DETAIL_BAD_RULE), a number out of
 * range (EA_DETAIL_BAD_THRESHOLD, EA_DETAIL_BAD_SIZE), times that are not finite or of another
 * number than rows (EA_DETAIL_BAD_TIMES, EA_DETAIL_BAD_SHAPE), fewer than two rows, a row that is
 * not finite; NOT_FOUND for an unknown id; RESOURCE_EXHAUSTED (EA_DETAIL_TOO_MANY_ROWS): more rows
 * than the daemon's limits allow, with the time that they would take. */
EA_API ea_status ea_cluster(ea_client *c, const ea_cluster_question *question, ea_clusters *out);
EA_API ea_status ea_cluster_send(ea_client *c, const ea_cluster_question *question,
                                 const ea_send_options *how,
                                 uint64_t *request_id); /* answer->clusters */

#ifdef __cplusplus
}
#endif

#endif
