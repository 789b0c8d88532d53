/* find: what a request names.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: NULL, and f says why: NOT_FOUND, INVALID_ARGUMENT/BAD_NAME. */
#ifndef ENGRAM_REQUEST_FIND_H
#define ENGRAM_REQUEST_FIND_H

#include "daemon/request/pipeline_inside.h"

struct resident *find_resident(struct pipeline *p, const struct job *j, enum object_kind kind,
                               const char *name, struct failure *f);

#endif
