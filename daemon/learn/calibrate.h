/* calibrate: measures the backends while nobody asks for anything, so that the scheduler's model
 * has this machine's figures before the first request: made-up collections and graphs in a space
 * that no client can name, and requests on them that are handled like everyone's. The CPU's
 * turn comes shortly after the start, the GPUs' when they are ready; neither if a saved model knows
 * them.
 * Owner:  the engine.
 * Thread: the loop; rows are made by workers.
 * Errors: calibrate_create: RESOURCE_EXHAUSTED. What cannot be measured is one line in the log, and
 *         left to what requests will show. */
#ifndef ENGRAM_LEARN_CALIBRATE_H
#define ENGRAM_LEARN_CALIBRATE_H

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/exec/backend.h"
#include "daemon/learn/model_keeper.h"
#include "daemon/store/space.h"

/* Where trials run: among the requests of clients (request/trials.h), whom they must not delay. */
struct trial_runner {
    void *owner;
    /* A job about something in that space; it comes back through back. NULL: all are in use. */
    struct job *(*take)(void *owner, struct space *space, struct job_owner back);
    /* The end of a job that was taken. */
    void (*give)(void *owner, struct job *j);
    /* Runs j at once on that backend, past the scheduler. False: it would not take it, and j is
     * still the caller's; j->failure or j->gpu.gave_up says why. */
    bool (*run)(void *owner, struct job *j, enum backend_id backend);
    /* Runs step(j) on a CPU worker. */
    void (*run_step)(void *owner, struct job *j, void (*step)(struct job *j));
    /* Requests that clients have sent so far. */
    uint64_t (*requests)(void *owner);
    /* Nothing but trials is in flight. */
    bool (*is_idle)(void *owner);
};

struct calibrate_options {
    const struct config *config; /* live */
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

/* Every 100 ms: begins what is to be measured, and goes on when clients have paused. */
void calibrate_check(struct calibrate *c, uint64_t now_ns);

/* No more; what runs is told to stop. NULL is fine. */
void calibrate_stop(struct calibrate *c);

#endif
