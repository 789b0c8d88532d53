/* reply: a job's last move: its result or its failure goes to the client, if it is still there.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_REPLY_H
#define ENGRAM_REQUEST_REPLY_H

#include "daemon/request/pipeline_inside.h"

/* An Error frame, counted. */
void reply_error(struct pipeline *p, struct connection *c, uint8_t kind, uint64_t request_id,
                 const struct failure *f);

/* Counts j, which is answered now and which `backend` ran, for operators. */
void reply_observe(struct pipeline *p, const struct job *j, enum backend_id backend,
                   uint64_t now_ns);

/* j waits nowhere any more. May close its connection, when there is no memory for the answer. */
void reply_send(struct pipeline *p, struct job *j);

#endif
