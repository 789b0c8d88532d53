/* scheduler_inside: what the scheduler's files share.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_SCHEDULER_INSIDE_H
#define ENGRAM_SCHED_SCHEDULER_INSIDE_H

#include "daemon/sched/scheduler.h"

/* first, in no line, and its other members start on its server: they count as in flight. */
void scheduler_start(struct scheduler *s, struct ticket *first, uint32_t members,
                     const struct work *whole, uint64_t now_ns);

#endif
