/* tables: what an attractor begins with: its first weights, and the dentate matrix of its dimension
 * where the space has none yet. A job makes them (ops/tables.c), in line like a request of whoever
 * created the attractor and charged to it, and meanwhile the attractor is closed: that job is its
 * first writer, for whom all others wait. Its time is no request's, so nothing is learnt from it.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: tables_make: false, and nothing has changed. */
#ifndef ENGRAM_REQUEST_TABLES_H
#define ENGRAM_REQUEST_TABLES_H

#include "daemon/request/pipeline_inside.h"

struct attractor;

/* Begins with an attractor that was just created. False: all jobs are in use. */
bool tables_make(struct pipeline *p, struct tenancy *by, struct attractor *a);

/* Its name is gone: what is being made for it is not needed, unless requests wait for it. Others
 * that wait for the same dentate matrix make it then. */
void tables_cancel(struct pipeline *p, struct resident *of);
/* Ends a job of these that was in line, and will not run: the daemon stops. */
void tables_withdraw(struct pipeline *p, struct job *j);

#endif
