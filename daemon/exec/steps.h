/* steps: how one job runs to its end: steps that run alone, and between them parts that threads
 * share. workers.h says which threads run them.
 * Owner:  the backend that has the job.
 * Thread: any, one at a time for a job, except steps_try_part.
 * Errors: none: a job's failure is in the job. */
#ifndef ENGRAM_EXEC_STEPS_H
#define ENGRAM_EXEC_STEPS_H

#include "daemon/base/job.h"

/* The first step of a job with a plan: runs prepare, then the parts, then finish. */
void steps_begin_plan(struct job *j);

/* The step that follows a plan's finish which has made another plan (j->plan.before keeps the first
 * one's scratch): runs that. */
void steps_begin_next_plan(struct job *j);

/* Runs j's steps until one leaves parts in j->parts. False: none did, and j is done. */
bool steps_run(struct job *j);

/* Runs one part, unless j has failed or was cancelled; counts its time in j->worked_ns. */
void steps_try_part(struct job *j, uint32_t part, uint32_t worker);

#endif
