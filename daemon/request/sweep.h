/* sweep: frees what the last readers of old editions leave, on a worker: many pieces of memory, or
 * a large index, take longer than the loop has.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none; without a job for it, the loop frees. */
#ifndef ENGRAM_REQUEST_SWEEP_H
#define ENGRAM_REQUEST_SWEEP_H

#include "daemon/request/pipeline_inside.h"

void sweep_gone(struct pipeline *p, struct resident *r);
/* Destroys r, which was dropped; if a snapshot or a record reads it, as soon as the last of them
 * has ended with it, */
void sweep_resident(struct resident *r);
/* which it says. */
void sweep_unsave(struct resident *r);

#endif
