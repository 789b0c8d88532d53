/* situation: what is known of the backends, and of a job's replica, when a backend is chosen for
 * the job.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_SITUATION_H
#define ENGRAM_REQUEST_SITUATION_H

#include "daemon/request/pipeline_inside.h"

/* Tells the scheduler what each backend can take now. */
void situation_look_at_servers(struct pipeline *p);

/* What is known for j, whose ticket's work is set and which holds its resident. */
struct situation situation_of(const struct pipeline *p, const struct job *j);

#endif
