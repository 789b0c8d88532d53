/* answers_graph: create, list and describe of graphs.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: 0 bytes, and the job's failure says why. */
#ifndef ENGRAM_REQUEST_ANSWERS_GRAPH_H
#define ENGRAM_REQUEST_ANSWERS_GRAPH_H

#include "daemon/request/pipeline_inside.h"

/* Each writes its reply to at (ENCODE_BYTES_MAX) and returns the bytes. */
size_t answer_graph_create(struct pipeline *p, struct job *j, void *at);
size_t answer_graph_list(struct pipeline *p, const struct job *j, void *at);
size_t answer_graph_describe(struct pipeline *p, struct job *j, void *at);

#endif
