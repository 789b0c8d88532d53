/* compare: whether a large write that bears a known token repeats the first one. Only its contents
 * tell, and to read them would hold up the loop, so a worker takes their digest.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: as tokens.h; UNAVAILABLE/TOKEN_BUSY, too, if the first one is forgotten meanwhile. */
#ifndef ENGRAM_REQUEST_COMPARE_H
#define ENGRAM_REQUEST_COMPARE_H

#include "daemon/request/pipeline_inside.h"

/* j was received, or has passed its turnstile. True: a worker has it, and it will be answered.
 * False: there is nothing that would have to be read. */
bool compare_start(struct pipeline *p, struct job *j);

#endif
