/* line: the way into a tenant's flow for a server and out of it, with all counts that hang on it.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_LINE_H
#define ENGRAM_SCHED_LINE_H

#include "daemon/sched/scheduler.h"

/* t's server and charge_ns are set. */
void line_push(struct scheduler *s, struct ticket *t, uint64_t now_ns);
void line_push_front(struct scheduler *s, struct ticket *t, uint64_t now_ns);
/* From wherever in its line it is. */
void line_remove(struct scheduler *s, struct ticket *t);

static inline struct flow *line_of(const struct ticket *t)
{
    return &t->tenant->flows[t->server];
}

#endif
