/* line: a job stands in the scheduler's lines until a backend is to take it, and the scheduler is told
 * how it went there.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_LINE_H
#define ENGRAM_REQUEST_LINE_H

#include "daemon/request/pipeline_inside.h"

/* j is on its way to the line, and counts as such for its tenant: for its collection it may wait
 * long, and many may come in one read. */
void line_expect(struct job *j);
/* It has reached the line, or never will. */
void line_expect_no_more(struct job *j);

/* j, JOB_QUEUED, stands in line for a backend; a replica that would have helped it is begun. */
void line_enter(struct pipeline *p, struct job *j);
/* The scheduler has given j away, */
void line_leave(struct pipeline *p, struct job *j);
/* or gives it up, as nobody wants it any more. */
void line_withdraw(struct pipeline *p, struct job *j);
/* first and those linked to it, which left together, are where they were. */
void line_put_back(struct pipeline *p, struct ticket *first);

/* A backend is to have j (or was asked, and refused it), until line_end. */
void line_begin(struct pipeline *p, struct job *j);
/* It has it no more; the scheduler learns from the times. */
void line_end(struct pipeline *p, struct job *j);

#endif
