/* answers: the requests that the loop answers by itself: hello, ping, info, stats, explain, cancel,
 * and create, list and describe of collections and graphs.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: sent to the client. */
#ifndef ENGRAM_REQUEST_ANSWERS_H
#define ENGRAM_REQUEST_ANSWERS_H

#include "daemon/request/pipeline_inside.h"

/* The first frame of a connection: sets its space, or refuses and closes. */
void answer_hello(struct pipeline *p, struct connection *c, const struct frame *f);
/* c is closing: its space has one user less. */
void answer_goodbye(struct pipeline *p, struct connection *c);

void answer_ping(struct pipeline *p, struct connection *c, const struct frame *f);

/* Answers j, which is decoded. False: the loop cannot answer such a request by itself. */
bool answer_now(struct pipeline *p, struct connection *c, struct job *j);

#endif
