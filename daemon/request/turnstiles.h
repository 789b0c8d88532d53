/* turnstiles: a job waits until it may read or write what it names, collections and graphs, and
 * lets those behind it pass when it is done.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_TURNSTILES_H
#define ENGRAM_REQUEST_TURNSTILES_H

#include "daemon/request/pipeline_inside.h"

/* j, JOB_RECEIVED, names a resident or several: it passes at once or waits for its turn. */
void turnstiles_enter(struct pipeline *p, struct job *j);
/* j may pass: it goes to the scheduler at the next turn of the loop. */
void turnstiles_pass(struct pipeline *p, struct job *j);
/* Takes j, JOB_WAITING, out of the lines for its residents. */
void turnstiles_withdraw(struct pipeline *p, struct job *j);
/* j is done with its residents, if it holds any: those behind it may pass. A resident that j drops
 * is freed. */
void turnstiles_leave(struct pipeline *p, struct job *j);
/* j, which reads one resident and has not begun, shall see it as it is now. False: a writer changes
 * it in place just now, and j keeps what it has. */
bool turnstiles_renew(struct job *j);

#endif
