/* pick: which backend runs a job, and why. A pure function of what is known; the scheduler's cost
 * model will fill it with predictions.
 * Owner:  nobody.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_SCHED_PICK_H
#define ENGRAM_SCHED_PICK_H

#include "daemon/base/job.h"

enum force { FORCE_NONE, FORCE_CPU, FORCE_GPU };

struct pick_input {
    enum force force;
    enum reason gave_up;  /* not NONE: this job came back from the GPU, and why */
    bool gpu_absent;      /* none configured, or none that works here */
    bool gpu_down;        /* there is one, but not now */
    bool gpu_full;        /* it has as many jobs as it takes */
    bool replica_ready;   /* or nearly, so that it is made so on the way */
    bool replica_refused; /* there was no VRAM for it */
    uint64_t pairs;       /* queries * rows; 0: the GPU cannot do it */
    uint64_t pairs_min;   /* gpu.min_pairs */
};

struct pick {
    enum backend_id backend;
    enum reason reason;
};

/* Forced to the GPU, a job waits there for its replica, however much there is to upload. */
struct pick pick_backend(const struct pick_input *in);

#endif
