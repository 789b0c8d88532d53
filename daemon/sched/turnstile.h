/* turnstile: who may touch what a resident holds: many readers or one writer, in arrival order.
 * Owner:  the resident holds the struct (store/resident.h); the pipeline runs it.
 * Thread: the loop; nothing ever blocks.
 * Errors: none. */
#ifndef ENGRAM_SCHED_TURNSTILE_H
#define ENGRAM_SCHED_TURNSTILE_H

#include "daemon/base/job.h"
#include "daemon/store/collection.h"

/* True: j holds the turnstile (j->writer says how). False: it waits in line. */
bool turnstile_enter(struct turnstile *t, struct job *j);

/* j, which holds it, leaves. The jobs that may pass now are returned, oldest first, linked by
 * next; they hold it. */
struct job *turnstile_leave(struct turnstile *t, struct job *j);

/* j, which waits, waits no longer. Returned are those that stood behind it and may pass now. */
struct job *turnstile_withdraw(struct turnstile *t, struct job *j);

/* Nobody holds it and nobody waits. */
bool turnstile_idle(const struct turnstile *t);

#endif
