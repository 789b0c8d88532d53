/* loads: requests while what was saved is still being loaded (persist/loader.c). What is on its way
 * cannot be asked about, no list is complete, and a space that misses something takes no writes.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: in the job's failure: UNAVAILABLE, LOADING, with the share that is in and a hint. */
#ifndef ENGRAM_REQUEST_LOADS_H
#define ENGRAM_REQUEST_LOADS_H

#include "daemon/request/pipeline_inside.h"
#include "daemon/wire/report.h"

/* j was decoded: whether it has to come again. */
enum status loads_begin(const struct pipeline *p, struct job *j);
/* How far it is, and what was left out that the asking one may know of. */
void loads_report(const struct pipeline *p, const struct job *j, bool is_operator,
                  struct wire_info *out);

#endif
