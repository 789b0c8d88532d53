/* trials: calibration's jobs among the requests of clients: from the same pool, on the same backends,
 * but in no line.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: as struct trial_runner says. */
#ifndef ENGRAM_REQUEST_TRIALS_H
#define ENGRAM_REQUEST_TRIALS_H

#include "daemon/learn/calibrate.h"
#include "daemon/request/pipeline.h"

/* For as long as the pipeline is there. */
struct trial_runner trials_runner(struct pipeline *p);

#endif
