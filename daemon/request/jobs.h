/* jobs: the pipeline's pool of jobs, their moves, and the table that finds them by key.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: job_take, job_take_own: NULL when all are in use, or there is no memory to find one more
 *         by its key; jobs_init: RESOURCE_EXHAUSTED. */
#ifndef ENGRAM_REQUEST_JOBS_H
#define ENGRAM_REQUEST_JOBS_H

#include "daemon/request/pipeline.h"

enum status jobs_init(struct pipeline *p);
/* Every job must be back. */
void jobs_finish(struct pipeline *p);

/* To a state that may follow the one it is in; asserted. */
void job_move(struct job *j, enum job_state to);

/* For a frame of c, JOB_RECEIVED. */
struct job *job_take(struct pipeline *p, struct connection *c, const struct frame *f);
/* The pipeline's own: no connection, no key. */
struct job *job_take_own(struct pipeline *p, struct space *space, enum operation operation);

/* Its connection no longer counts j. */
void job_detach(struct pipeline *p, struct connection *c, struct job *j);
/* The end of j, whose block and body go back. */
void job_give(struct pipeline *p, struct job *j);

#endif
