/* drops: what is dropped, and what goes with the connection that made it under a hidden name.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none but drops_begin's: no job is free. */
#ifndef ENGRAM_REQUEST_DROPS_H
#define ENGRAM_REQUEST_DROPS_H

#include "daemon/request/pipeline_inside.h"

/* r is not found by its name any more. */
void drops_unlink(struct pipeline *p, struct resident *r);

/* Drops r, as a request of that tenancy's would: whoever reads it or waits for it goes on, then its
 * memory is freed. False: nothing is done. */
bool drops_begin(struct pipeline *p, struct resident *r, struct tenancy *by);

/* r was just made by a request of c. A hidden one goes with c. */
void drops_note_made(struct connection *c, struct resident *r);
/* c closes: what it made and hid is dropped, at once or, where no job is free, by drops_go_on. */
void drops_leave(struct pipeline *p, struct connection *c);
void drops_go_on(struct pipeline *p);

/* j is one of drops_begin, of a daemon that stops: nobody runs it any more. */
bool drops_own(const struct job *j);
void drops_withdraw(struct pipeline *p, struct job *j);

#endif
