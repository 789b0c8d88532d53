/* answers_attractor: create, list and describe of attractors.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: 0 bytes, and the job's failure says why. */
#ifndef ENGRAM_REQUEST_ANSWERS_ATTRACTOR_H
#define ENGRAM_REQUEST_ANSWERS_ATTRACTOR_H

#include "daemon/request/pipeline_inside.h"

/* Each writes its reply to at (ENCODE_BYTES_MAX) and returns the bytes. */
size_t answer_attractor_create(struct pipeline *p, struct job *j, void *at);
size_t answer_attractor_list(struct pipeline *p, const struct job *j, void *at);
size_t answer_attractor_describe(struct pipeline *p, struct job *j, void *at);

#endif
