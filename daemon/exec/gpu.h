/* gpu: the GPU backend: the road to the GPU processes. It knows which collections have a replica
 * where and how fresh, turns jobs into orders, and takes completions back.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: submit: see backend.h. After that no fault of a GPU is an error: the job comes back
 *         through done with gpu.never set and state as if it had not been tried (gpu_gave_up).
 *
 * A job that reads a collection holds its turnstile until it is done, so the rows that its uploads
 * read do not change meanwhile. */
#ifndef ENGRAM_EXEC_GPU_H
#define ENGRAM_EXEC_GPU_H

#include <uv.h>

#include "daemon/exec/backend.h"
#include "daemon/exec/done.h"
#include "daemon/exec/gpu_process.h"

enum { GPU_MAX = 16 };

struct gpu_options {
    uv_loop_t *loop;
    const struct config *config;
    struct heap *heap;
    struct done *done;
    struct backend *cpu; /* its workers prepare and finish what is long */
};

/* Reads gpu.devices ("auto" starts with one and adds those that it reports). With "none" the
 * backend is there and its state is GPU_ABSENT. */
enum status gpu_create(const struct gpu_options *options, struct backend **out);

/* The best state of any GPU. */
enum gpu_state gpu_state(const struct backend *b);

/* Whether the collection's replica is there and every row in it as new as the host's. */
bool gpu_replica_ready(const struct backend *b, const struct collection *c);

/* Asks for the replica to be made or brought up to date when there is time: uploads run in pieces,
 * each under the collection's turnstile as a reader, through pipeline's own jobs. */
bool gpu_wants_upload(const struct backend *b, const struct collection *c);

/* Jobs that it has. */
uint32_t gpu_in_flight(const struct backend *b);

/* Takes completions; done jobs are in done afterwards. Called at each turn of the loop. */
void gpu_poll(struct backend *b);
/* Every 100 ms: hung jobs, heartbeats, backoff. */
void gpu_check(struct backend *b, uint64_t now_ns);

/* A job came back from done: true when it is not finished but wants the CPU (it was unfit, or the
 * GPU let it down); its result and plan have been dropped. */
bool gpu_gave_up(const struct job *j);

/* The collection is going away: its VRAM returns. */
void gpu_forget(struct backend *b, struct collection *c);

/* What lies in VRAM of it, on all GPUs together, and the version of the freshest replica. */
struct gpu_replica_info {
    uint64_t bytes, version; /* 0, 0: none */
};
struct gpu_replica_info gpu_replica_info(const struct backend *b, const struct collection *c);

/* Lines for info, numbers for stats: the i-th GPU; NULL past the last. */
const struct gpu_process *gpu_process_at(const struct backend *b, uint32_t i);

#endif
