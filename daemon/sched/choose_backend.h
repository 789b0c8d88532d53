/* choose_backend: which backend runs a job, and why. A pure function of what is known.
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
    enum reason gave_up;  /* not NONE: the GPU gave this job back, for this reason */
    bool gpu_absent;      /* no GPU is configured, or none works here */
    bool gpu_down;        /* there is a GPU, but it is not ready now */
    bool gpu_full;        /* it has as many jobs as it takes */
    bool replica_ready;   /* it is up to date, or an upload before the run will make it so */
    bool replica_refused; /* there was no VRAM for a replica */
    bool vram_low;        /* less than a fifth of the VRAM for requests is free */
    /* scores to compute on the GPU, or nodes to touch; 0: the GPU cannot run this */
    uint64_t pairs;
    uint64_t pairs_min;         /* the least for this operation to go to the GPU */
    struct prediction cpu, gpu; /* of the run alone; ns 0: not predicted, only pairs_min decides */
    uint64_t cpu_wait_ns, gpu_wait_ns; /* predicted waits for the work ahead */
    uint64_t upload_ns;                /* to bring the replica up to date before the run */
    /* the speedup required of a mere guess, such as 1.5; it falls to 1 with confidence */
    double speedup_min;
    double success_rate, success_min;
};

struct pick {
    enum backend_id backend;
    enum reason reason;
    /* predictions (or success rates) decided between two possible backends, so that a probe may
     * try the other one */
    bool open;
    bool wants_replica; /* the CPU has it, but the GPU would be faster if it had a replica */
};

/* Chooses the GPU if gpu_wait + upload + gpu.ns * required <= cpu_wait + cpu.ns, where required is
 * 1 + (speedup_min - 1) * (1 - the lesser confidence): it concerns the run alone, because waits
 * and uploads are known better and do not depend on the GPU's speed. Uploads are not counted if
 * there is no replica yet: one replica serves many requests.
 * A job that is forced to the GPU waits for its replica, however large the upload is. */
struct pick pick_backend(const struct pick_input *in);

#endif
