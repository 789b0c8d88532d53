/* schedule: what the scheduler is told of the world: settings, backends, and what is known of a job's
 * collection when its backend is picked.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_SCHEDULE_H
#define ENGRAM_REQUEST_SCHEDULE_H

#include "daemon/request/pipeline.h"

/* What each backend can take now. */
void schedule_look_at_servers(struct pipeline *p);

/* For j, whose ticket's work is set and whose collection is held. */
struct situation schedule_look(const struct pipeline *p, const struct job *j);

#endif
