/* turnstile: who may use the contents of a resident. Readers of collections and graphs keep the
 * version at which they began: they wait for nobody but the writers of their own connection that
 * came before them, so that a client which sends a write and a question finds what it wrote, and
 * for a short write that is being done in place. Writers wait for the writers before them, and who
 * drops it for everybody. (Of what keeps no versions: many readers or one writer, in arrival
 * order.)
 * Owner:  the resident holds the struct (store/resident.h); the pipeline calls these.
 * Thread: the loop; nothing ever blocks.
 * Errors: none. */
#ifndef ENGRAM_SCHED_TURNSTILE_H
#define ENGRAM_SCHED_TURNSTILE_H

#include "daemon/base/job.h"
#include "daemon/store/resident.h"

/* True: j holds the turnstile, as j->writer says, and its resident's ops->begin was called. False:
 * it waits in the queue. */
bool turnstile_enter(struct turnstile *t, struct job *j);

/* Ends j's hold, and calls its resident's ops->end. Returns the jobs that may enter now, oldest
 * first, linked by next; they hold it. */
struct job *turnstile_leave(struct turnstile *t, struct job *j);

/* Removes j, which waits. Returns the jobs behind it that may enter now. */
struct job *turnstile_withdraw(struct turnstile *t, struct job *j);

/* True if a job writes, or waits to. */
bool turnstile_has_writers(const struct turnstile *t);

/* True if no job holds it or waits. */
bool turnstile_idle(const struct turnstile *t);

#endif
