/* workers: the CPU backend: pinned threads that run the parts of jobs. Jobs start in the order in
 * which they were submitted; idle workers share the parts of the oldest job that has unclaimed
 * ones, so that one large job uses every core and small ones run side by side. A job that takes
 * long shares the workers' time evenly with those that come after it, a part at a time.
 * Owner:  the engine.
 * Thread: the loop creates and destroys; see backend.h for the rest.
 * Errors: workers_create: RESOURCE_EXHAUSTED when a thread cannot be started. */
#ifndef ENGRAM_EXEC_WORKERS_H
#define ENGRAM_EXEC_WORKERS_H

#include "daemon/exec/backend.h"
#include "daemon/exec/done.h"

enum { WORKERS_MAX = 256 };

/* count >= 1; pin: worker i stays on the i-th processor that this process may use. */
enum status workers_create(uint32_t count, bool pin, struct done *done, struct backend **out);

/* Runs j, which no other thread has, on the calling thread: when this returns OK, j is done,
 * without passing through done. For jobs that run faster than they are handed over. Errors as
 * submit. */
enum status workers_run_now(struct job *j);

/* Runs step(j) on a worker, in line with the submitted jobs. As long as a step leaves parts in
 * j->parts, all workers share these, and then j->step runs alone. j then comes back through done
 * like a submitted job; nothing else of it is changed. */
static inline void workers_run(struct backend *b, struct job *j, void (*step)(struct job *j))
{
    b->ops->run(b, j, step);
}
/* As workers_run, but on the calling thread, as worker 0; j does not pass through done. */
void workers_run_here(struct job *j, void (*step)(struct job *j));

/* Whether a worker has work, and a number that changes with each part, step and yield_check: one
 * that has work and whose number stays is stuck. Any thread may ask. */
struct worker_pulse {
    bool busy;
    uint32_t beats;
};
struct worker_pulse workers_pulse(struct backend *b, uint32_t worker);
/* The same of all together: whether work waits that a worker could take, and a number that stays
 * while none does anything, though each be asleep. Any thread may ask. */
struct worker_pulse workers_line_pulse(struct backend *b);

/* Returns how many processors this process may use. */
uint32_t workers_usable_processors(void);

#endif
