/* backend: a table of functions that run jobs: one for the CPU's workers, one for the GPU
 * processes. A job's work (ops/operation.h) says what each can run, and sched/cost.h how long it
 * takes.
 * Owner:  the pipeline.
 * Thread: the loop calls; done jobs come back through exec/done.h from any thread.
 * Errors: submit says why it did not take the job, which is still the caller's then. */
#ifndef ENGRAM_EXEC_BACKEND_H
#define ENGRAM_EXEC_BACKEND_H

#include "daemon/base/job.h"

struct backend;

struct backend_ops {
    const char *name;
    /* OK: the backend borrows j and reports it done exactly once, later, never from inside this
     * call. Otherwise j is still the caller's and j->failure (gpu: cards_gave_up) says why. */
    enum status (*submit)(struct backend *b, struct job *j);
    /* The CPU's only: runs steps and parts of a job that is not submitted (workers_run). */
    void (*run)(struct backend *b, struct job *j, void (*step)(struct job *j));
    void (*destroy)(struct backend *b); /* drains first */
};

struct backend {
    const struct backend_ops *ops;
};

#endif
