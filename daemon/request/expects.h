/* expects: whether a request finds the state of the data that it expects (Expect in the schema).
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: in the job's failure: ABORTED, STATE_CHANGED or VERSION_CHANGED, with what is there;
 *         INVALID_ARGUMENT, UNKNOWN_VERSION, if there is nothing that could have a version. */
#ifndef ENGRAM_REQUEST_EXPECTS_H
#define ENGRAM_REQUEST_EXPECTS_H

#include "daemon/request/pipeline_inside.h"

/* Instance and generation are those that are expected. */
enum status expects_state(const struct pipeline *p, const struct state_name *expect,
                          struct failure *f);
/* j was decoded: looks at these, and at the version if the loop answers j itself. */
enum status expects_begin(struct pipeline *p, struct job *j);
/* j has passed its turnstile: looks at the version of what it names first, as j sees it. */
enum status expects_version(struct job *j);

#endif
