/* turnstiles: a job stands in line for the collection or graph that it reads or writes, and leaves it
 * to those behind.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_TURNSTILES_H
#define ENGRAM_REQUEST_TURNSTILES_H

#include "daemon/request/pipeline_inside.h"

/* j, JOB_RECEIVED, names a resident: it arrives when it may pass. */
void turnstiles_enter(struct pipeline *p, struct job *j);
/* j may pass: it comes to the scheduler at the next turn. */
void turnstiles_pass(struct pipeline *p, struct job *j);
/* j, which waits for its resident, waits no longer. */
void turnstiles_withdraw(struct pipeline *p, struct job *j);
/* j is through with its resident, if it has one: those behind it may pass. What it dropped is freed. */
void turnstiles_leave(struct pipeline *p, struct job *j);

#endif
