/* cancel: nobody wants a job any more: its client cancelled it or vanished, or its time is up.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_CANCEL_H
#define ENGRAM_REQUEST_CANCEL_H

#include "daemon/request/pipeline_inside.h"

/* Answers j if it has not started, else stops it at the next look. May close its connection, when
 * there is no memory for the answer. */
void cancel_job(struct pipeline *p, struct job *j);

#endif
