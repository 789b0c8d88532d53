/* answers_objects: what the loop answers about collections, graphs and attractors alike.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: in the job's failure; then 0 is returned and nothing written. */
#ifndef ENGRAM_REQUEST_ANSWERS_OBJECTS_H
#define ENGRAM_REQUEST_ANSWERS_OBJECTS_H

#include "daemon/request/pipeline_inside.h"

size_t answer_swap(struct pipeline *p, struct job *j, void *at);
size_t answer_changes(struct pipeline *p, struct job *j, void *at);

#endif
