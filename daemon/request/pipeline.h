/* pipeline: the story of a request, in one place: frame -> job -> turnstile -> scheduler -> backend ->
 * reply. Stages never call each other; this calls each in order.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: answered to the client; pipeline_init: RESOURCE_EXHAUSTED. */
#ifndef ENGRAM_REQUEST_PIPELINE_H
#define ENGRAM_REQUEST_PIPELINE_H

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/exec/backend.h"
#include "daemon/exec/done.h"
#include "daemon/net/connection.h"
#include "daemon/report/stats.h"
#include "daemon/sched/queue.h"
#include "daemon/sched/scheduler.h"
#include "daemon/store/resident.h"

struct calibrate;

enum { UPLOADS_MAX = 4 }; /* of replicas, in the background, at once */

struct pipeline {
    const struct config *config;
    const struct clock *clock; /* NULL: the real one; read nowhere else here */
    struct heap *heap;
    struct store *store;
    struct net *net;
    const struct vector_kernels *kernels;
    struct backend *cpu;
    struct backend *gpu; /* cards/cards.h; NULL: none */
    struct done done;
    uint32_t worker_count;

    struct job *jobs; /* job_max; the first is never used and keeps the table alive */
    struct job *free_jobs;
    uint32_t fresh_jobs;   /* jobs[fresh..] were never used */
    struct job *in_flight; /* uthash, by key */
    struct queue arrivals; /* past their turnstile */
    struct scheduler scheduler;
    uint32_t in_line;   /* jobs that wait in the scheduler */
    uint32_t running;   /* submitted to the CPU and not yet done */
    uint32_t job_count; /* taken */
    struct job *uploads[UPLOADS_MAX];
    struct resident *upload_next; /* it found no place there; NULL: none */
    struct calibrate *calibrate;  /* daemon/learn/calibrate.h; NULL: none */

    struct stats stats;
    uint64_t instance; /* random at each start */
    uint64_t started_ns;
    uint8_t token[256]; /* what Hello must carry, when token_bytes > 0 */
    uint32_t token_bytes;
    bool draining;
};

enum status pipeline_init(struct pipeline *p, const struct config *config);
/* Every job must be back. */
void pipeline_finish(struct pipeline *p);

/* What net calls (net_events). */
struct net_events pipeline_net_events(struct pipeline *p);

/* Once per turn of the loop: takes back finished jobs, hands out queued ones. */
void pipeline_tick(struct pipeline *p);

/* j stands in line for its collection, and for a backend when it may pass. */
void pipeline_enter(struct pipeline *p, struct job *j);
/* j is through with its collection: those behind it may pass. */
void pipeline_leave(struct pipeline *p, struct job *j);

/* j, a trial that stands in no line, runs there at once, past the scheduler; it comes back through
 * calibrate_done. False: it would not take it, and j, JOB_QUEUED, is still the caller's; j->failure
 * or j->gpu.gave_up says why. */
bool pipeline_trial(struct pipeline *p, struct job *j, enum backend_id backend);

/* Nobody wants j any more: answers it if it has not started, else stops it at the next look. May
 * close its connection, when there is no memory for the answer. */
void pipeline_cancel(struct pipeline *p, struct job *j);

/* The settings have changed, or are there for the first time. */
void pipeline_configure(struct pipeline *p);

/* When pipeline_tick wants to be called though nothing happened; UINT64_MAX: it does not. */
uint64_t pipeline_wake_ns(const struct pipeline *p);

/* Every now and then: answers or stops jobs whose time is up. */
void pipeline_expire(struct pipeline *p, uint64_t now_ns);

/* From now on new requests are refused as UNAVAILABLE. */
void pipeline_drain(struct pipeline *p);

/* The backends are gone: lets go of every job that is left. */
void pipeline_abandon(struct pipeline *p);

#endif
