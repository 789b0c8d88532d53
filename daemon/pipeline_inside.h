/* pipeline_inside: what pipeline.c (a request's story) and pipeline_life.c (beginning and end of it
 * all) share.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: as in pipeline.h. */
#ifndef ENGRAM_PIPELINE_INSIDE_H
#define ENGRAM_PIPELINE_INSIDE_H

#include "daemon/pipeline.h"

/* The last move: answers the client, if it is still there, and lets the job go. */
void pipeline_reply(struct pipeline *p, struct job *j);
/* It has left the scheduler's lines. */
void pipeline_out_of_line(struct pipeline *p, struct job *j);
/* A backend ran j to its end. */
void pipeline_complete(struct pipeline *p, struct job *j);

#endif
