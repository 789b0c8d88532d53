/* cluster_reference: both rules of clustering as their definition says them, one merge after the
 * other over all pairs, with nothing kept that could be found again.
 * Owner:  tests; an instance and its answer belong to the caller.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_TESTS_CLUSTER_REFERENCE_H
#define ENGRAM_TESTS_CLUSTER_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct cluster_instance {
    uint32_t rows, dimension;
    const float *data;  /* rows x dimension */
    const float *times; /* hours; NULL: none */
    bool average;
    float threshold, threshold_second, score_min;
    uint32_t size_min, clusters_max;
};

struct cluster_answer {
    uint32_t count, merges;
    uint32_t first_merges; /* of the first pass */
    uint32_t (*pairs)[2];  /* by merge: the smaller id, the other */
    uint32_t *labels;      /* by row */
    uint32_t *sizes;       /* by cluster */
    float *scores;
    float *centroids; /* x dimension */
};

struct cluster_answer cluster_reference(const struct cluster_instance *c);
void cluster_answer_free(struct cluster_answer *a);

/* Kinds of instances, of numbers that depend on the seed alone. */
enum cluster_shape {
    CLUSTER_PLANTED,
    CLUSTER_GAUSSIAN,
    CLUSTER_DUPLICATES,
    CLUSTER_EQUAL,
    CLUSTER_CHAIN,
    CLUSTER_STAR,
    CLUSTER_TIES, /* few different numbers, so that many pairs have one cosine */
    CLUSTER_SHAPES
};
/* planted: members of a planted cluster. Returns rows x dimension floats of malloc. */
float *cluster_make(enum cluster_shape shape, uint32_t rows, uint32_t dimension, uint32_t planted,
                    unsigned seed);

#endif
