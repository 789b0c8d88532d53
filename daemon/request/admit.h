/* admit: whether a frame becomes a job, and what the job needs before it may run.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: answered to the client (frames), or in the job's failure. */
#ifndef ENGRAM_REQUEST_ADMIT_H
#define ENGRAM_REQUEST_ADMIT_H

#include "daemon/request/pipeline_inside.h"

/* True: the frame needs no job, and is answered: a hello, a ping, or one that is refused. */
bool admit_no_job(struct pipeline *p, struct connection *c, const struct frame *f);
/* Answers a frame for which no job is free. */
void admit_refuse_full(struct pipeline *p, struct connection *c, const struct frame *f);

/* Looks up what j names, collections and graphs; j then waits at their turnstiles. NOT_FOUND. */
enum status admit_job(struct pipeline *p, struct connection *c, struct job *j);

#endif
