/* probe: a small request of the daemon's own, every second, whose answer is known: it shows whether
 * workers answer, and answer right.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: told to the readiness. */
#ifndef ENGRAM_REQUEST_PROBE_H
#define ENGRAM_REQUEST_PROBE_H

#include "daemon/report/readiness.h"

struct pipeline;

/* Called several times a second: notes that the loop turns, and asks, if it is time. `told`
 * outlives the pipeline. */
void pipeline_probe(struct pipeline *p, struct readiness *told);

/* Forgets its space; no probe is out. */
void probe_finish(struct pipeline *p);

#endif
