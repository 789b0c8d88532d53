/* calibrate: measures the backends while nobody asks for anything, so that the scheduler's model
 * has this machine's figures before the first request: made-up collections and graphs in a space
 * that no client can name, and requests on them that take the same road as everyone's. The CPU's
 * turn comes shortly after the start, the GPUs' when they are ready; neither if a saved model knows
 * them.
 * Owner:  the engine; the pipeline tells it of its jobs.
 * Thread: the loop; rows are made by workers.
 * Errors: calibrate_create: RESOURCE_EXHAUSTED. What cannot be measured is one line in the log, and
 *         left to what requests will show. */
#ifndef ENGRAM_LEARN_CALIBRATE_H
#define ENGRAM_LEARN_CALIBRATE_H

#include "daemon/learn/model_keeper.h"
#include "daemon/request/pipeline.h"

struct calibrate;

enum status calibrate_create(struct pipeline *p, struct cost_model *model,
                             struct model_keeper *keeper, struct calibrate **out);
/* Its jobs must be back. NULL is fine. */
void calibrate_destroy(struct calibrate *c);

/* Every 100 ms: begins what is to be measured, and goes on when clients have paused. */
void calibrate_check(struct calibrate *c, uint64_t now_ns);

/* A job that it gave to pipeline_trial, or to a worker, is back: instead of a reply. */
void calibrate_done(struct calibrate *c, struct job *j);

/* No more; what runs is told to stop. */
void calibrate_stop(struct calibrate *c);

/* Of the pipeline's jobs, how many are its own. */
uint32_t calibrate_jobs(const struct calibrate *c);

#endif
