/* steps: how one job runs to its end, whoever runs it: steps alone, and between them parts that are
 * shared. workers.h says who runs them.
 * Owner:  the backend that has the job.
 * Thread: any, one at a time for a job, but for steps_try_part.
 * Errors: none: a job's failure is in the job. */
#ifndef ENGRAM_EXEC_STEPS_H
#define ENGRAM_EXEC_STEPS_H

#include "daemon/base/job.h"

/* The first step of a job that was planned: prepare; then its parts, and finish. */
void steps_begin_plan(struct job *j);

/* Runs the steps of j until one leaves parts in j->parts. False: none did, and j is done. */
bool steps_run(struct job *j);

/* Runs that part, unless j has failed or was cancelled; counts the time in j->worked_ns. */
void steps_try_part(struct job *j, uint32_t part, uint32_t worker);

#endif
