/* scheduler_inside: what the scheduler's files share.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_SCHEDULER_INSIDE_H
#define ENGRAM_SCHED_SCHEDULER_INSIDE_H

#include "daemon/sched/scheduler.h"

/* Starts first, which is in no queue, and its other members on its server: counts them as in
 * flight. */
void scheduler_start(struct scheduler *s, struct ticket *first, uint32_t members,
                     const struct work *whole, uint64_t now_ns);

#endif
