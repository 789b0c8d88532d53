/* pick: which backend runs a job, and why. A pure function of what is known.
 * Owner:  nobody.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_SCHED_CHOOSE_BACKEND_H
#define ENGRAM_SCHED_CHOOSE_BACKEND_H

#include "daemon/base/job.h"
#include "daemon/sched/cost.h"

enum force { FORCE_NONE, FORCE_CPU, FORCE_GPU };

struct pick_input {
    enum force force;
    enum reason gave_up;        /* not NONE: this job came back from the GPU, and why */
    bool gpu_absent;            /* none configured, or none that works here */
    bool gpu_down;              /* there is one, but not now */
    bool gpu_full;              /* it has as many jobs as it takes */
    bool replica_ready;         /* or nearly, so that it is made so on the way */
    bool replica_refused;       /* there was no VRAM for it */
    bool vram_low;              /* less than a fifth of the VRAM for requests is free */
    uint64_t pairs;             /* scores to compute on the GPU, or nodes to touch; 0: it cannot
                                          do it */
    uint64_t pairs_min;         /* the floor for this operation */
    struct prediction cpu, gpu; /* alone; ns 0: not predicted, the floors alone decide */
    uint64_t cpu_wait_ns, gpu_wait_ns; /* for the work ahead of it */
    uint64_t upload_ns;                /* to bring the replica up to date on its way */
    double speedup_min; /* required while the prediction is a mere guess: 1.5; it sinks
                                        to 1 with confidence */
    double success_rate, success_min;
};

struct pick {
    enum backend_id backend;
    enum reason reason;
    bool open;          /* both could have it: the decision was a prediction's (or success rate's),
                           so that a probe may take the other road */
    bool wants_replica; /* CPU, but with a replica the GPU would have been faster */
};

/* The GPU has it when gpu_wait + upload + gpu.ns * required <= cpu_wait + cpu.ns, where required
 * is 1 + (speedup_min - 1) * (1 - the lesser confidence): of the run alone, since waits and uploads
 * are known better and are no merit of the GPU. Without a replica uploads do not count: one serves
 * many.
 * Forced to the GPU, a job waits there for its replica, however much there is to upload. */
struct pick pick_backend(const struct pick_input *in);

#endif
