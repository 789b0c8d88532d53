/* groups: several requests as one job (exec/batch.h: a carrier and its members), and one request as
 * several (exec/parts.h: a whole and its parts), taken from the pool and given back.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: NULL or false when no job is free: the requests then run by themselves. */
#ifndef ENGRAM_REQUEST_GROUPS_H
#define ENGRAM_REQUEST_GROUPS_H

#include "daemon/exec/batch.h"
#include "daemon/request/pipeline_inside.h"

/* Makes a carrier, JOB_QUEUED, of first and those linked to it. */
struct job *groups_carrier(struct pipeline *p, struct ticket *first);
/* Takes the oldest member out of the carrier and notes in it what run it was part of; first is the
 * ticket that stood for the carrier. NULL: no member was left, and the carrier is freed. For a
 * carrier that a backend had, its owner does this: members are answered, or run again. */
struct job *groups_next_member(struct pipeline *p, struct job *carrier, const struct ticket *first,
                               enum batch_end *end);

/* Makes two parts, JOB_QUEUED: parts[0] has the first `queries` queries, parts[1] the rest. A part
 * is freed when a backend has run it; the whole is finished with the last one, as if it had run
 * alone. False: no job is free. */
bool groups_split(struct pipeline *p, struct job *whole, uint64_t queries, struct job *parts[2]);
/* Frees a part whose backends are gone, as if it had run and failed so. */
void groups_end_part(struct pipeline *p, struct job *part);

/* Nobody wants j any more: its parts stop, and so does its carrier if nobody wants the other
 * members either. */
void groups_cancel(struct job *j);

#endif
