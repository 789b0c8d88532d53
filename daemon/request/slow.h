/* slow: requests that took long: kept for `engram-accel slowlog`, and logged.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_SLOW_H
#define ENGRAM_REQUEST_SLOW_H

#include "daemon/request/pipeline_inside.h"

/* Notes j, which is answered now, if it took long (observe.slow_ms). */
void slow_note(struct pipeline *p, const struct job *j, uint64_t now_ns);

#endif
