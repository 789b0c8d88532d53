/* watch: when the device thread sleeps and when it watches: between requests, and while the device
 * works. When a run should end is predicted by the front, and corrected here (proto/foresight.h).
 * Owner:  the server.
 * Thread: the device thread only.
 * Errors: none. */
#ifndef ENGRAM_GPU_WATCH_H
#define ENGRAM_GPU_WATCH_H

#include "daemon/gpu/tasks.h"

/* Called when t's kernels have been enqueued, and when they are seen to have ended. */
void watch_launched(struct gpu *g, struct task *t);
void watch_ended(struct gpu *g, struct task *t);

/* True if nothing has moved for seconds: signs of life, and questions to the driver, may be
 * rarer. */
bool watch_rests(const struct gpu *g);

/* Called after a turn in which something moved. */
void watch_moved(struct gpu *g);
/* Called after one in which nothing did: returns at once to watch, or after some sleep. busy: some
 * order is not done. */
void watch_wait(struct gpu *g, bool busy);

#endif
