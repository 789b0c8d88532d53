/* saved_tokens: writes that are remembered by tokens, into a snapshot and out of one.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: RESOURCE_EXHAUSTED; what a snapshot has was checked before (persist/token_file.h). */
#ifndef ENGRAM_REQUEST_SAVED_TOKENS_H
#define ENGRAM_REQUEST_SAVED_TOKENS_H

#include "daemon/request/pipeline_inside.h"

/* The next save has those that there are now. */
enum status saved_tokens_keep(struct pipeline *p);
/* Remembers those that were loaded; for as long again as if they had been done now. */
void saved_tokens_take(struct pipeline *p);

#endif
