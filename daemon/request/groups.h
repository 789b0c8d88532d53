/* groups: several requests as one job (exec/batch.h: a carrier and its members), and one request as
 * several (exec/parts.h: a whole and its parts), taken from the pool and given back.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: NULL or false when there is no free job: the requests run by themselves then. */
#ifndef ENGRAM_REQUEST_GROUPS_H
#define ENGRAM_REQUEST_GROUPS_H

#include "daemon/exec/batch.h"
#include "daemon/request/pipeline.h"

static inline struct job *job_of(struct ticket *t)
{
    return (struct job *)((char *)t - offsetof(struct job, ticket));
}

/* A carrier of first and those linked to it, JOB_QUEUED. */
struct job *groups_carrier(struct pipeline *p, struct ticket *first);
/* The carrier's oldest member leaves it, told what the run was that it was part of, first being the
 * ticket that stood for it. NULL: there is none left, and the carrier is gone. */
struct job *groups_next_member(struct pipeline *p, struct job *carrier, const struct ticket *first,
                               enum batch_end *end);

/* Two parts, JOB_QUEUED: parts[0] the first `queries` queries, parts[1] the rest. */
bool groups_split(struct pipeline *p, struct job *whole, uint64_t queries, struct job *parts[2]);
/* A part is done, and goes. True: it was the last, and the whole is as if it had run alone. */
bool groups_part_done(struct pipeline *p, struct job *part);

/* Nobody wants j any more: parts of it stop, and so does its carrier when it has no other members. */
void groups_cancel(struct job *j);

#endif
