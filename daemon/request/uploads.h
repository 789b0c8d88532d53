/* uploads: replicas are made and brought up to date in the background, by jobs of the pipeline's
 * own. Each job uploads a piece and reads its collection or graph, so that writers pass between
 * pieces.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none: what cannot be uploaded now is wanted again by the next request that misses it. */
#ifndef ENGRAM_REQUEST_UPLOADS_H
#define ENGRAM_REQUEST_UPLOADS_H

#include "daemon/request/pipeline_inside.h"

/* A job that holds the resident would run faster with a replica. Nothing happens if the replica is
 * on its way already, if UPLOADS_MAX others are, or if the resident is about to be dropped. */
void uploads_start(struct pipeline *p, struct resident *of);
/* j, an upload, has passed its turnstile: a card gets it. */
void uploads_submit(struct pipeline *p, struct job *j);
/* The resident is about to be dropped: no more pieces of it. */
void uploads_cancel(struct pipeline *p, const struct resident *of);

#endif
