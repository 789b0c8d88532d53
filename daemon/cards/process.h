/* gpu_process: one engram-accel-gpu, started, watched, killed and started again.
 * Owner:  cards/cards.c, one for each GPU.
 * Thread: the loop.
 * Errors: gpu_process_create: RESOURCE_EXHAUSTED. Afterwards nothing fails: the state says.
 *
 * A life: STARTING until the share says READY; READY until it exits, is killed (its heartbeat stops,
 * a ring is broken, gpu_process_kill) or says BROKEN; then on_gone, once the process is reaped, so
 * that nothing it was lent is touched any more; DOWN until the next start. The first restart is at
 * once; each further one without a request answered in between waits twice as long, 100 ms to 30 s.
 * After GPU_FAILURES_MAX such in a row the breaker opens: BREAKER, tried again every
 * GPU_BREAKER_NS. ABSENT is for good: another version, or, as long as it was never READY, no program,
 * no device, no driver. */
#ifndef ENGRAM_CARDS_PROCESS_H
#define ENGRAM_CARDS_PROCESS_H

#include <uv.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/cards/process_host.h"
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
#define GPU_BREAKER_NS  UINT64_C(60000000000)
#define GPU_STARTING_NS UINT64_C(30000000000) /* until READY; then it counts as hung */
#define GPU_LINGER_NS   UINT64_C(5000000000)  /* from SIGKILL until it counts as stuck */
/* A gap between checks this long is our own standstill (a paused machine), not the process's. */
#define GPU_CHECK_GAP_NS UINT64_C(250000000)

struct gpu_process;

struct gpu_process_events {
    void *owner;
    void (*on_ready)(void *owner);
    /* Each process that was started ends with one, also one that was never ready; so does
     * gpu_process_stop. Completions that it still published have been taken (on_completions was
     * called). It may stop and destroy the gpu_process. */
    void (*on_gone)(void *owner);
    /* The completion ring has something, or may have: also at each check, and once it is killed. */
    void (*on_completions)(void *owner);
    /* It was killed GPU_LINGER_NS ago and is still there, in some call of its driver: it runs no
     * code of its own any more, so what it was lent may be taken back, after the completions.
     * on_gone comes if it ever goes. Told again by gpu_process_stop. */
    void (*on_stuck)(void *owner);
};

struct gpu_process_options {
    uv_loop_t *loop;                 /* the system's host; others may do without */
    const struct clock *clock;       /* NULL: the real one */
    const struct process_host *host; /* NULL: process_host_system */
    void *host_owner;                /* the host's own */
    struct heap *heap;
    const struct config *config;
    uint32_t number;   /* of the GPU in our list: "gpu0" in logs */
    const char *which; /* the device: "0", or "sim" */
    struct gpu_process_events events;
};

enum status gpu_process_create(const struct gpu_process_options *options, struct gpu_process **out);
/* Starts it, as far as it can be started. */
void gpu_process_start(struct gpu_process *p);
/* SIGKILL, then on_gone as for any other end; why goes to the log and to info. */
void gpu_process_kill(struct gpu_process *p, const char *why);
/* Heartbeat, backoff: call every 100 ms. */
void gpu_process_check(struct gpu_process *p, uint64_t now_ns);
/* A request was answered: earlier failures are forgotten. */
void gpu_process_worked(struct gpu_process *p);
/* No more restarts; asks it to exit (ORDER_STOP) and kills it if it does not within 600 ms (to let go
 * of a context takes up to 300). on_gone comes when it is gone, at once if it was not running; on_stuck if it will not go. */
void gpu_process_stop(struct gpu_process *p);
/* After on_gone or on_stuck of gpu_process_stop, or before start. Closes uv handles: run the loop once
 * more. */
void gpu_process_destroy(struct gpu_process *p);

/* Waits until something happens that its owner hears of, or may. */
void gpu_process_wait(struct gpu_process *p);

enum gpu_state gpu_process_state(const struct gpu_process *p);
/* Valid while READY (its rings) or since it first was (device, usage); NULL before. */
struct share *gpu_process_share(struct gpu_process *p);
struct ring *gpu_process_orders(struct gpu_process *p);
struct ring *gpu_process_completions(struct gpu_process *p);
uint64_t gpu_process_restarts(const struct gpu_process *p);
/* clock_now_ns when it became READY; 0: it is not. */
uint64_t gpu_process_ready_ns(const struct gpu_process *p);
/* "NVIDIA H200, compute capability 9.0, 139.8 GiB, ..." or "absent: no driver (...)", "down: ...,
 * next start in 3 s", "breaker open: ...": one line for info and the log. */
void gpu_process_describe(const struct gpu_process *p, char *text, size_t bytes);

#endif
