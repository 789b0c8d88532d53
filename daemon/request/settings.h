/* settings: from the configuration to the scheduler and the quotas, at the start and when it changes.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_SETTINGS_H
#define ENGRAM_REQUEST_SETTINGS_H

#include "daemon/request/pipeline_inside.h"

/* To the scheduler, which is initialised. */
void settings_apply(struct pipeline *p);

#endif
