/* scans: cursors, which keep a version of a collection or graph while a client reads it by
 * position, a page a request. A cursor is a job that reads what it keeps, for as long as pages are
 * asked for; after SCAN_IDLE_NS without, it ends, and with it the version. A drop by a request ends
 * it at once; after a swap it goes on.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: in the job's failure: ABORTED/CURSOR_ENDED; RESOURCE_EXHAUSTED/QUEUE_FULL: its connection
 *         has SCANS_OF_ONE, there are SCANS_MAX, or there is no job for one more. */
#ifndef ENGRAM_REQUEST_SCANS_H
#define ENGRAM_REQUEST_SCANS_H

#include "daemon/request/pipeline_inside.h"

/* j has a cursor: what that keeps. NULL: it has ended, or is of something else. */
struct resident *scans_find(struct pipeline *p, struct job *j, enum object_kind kind);
/* j has passed its turnstile: it sees what its cursor keeps. */
enum status scans_begin(struct pipeline *p, struct job *j);
/* j has read its page, and still holds what it read. */
void scans_end_page(struct pipeline *p, struct job *j);

/* c closes; r is dropped; the daemon stops: cursors end. */
void scans_leave(struct pipeline *p, const struct connection *c);
void scans_drop(struct pipeline *p, const struct resident *r);
void scans_finish(struct pipeline *p);
/* Ends those that nobody has asked of for long. */
void scans_expire(struct pipeline *p, uint64_t now_ns);
/* When that is to be called; UINT64_MAX: there is none. */
uint64_t scans_wake_ns(const struct pipeline *p);

#endif
