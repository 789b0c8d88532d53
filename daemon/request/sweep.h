/* sweep: frees what the last readers of old editions leave, on a worker: many segments, or a large
 * index, take longer than the loop has.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none; without a job for it, the loop frees. */
#ifndef ENGRAM_REQUEST_SWEEP_H
#define ENGRAM_REQUEST_SWEEP_H

#include "daemon/request/pipeline_inside.h"
#include "daemon/store/collection.h"

/* Of a collection of that space. */
void sweep_gone(struct pipeline *p, struct space *space, struct gone gone);

#endif
