/* jobs: the pipeline's pool of jobs, their moves, and the table that finds them by key.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: job_take, job_take_own: NULL when all are in use, or there is no memory to find one more
 *         by its key; jobs_init: RESOURCE_EXHAUSTED. */
#ifndef ENGRAM_REQUEST_JOBS_H
#define ENGRAM_REQUEST_JOBS_H

#include <stddef.h>

#include "daemon/request/pipeline_inside.h"

enum status jobs_init(struct pipeline *p);
/* Every job must be back. */
void jobs_finish(struct pipeline *p);

/* Moves j to a state that may follow the one it is in; asserted. */
void job_move(struct job *j, enum job_state to);

/* A job for a frame of c, JOB_RECEIVED. It goes back to owner. */
struct job *job_take(struct pipeline *p, struct connection *c, const struct frame *f,
                     struct job_owner owner);
/* The requests of clients that have a job. Uploads, batches' carriers and trials are not among
 * them. */
static inline uint32_t jobs_of_clients(const struct pipeline *p)
{
    return HASH_COUNT(p->in_flight) - 1; /* jobs[0], which nobody has */
}
/* A job that is no client's: it has no connection and no key. */
struct job *job_take_own(struct pipeline *p, struct space *space, enum operation operation,
                         struct job_owner owner);

/* True if j still has a client and time; otherwise j->failure says which it lacks. now_ns: read by
 * the caller, who needs it for more than one job or decision. */
#define RESTARTING_TEXT "the daemon is restarting: connect again"
/* What cannot be done because this daemon ends. */
void job_fail_stopping(const struct pipeline *p, struct failure *f);
bool job_is_wanted(struct job *j, uint64_t now_ns);
/* True if j drops what it is about: such a job runs to its end even if nobody wants it. */
static inline bool job_drops(const struct job *j)
{
    return operation_drops(j->operation);
}

static inline struct job *job_of(struct ticket *t)
{
    return (struct job *)((char *)t - offsetof(struct job, ticket));
}
/* The ticket that stands for j while a backend has it. */
static inline struct ticket *job_ticket(struct job *j)
{
    return job_is_carrier(j) ? &j->members->ticket : &j->ticket;
}

/* The connection no longer counts j. */
void job_detach(struct pipeline *p, struct connection *c, struct job *j);
/* The end of j: its result and body are freed, and it returns to the pool. */
void job_give(struct pipeline *p, struct job *j);

#endif
