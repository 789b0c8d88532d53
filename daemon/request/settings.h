/* settings: what the configuration says to the scheduler and of quotas, at the start and whenever
 * it changes.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_SETTINGS_H
#define ENGRAM_REQUEST_SETTINGS_H

#include "daemon/request/pipeline_inside.h"

/* Tells the scheduler, which is initialised. */
void settings_apply(struct pipeline *p);

#endif
