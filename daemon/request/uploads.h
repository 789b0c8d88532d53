/* uploads: replicas made and brought up to date in the background: jobs of the pipeline's own, each
 * a piece, each a reader of its collection or graph that lets writers pass between pieces.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none: what cannot be uploaded now is wanted again by the next request that misses it. */
#ifndef ENGRAM_REQUEST_UPLOADS_H
#define ENGRAM_REQUEST_UPLOADS_H

#include "daemon/request/pipeline_inside.h"

/* Someone holds it and would like its replica: unless it is on its way already, too many are, or it is
 * about to go. */
void uploads_start(struct pipeline *p, struct resident *of);
/* It may pass its turnstile. */
void uploads_submit(struct pipeline *p, struct job *j);
/* It is going: no more pieces. */
void uploads_cancel(struct pipeline *p, const struct resident *of);

#endif
