/* calibrate: measures the backends while no client asks for anything, so that the scheduler's
 * model knows this machine before the first request. It makes collections and graphs in a space
 * that no client can name, and runs requests on them that are handled like everyone's (trials).
 * The CPU is measured shortly after the start, the GPUs when they are ready; neither if a saved
 * model knows it.
 * Owner:  the engine.
 * Thread: the loop; workers make the rows.
 * Errors: calibrate_create: RESOURCE_EXHAUSTED. If something cannot be measured, the log has one
 *         line, and the model learns from requests. */
#ifndef ENGRAM_LEARN_CALIBRATE_H
#define ENGRAM_LEARN_CALIBRATE_H

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/exec/backend.h"
#include "daemon/learn/model_keeper.h"
#include "daemon/store/space.h"

/* How trials are run: among the requests of clients (request/trials.h), which they must not
 * delay. */
struct trial_runner {
    void *owner;
    /* Takes a job in that space, which comes back through `back`. NULL: all jobs are in use. */
    struct job *(*take)(void *owner, struct space *space, struct job_owner back);
    /* Gives a job back that was taken. */
    void (*give)(void *owner, struct job *j);
    /* Runs j at once on this backend, without the scheduler. False: the backend did not take it,
     * and j is still the caller's; j->failure or j->gpu.gave_up says why. */
    bool (*run)(void *owner, struct job *j, enum backend_id backend);
    /* Runs step(j) on a CPU worker. */
    void (*run_step)(void *owner, struct job *j, void (*step)(struct job *j));
    /* How many requests clients have sent so far. */
    uint64_t (*requests)(void *owner);
    /* True if nothing but trials is in flight. */
    bool (*is_idle)(void *owner);
};

struct calibrate_options {
    const struct config *config; /* its live keys may change */
    const struct clock *clock;   /* NULL: the real one */
    struct store *store;
    struct heap *heap;
    struct backend *gpu; /* NULL: none */
    struct cost_model *model;
    struct model_keeper *keeper;
    struct trial_runner runner;
};

struct calibrate;

enum status calibrate_create(const struct calibrate_options *options, struct calibrate **out);
/* Its jobs must be back. NULL is fine. */
void calibrate_destroy(struct calibrate *c);

/* Called every 100 ms: begins to measure what is missing, and continues when clients pause. */
void calibrate_check(struct calibrate *c, uint64_t now_ns);

/* Ends measuring and cancels the trial that runs. NULL is fine. */
void calibrate_stop(struct calibrate *c);

#endif
