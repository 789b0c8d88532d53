/* finish: what follows when no backend has a job any more: its reply, or another try.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_FINISH_H
#define ENGRAM_REQUEST_FINISH_H

#include "daemon/request/pipeline_inside.h"

/* Where the jobs of clients go back to (job_owner.done; owner is the pipeline). */
void finish_on_done(void *owner, struct job *j);

/* A backend ran j to its end. */
void finish_job(struct pipeline *p, struct job *j);
/* j, which a backend had or refused, is to be run anew: by the CPU if a GPU let it down. */
void finish_again(struct pipeline *p, struct job *j);

/* Counts what a run did with rows in int8, for its collection; before its results are given. */
void finish_count_screen(const struct job *run);

#endif
