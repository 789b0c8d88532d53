/* pipeline_inside: what the pipeline's files share: pipeline.c (a request's story), pipeline_start.c
 * (from the scheduler's word to a backend) and pipeline_life.c (beginning and end of it all).
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: as in pipeline.h. */
#ifndef ENGRAM_REQUEST_PIPELINE_INSIDE_H
#define ENGRAM_REQUEST_PIPELINE_INSIDE_H

#include "daemon/request/pipeline.h"

/* The last move: answers the client, if it is still there, and lets the job go. */
void pipeline_reply(struct pipeline *p, struct job *j);
/* Whether j still has a reader and time; if not, j->failure says so. */
bool pipeline_wanted(struct pipeline *p, struct job *j);

/* j may pass: it comes to the scheduler at the next turn. */
void pipeline_arrive(struct pipeline *p, struct job *j);
/* The scheduler has it, */
void pipeline_line_up(struct pipeline *p, struct job *j);
/* and has it no more. */
void pipeline_out_of_line(struct pipeline *p, struct job *j);

/* What the scheduler says is to start. False: there is no memory for it now. */
bool pipeline_start(struct pipeline *p, const struct dispatch *d);
/* j is out of its backend's hands; refused: it never was in them. */
void pipeline_back(struct pipeline *p, struct job *j, bool refused);
/* A backend ran j to its end. */
void pipeline_complete(struct pipeline *p, struct job *j);

/* What j is about goes: then j goes on to its end, whoever still wants it. */
static inline bool job_drops(const struct job *j)
{
    return operation_row(j->operation)->access == ACCESS_DROP;
}

/* The ticket that stands for j while a backend has it. */
static inline struct ticket *pipeline_ticket(struct job *j)
{
    return j->operation == OPERATION_KNN_BATCH ? &j->members->ticket : &j->ticket;
}

#endif
