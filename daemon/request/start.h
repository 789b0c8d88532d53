/* start: from the scheduler's word to a backend: alone, as one of several, or in two parts.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: a job that no backend takes goes back to its owner. */
#ifndef ENGRAM_REQUEST_START_H
#define ENGRAM_REQUEST_START_H

#include "daemon/request/pipeline_inside.h"

/* Starts what the scheduler chose at now_ns. False: there is no memory for it until others
 * finish. */
bool start_dispatch(struct pipeline *p, const struct dispatch *d, uint64_t now_ns);

#endif
