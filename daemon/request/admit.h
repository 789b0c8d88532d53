/* admit: from a frame to a job in line: what net calls for frames (net_events), with the pipeline
 * as the owner.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: answered to the client. */
#ifndef ENGRAM_REQUEST_ADMIT_H
#define ENGRAM_REQUEST_ADMIT_H

#include "daemon/request/pipeline_inside.h"

void admit_on_frame(void *owner, struct connection *c, const struct frame *f);
void admit_on_bad_frame(void *owner, struct connection *c, const struct frame_header *h,
                        const struct failure *why);

#endif
