/* gpu_recall: a collection beside a graph's twin, and recalls of both whose every bit is compared
 * with the slow reference.
 * Owner:  the test; gpu_recall_make and gpu_recall_drop pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_GPU_RECALL_H
#define ENGRAM_TESTS_GPU_RECALL_H

#include "tests/support/graph_twin.h"
#include "tests/support/recall_expect.h"

enum { GPU_RECALL_CUES = 16 };

/* Rows of few different numbers, so that scores tie; most of their ids are nodes. */
struct gpu_recall {
    struct twin twin;
    struct reference_rows rows; /* of the collection "rows" */
    uint64_t *ids;
    float *data;
    struct collection *here; /* the same rows, for the reference's embeddings */
    ea_backend backend;      /* of the last answer */
    uint32_t reason;
};

/* A question with what it points to. */
struct gpu_recall_question {
    ea_recall_question question;
    struct twin_question spread;
    uint64_t cue_ids[GPU_RECALL_CUES], offsets[GPU_RECALL_CUES + 1];
    float *cues, threshold, width, least, boost;
};

void gpu_recall_make(struct gpu_recall *s, ea_client *c, uint32_t nodes, uint64_t edges,
                     uint64_t rows, uint32_t dimension, uint64_t seed);
void gpu_recall_drop(struct gpu_recall *s, ea_client *c);
/* Writes some rows anew. */
void gpu_recall_write(struct gpu_recall *s, ea_client *c, uint64_t first, uint64_t count);

void gpu_recall_ask(struct gpu_recall *s, struct gpu_recall_question *q);
void gpu_recall_free(struct gpu_recall_question *q);
/* Asks and compares. */
void gpu_recall_expect(struct gpu_recall *s, ea_client *c, const struct gpu_recall_question *q);
/* Asks until the GPU answers; every answer is right. */
void gpu_recall_expect_gpu(struct gpu_recall *s, ea_client *c, const struct gpu_recall_question *q);
void gpu_recall_compare(const struct gpu_recall *s, const struct gpu_recall_question *q,
                        const ea_recall_result *r);

#endif
