/* line: the scheduler's queues: a job stands there until a backend is to take it, and the scheduler
 * is told how it went on that backend.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_LINE_H
#define ENGRAM_REQUEST_LINE_H

#include "daemon/request/pipeline_inside.h"

/* Counts j, which is on its way to the scheduler, for its tenant: it may wait long for its
 * collection, and many requests may come in one read. */
void line_expect(struct job *j);
/* Stops counting j as coming: it has reached the scheduler, or was answered. */
void line_expect_no_more(struct job *j);

/* Gives j, JOB_QUEUED, to the scheduler. If a replica would have helped, its upload begins. */
void line_enter(struct pipeline *p, struct job *j, uint64_t now_ns);
/* The scheduler has taken j out of its queues to be started. */
void line_leave(struct pipeline *p, struct job *j);
/* Takes j, which nobody wants any more, out of the scheduler's queues. */
void line_withdraw(struct pipeline *p, struct job *j);
/* Puts first and those linked to it, which left together, back where they were. put_off: memory
 * for them is on its way, and others are started meanwhile. */
void line_put_back(struct pipeline *p, struct ticket *first, bool put_off);

/* A backend has taken j, or has refused it (j->refused). line_end follows. */
void line_begin(struct pipeline *p, struct job *j);
/* The backend is through with j: the scheduler learns from the times and counts the server free. */
void line_end(struct pipeline *p, struct job *j);

#endif
