/* writes: whether a request that changes a collection or graph finds what it expects.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: in the job's failure: ABORTED/VERSION_CHANGED, INVALID_ARGUMENT/UNKNOWN_VERSION. */
#ifndef ENGRAM_REQUEST_WRITES_H
#define ENGRAM_REQUEST_WRITES_H

#include "daemon/request/pipeline_inside.h"

/* j writes, and is the next to do so; or it drops, and is about to take the name away. A drop that
 * expects one version is refused while others write or wait to: they will leave another. */
enum status writes_check(struct job *j);

#endif
