/* process: one engram-accel-gpu process, which is started, watched, killed and started again.
 * Owner:  cards/cards.c, one for each GPU.
 * Thread: the loop.
 * Errors: gpu_process_create: RESOURCE_EXHAUSTED. Afterwards nothing fails: the state tells.
 *
 * A life begins as STARTING until the share says READY. It is READY until the process exits, is
 * killed (its heartbeat stops, a ring is broken, gpu_process_kill) or says BROKEN. on_gone is
 * called once the process is reaped, so that it no longer touches the memory that it was lent;
 * then it is DOWN until the next start. The first restart is at once; each further one without a
 * completed request in between waits twice as long, 100 ms to 30 s. After GPU_FAILURES_MAX of
 * these in a row the breaker opens: in BREAKER, a start is tried every GPU_BREAKER_NS. ABSENT is
 * permanent: another version, or, if it was never READY, no program, no device, or no driver. */
#ifndef ENGRAM_CARDS_PROCESS_H
#define ENGRAM_CARDS_PROCESS_H

#include <uv.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/cards/process_host.h"
#include "daemon/heap/card_totals.h"
#include "daemon/heap/heap.h"
#include "daemon/heap/share.h"

enum gpu_state {
    GPU_ABSENT,
    GPU_STARTING,
    GPU_READY,
    GPU_DOWN,
    GPU_BREAKER,
};

enum { GPU_FAILURES_MAX = 6 };
#define GPU_BREAKER_NS UINT64_C(60000000000)
/* to become READY; after that the process counts as hung */
#define GPU_STARTING_NS UINT64_C(30000000000)
/* from SIGKILL; after that the process counts as stuck */
#define GPU_LINGER_NS UINT64_C(5000000000)
/* If checks are this far apart, the whole machine was paused, not just the process. */
#define GPU_CHECK_GAP_NS UINT64_C(250000000)

struct gpu_process;

struct gpu_process_events {
    void *owner;
    void (*on_ready)(void *owner);
    /* Called once for each process that was started, even if it was never ready, and by
     * gpu_process_stop. Completions that it published have been taken before (on_completions was
     * called). The receiver may stop and destroy the gpu_process. */
    void (*on_gone)(void *owner);
    /* Called when the completion ring has entries, or may have: also at each check, and after a
     * kill. */
    void (*on_completions)(void *owner);
    /* Called when the process was killed GPU_LINGER_NS ago and still exists, in a call of its
     * driver. It runs no code of its own any more, so what it was lent may be taken back, after
     * the completions. on_gone is called if it ever ends. gpu_process_stop calls this again. */
    void (*on_stuck)(void *owner);
};

struct gpu_process_options {
    uv_loop_t *loop;                 /* for the system's host; others may not need it */
    const struct clock *clock;       /* NULL: the real one */
    const struct process_host *host; /* NULL: process_host_system */
    void *host_owner;                /* private to the host */
    struct heap *heap;
    const struct config *config;
    uint32_t number;   /* of the GPU in the daemon's list: "gpu0" in logs */
    const char *which; /* the device: "0", or "sim" */
    struct gpu_process_events events;
};

enum status gpu_process_create(const struct gpu_process_options *options, struct gpu_process **out);
/* Starts the process if possible. */
void gpu_process_start(struct gpu_process *p);
/* Sends SIGKILL; on_gone follows, as for any other end. why is shown in the log and by info. */
void gpu_process_kill(struct gpu_process *p, const char *why);
/* Checks the heartbeat and restarts; called every 100 ms. */
void gpu_process_check(struct gpu_process *p, uint64_t now_ns);
/* Called when a request was completed: earlier failures are forgotten. */
void gpu_process_worked(struct gpu_process *p);
/* Ends restarts, asks the process to exit (ORDER_STOP) and kills it after 600 ms (freeing a CUDA
 * context takes up to 300). on_gone is called when it is gone, at once if it was not running;
 * on_stuck if it does not end. */
void gpu_process_stop(struct gpu_process *p);
/* After on_gone or on_stuck of gpu_process_stop, or before start. Closes uv handles: run the loop
 * once more. */
void gpu_process_destroy(struct gpu_process *p);

/* Waits until something happens that its owner hears of, or may. */
void gpu_process_wait(struct gpu_process *p);

enum gpu_state gpu_process_state(const struct gpu_process *p);
/* Valid while READY (its rings) or since it first was (device, usage); NULL before. */
struct share *gpu_process_share(struct gpu_process *p);
struct ring *gpu_process_orders(struct gpu_process *p);
struct ring *gpu_process_completions(struct gpu_process *p);
uint64_t gpu_process_restarts(const struct gpu_process *p);
/* What its card has done in all lives of the process. */
const struct card_totals *gpu_process_totals(struct gpu_process *p);
/* clock_now_ns when it became READY; 0: it is not. */
uint64_t gpu_process_ready_ns(const struct gpu_process *p);
/* Writes "NVIDIA H200, compute capability 9.0, 139.8 GiB, ..." or "absent: no driver (...)",
 * "down: ..., next start in 3 s", "breaker open: ...": one line for info and the log. */
void gpu_process_describe(const struct gpu_process *p, char *text, size_t bytes);

#endif
