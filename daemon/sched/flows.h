/* flows: adds tickets to a tenancy's queue for a server and removes them, and keeps all counts that
 * depend on that.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_FLOWS_H
#define ENGRAM_SCHED_FLOWS_H

#include "daemon/sched/scheduler_state.h"

/* Appends t, whose server and charge_ns are set. */
void flows_push(struct scheduler *s, struct ticket *t, uint64_t now_ns);
void flows_push_front(struct scheduler *s, struct ticket *t, uint64_t now_ns);
/* Removes t, wherever in its queue it is. */
void flows_remove(struct scheduler *s, struct ticket *t);

static inline struct flow *flows_of(const struct ticket *t)
{
    return &t->tenancy->flows[t->server];
}

#endif
