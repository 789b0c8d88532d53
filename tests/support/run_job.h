/* run_job: runs one job as CPU workers would, with parts in random order on several threads.
 * Owner:  tests.
 * Thread: one at a time; starts its own.
 * Errors: what the operation says. */
#ifndef ENGRAM_TESTS_RUN_JOB_H
#define ENGRAM_TESTS_RUN_JOB_H

#include "daemon/base/job.h"

/* Plans and runs j with j->worker_count threads. Scratch is given back; the result is the
 * caller's. Returns j->failure.code. */
enum status run_job(struct job *j, unsigned seed);

/* Gives the result back and clears everything that a run sets. */
void run_job_reset(struct job *j);

#endif
