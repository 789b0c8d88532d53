/* groups: several requests as one job (exec/batch.h: a carrier and its members), and one request as
 * several (exec/parts.h: a whole and its parts), taken from the pool and given back.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: NULL or false when there is no free job: the requests run by themselves then. */
#ifndef ENGRAM_REQUEST_GROUPS_H
#define ENGRAM_REQUEST_GROUPS_H

#include "daemon/exec/batch.h"
#include "daemon/request/pipeline_inside.h"

/* A carrier of first and those linked to it, JOB_QUEUED. */
struct job *groups_carrier(struct pipeline *p, struct ticket *first);
/* The carrier's oldest member leaves it, told what the run was that it was part of, first being the
 * ticket that stood for it. NULL: there is none left, and the carrier is gone. A carrier that a
 * backend had is emptied so by itself: its members are answered, or run anew. */
struct job *groups_next_member(struct pipeline *p, struct job *carrier, const struct ticket *first,
                               enum batch_end *end);

/* Two parts, JOB_QUEUED: parts[0] the first `queries` queries, parts[1] the rest. Each goes when a
 * backend ran it; with the last one the whole is finished as if it had run alone. */
bool groups_split(struct pipeline *p, struct job *whole, uint64_t queries, struct job *parts[2]);
/* The part's own backends are gone: it goes as if it had run, with its failure. */
void groups_end_part(struct pipeline *p, struct job *part);

/* Nobody wants j any more: parts of it stop, and so does its carrier when it has no other members. */
void groups_cancel(struct job *j);

#endif
