/* turnstile: who may use the contents of a resident: many readers or one writer, in arrival order.
 * Owner:  the resident holds the struct (store/resident.h); the pipeline calls these.
 * Thread: the loop; nothing ever blocks.
 * Errors: none. */
#ifndef ENGRAM_SCHED_TURNSTILE_H
#define ENGRAM_SCHED_TURNSTILE_H

#include "daemon/base/job.h"
#include "daemon/store/collection.h"

/* True: j holds the turnstile, as j->writer says. False: it waits in the queue. */
bool turnstile_enter(struct turnstile *t, struct job *j);

/* Ends j's hold. Returns the jobs that may enter now, oldest first, linked by next; they hold
 * it. */
struct job *turnstile_leave(struct turnstile *t, struct job *j);

/* Removes j, which waits. Returns the jobs behind it that may enter now. */
struct job *turnstile_withdraw(struct turnstile *t, struct job *j);

/* True if a job writes, or waits to. */
bool turnstile_has_writers(const struct turnstile *t);

/* True if no job holds it or waits. */
bool turnstile_idle(const struct turnstile *t);

#endif
