/* recall_job: recalls as jobs: a made-up graph, a collection some of whose ids are its nodes, and
 * questions to ask of both.
 * Owner:  the test; recall_job_open and recall_job_close pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_RECALL_JOB_H
#define ENGRAM_TESTS_RECALL_JOB_H

#include "tests/support/recall_expect.h"
#include "tests/support/spread_job.h"

enum { RECALL_JOB_CUES = 24 };

struct recall_scene {
    struct spread_scene spread;
    struct collection *collection;
    struct reference_rows rows; /* what the collection has */
    uint64_t *ids;
    float *data;
};

/* Rows of few different numbers, so that scores tie; most of their ids are nodes. */
struct recall_scene recall_job_open(uint32_t nodes, uint64_t edges, uint32_t dimension,
                                    uint64_t rows, uint64_t seed);
void recall_job_close(struct recall_scene *b);

/* A case with its arrays. */
struct recall_asked {
    struct recall_case c;
    struct spread_asked spread;
    uint64_t cue_ids[RECALL_JOB_CUES], cue_offsets[RECALL_JOB_CUES + 1];
    float *cues;
    bool by_id;
};

/* One cue, the defaults, mode engram. */
void recall_job_ask(struct recall_scene *b, struct recall_asked *a);
void recall_job_ask_randomly(struct recall_scene *b, struct recall_asked *a);
void recall_job_free(struct recall_asked *a);

/* A job is for one run. */
struct job recall_job_of(struct recall_scene *b, const struct recall_asked *a);
struct recall_reply recall_job_reply(const struct job *j);
/* Whether a list is answered with its ranked seeds alone, and marked. */
bool recall_only_seeds(const struct recall_reply *r, uint64_t list);

#endif
