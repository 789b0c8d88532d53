/* cards: the GPU backend, which sends jobs to the GPU processes. It knows which collections and
 * graphs have a replica, where, and of which version; it turns jobs into orders, and takes
 * completions back.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: submit: UNAVAILABLE with gpu_gave_up: the job is the CPU's, as if it had not been tried.
 *         After that no fault of a GPU is an error either: the job comes back through done so.
 *
 * A job that reads a resident holds its turnstile until it is done, so that what its uploads read does
 * not change meanwhile: it comes back when the last order given for it is done. */
#ifndef ENGRAM_CARDS_CARDS_H
#define ENGRAM_CARDS_CARDS_H

#include <uv.h>

#include "daemon/exec/backend.h"
#include "daemon/exec/done.h"
#include "daemon/cards/process.h"
#include "daemon/store/resident.h"

enum { GPU_MAX = 16, GPU_JOBS_MAX = 256 };

struct gpu_options {
    uv_loop_t *loop;
    const struct config *config;
    struct heap *heap;
    struct done *done;
    struct backend *cpu;             /* its workers prepare and finish what is long */
    const struct clock *clock;       /* NULL: the real one */
    const struct process_host *host; /* of the processes; NULL: the system. Then loop is needed */
    void *host_owner;                /* the host's own */
};

/* Reads gpu.devices ("auto" starts with one and adds those that it reports). With "none" the
 * backend is there and its state is GPU_ABSENT. */
enum status gpu_create(const struct gpu_options *options, struct backend **out);

/* Asks the processes to end, and kills those that do not soon: what they have comes back through
 * done. Nothing is taken any more. */
void gpu_begin_stop(struct backend *b);
/* Stops the processes and runs the loop until they are gone; then every job that was with them is
 * in done or with a worker. Nothing is taken any more. destroy comes later, when the workers are
 * gone too, and wants the loop to be run once more. */
void gpu_stop(struct backend *b);

/* The best state of any GPU. */
enum gpu_state gpu_state(const struct backend *b);

/* Whether a replica is there and as new as the host's truth, or so nearly that a job brings it up to
 * date on its way. For a holder of the turnstile, as are the next two. */
bool gpu_replica_ready(const struct backend *b, const struct resident *of);
/* There was no VRAM for it, lately. */
bool gpu_replica_refused(const struct backend *b, const struct resident *of);
/* An OPERATION_UPLOAD now would bring it closer to the host's truth. Such jobs upload a piece each
 * and never fail; the pipeline sends them one after the other, each a reader. */
bool gpu_wants_upload(const struct backend *b, const struct resident *of);

/* The GPU that has the replica, or would get it (one that is ready, if any is). NULL: the GPU for a
 * job that brings its rows. */
uint32_t gpu_card_of(const struct backend *b, const struct resident *of);
/* Bytes that a job has to have uploaded first. */
uint64_t gpu_upload_bytes(const struct backend *b, const struct resident *of);

/* How much a GPU can take now. */
struct gpu_room {
    bool ready;
    uint32_t jobs;      /* more jobs, uploads not counted; all GPUs share one bound */
    uint64_t bytes;     /* VRAM for requests that is free or could be, as last told */
    uint64_t bytes_all; /* of this much */
    bool low;           /* less than a fifth of it, or others have taken the card's memory */
};
struct gpu_room gpu_room_of(const struct backend *b, uint32_t card);
uint32_t gpu_card_count(const struct backend *b);

/* Jobs that it has, uploads not counted. */
uint32_t gpu_in_flight(const struct backend *b);

/* Takes completions; done jobs are in done afterwards, without its wake. */
void gpu_poll(struct backend *b);
/* Before the loop sleeps: while orders are out, watches for completions for up to gpu.spin_us, but
 * no longer than loop_fd has nothing. True: some were taken. False: they will wake the loop. */
bool gpu_watch(struct backend *b, int loop_fd);
/* Every 100 ms: hung jobs, heartbeats, backoff. Takes completions as gpu_poll does. */
void gpu_check(struct backend *b, uint64_t now_ns);

/* A job of this backend came back from done. True: it goes on here and will come back again. */
bool gpu_resume(struct backend *b, struct job *j);
/* It is not finished but wants the CPU (it was unfit, or the GPU let it down): j->gpu.gave_up says
 * why. Its result and plan have been dropped, its failure cleared. */
bool gpu_gave_up(const struct job *j);

/* It is going away, nobody holds it: its VRAM returns. */
void gpu_forget(struct backend *b, struct resident *of);

/* What lies in VRAM of it, on all GPUs together, and the version of the freshest replica. */
struct gpu_replica_info {
    uint64_t bytes, version; /* 0, 0: none */
};
struct gpu_replica_info gpu_replica_info(const struct backend *b, const struct resident *of);

/* The same of all that a space has. */
uint64_t gpu_space_bytes(const struct backend *b, const struct space *s);

/* Lines for info, numbers for stats: the i-th GPU; NULL past the last. */
const struct gpu_process *gpu_process_at(const struct backend *b, uint32_t i);

#endif
