/* principals: peers as the scheduler knows them, and the tenancies of their connections.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: principals_enter: RESOURCE_EXHAUSTED; nothing changes then. */
#ifndef ENGRAM_REQUEST_PRINCIPALS_H
#define ENGRAM_REQUEST_PRINCIPALS_H

#include "daemon/request/pipeline_inside.h"

/* Gives c, whose peer is known, its tenancy in a space that has its tenant. */
enum status principals_enter(struct pipeline *p, struct connection *c, struct space *space,
                             struct failure *f);
void principals_leave(struct pipeline *p, struct connection *c);

/* Counts a client's job in its connection's tenancy, and no longer. */
void principals_count_job(struct job *j, struct tenancy *l);
void principals_discount_job(struct pipeline *p, struct job *j);

/* True: nothing is known of this peer any more. Debts keep a principal and its tenancies for as
 * long as they count; a connection that comes back does not begin anew. */
bool principals_forget(struct pipeline *p, struct peer *peer);
/* Destroys the tenancies of a tenant that goes. */
void principals_forget_tenant(struct tenant *t);
/* Sets their limits anew. */
void principals_refresh(struct pipeline *p);
/* Destroys all of them. */
void principals_finish(struct pipeline *p);

#endif
