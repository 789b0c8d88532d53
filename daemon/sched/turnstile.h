/* turnstile: who may use the contents of residents. Readers keep the version at which they began:
 * they wait for nobody but the writers of their own connection that came before them, so that a
 * client which sends a write and a question finds what it wrote, and for a short write that is
 * being done in place. Writers wait for the writers before them, and who drops something for
 * everybody.
 *
 * A job that names several residents stands in all of their lines from its arrival on, and passes
 * when it may pass all of them: what it reads it sees as it was at that instant, all of it. A
 * write of its own connection that came after it waits for that, too. Every job waits only for jobs
 * that came before it, or that have begun, so no two wait for each other. What a job reads it pins
 * as soon as it can: nobody changes that in place any more, so the job's turn comes.
 * Owner:  the residents hold the lines (store/resident.h); the pipeline calls these.
 * Thread: the loop; nothing ever blocks.
 * Errors: none. */
#ifndef ENGRAM_SCHED_TURNSTILE_H
#define ENGRAM_SCHED_TURNSTILE_H

#include "daemon/base/job.h"
#include "daemon/store/resident.h"

/* j names at least one resident, and each at most once as a writer. True: j holds all of them, as
 * their ops->begin says. False: it waits. */
bool turnstile_enter(struct job *j);

/* j, which has nothing yet, holds what `from` reads first as that sees it, and nothing else; nobody
 * waits for it but who drops that. */
void turnstile_share(struct job *j, const struct job *from);
/* j, which holds what it reads, sees the first of it as `from` does. */
void turnstile_adopt(struct job *j, const struct job *from);

/* Ends j's hold, with ops->end of each resident. Returns the jobs that may enter now, oldest first
 * in each line, linked by next; they hold what they name. */
struct job *turnstile_leave(struct job *j);

/* Takes j, which waits, out of its lines. Returns the jobs that may enter now. */
struct job *turnstile_withdraw(struct job *j);

/* True if a job writes, or waits to. */
bool turnstile_has_writers(const struct turnstile *t);

/* True if no job holds it or waits. */
bool turnstile_idle(const struct turnstile *t);

#endif
