/* trials: calibration's jobs among the requests of clients: from the same pool and on the same
 * backends, but past the scheduler.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: as struct trial_runner says. */
#ifndef ENGRAM_REQUEST_TRIALS_H
#define ENGRAM_REQUEST_TRIALS_H

#include "daemon/learn/calibrate.h"
#include "daemon/request/pipeline.h"

/* Valid for as long as the pipeline exists. */
struct trial_runner trials_runner(struct pipeline *p);

#endif
