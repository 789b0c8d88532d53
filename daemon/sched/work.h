/* work: the features of a job when several run as one, or one as several.
 * Owner:  whoever asks.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_SCHED_WORK_H
#define ENGRAM_SCHED_WORK_H

#include "daemon/base/ticket.h"

/* Adds `more` to w, as one job: k is the larger of both, filtered if either is. */
void work_merge(struct work *w, const struct work *more);

/* Returns the work of that many of w's queries. */
struct work work_part(const struct work *w, uint64_t queries);

#endif
