/* workers: the CPU backend: pinned threads that run the parts of jobs.
 * Jobs start in the order they were submitted; idle workers share the parts of the oldest job that
 * has any left, so one large job uses every core and small ones run side by side. A job that takes
 * long shares the workers' time evenly with those that come after it, a part at a time.
 * Owner:  the engine.
 * Thread: create and destroy the loop; see backend.h for the rest.
 * Errors: workers_create: RESOURCE_EXHAUSTED when a thread cannot be started. */
#ifndef ENGRAM_EXEC_WORKERS_H
#define ENGRAM_EXEC_WORKERS_H

#include "daemon/exec/backend.h"
#include "daemon/exec/done.h"

enum { WORKERS_MAX = 256 };

/* count >= 1; pin: worker i stays on the i-th processor this process may use. */
enum status workers_create(uint32_t count, bool pin, struct done *done, struct backend **out);

/* Runs j, which nobody has, here and now: it is done when this returns OK, and is not in done. For
 * what is sooner run than handed over. Otherwise as submit. */
enum status workers_run_now(struct job *j);

/* Runs step(j) on a worker, in line with the jobs that were submitted. Then, for as long as that
 * leaves any: the parts in j->parts, shared by all workers as those of jobs are, and the step in
 * j->step, alone. j then comes back through done as they do; nothing else of it is changed. */
static inline void workers_run(struct backend *b, struct job *j, void (*step)(struct job *j))
{
    b->ops->run(b, j, step);
}
/* The same here and now, as worker 0; j is not in done. */
void workers_run_here(struct job *j, void (*step)(struct job *j));

/* Processors this process may run on. */
uint32_t workers_usable_processors(void);

#endif
