/* progress: tells clients that ask for it how far their long requests are: five times a second,
 * and only where the client has read everything so far.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none; without memory for it the connection closes. */
#ifndef ENGRAM_REQUEST_PROGRESS_H
#define ENGRAM_REQUEST_PROGRESS_H

#include "daemon/request/pipeline_inside.h"

/* Tells those whose time has come. */
void progress_tell(struct pipeline *p, uint64_t now_ns);
/* Returns when that is to be called again; UINT64_MAX: when a request comes. */
uint64_t progress_wake_ns(const struct pipeline *p);

#endif
