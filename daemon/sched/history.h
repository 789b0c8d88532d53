/* history: the last decisions with their predictions and outcomes, for `engram-accel explain`.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_HISTORY_H
#define ENGRAM_SCHED_HISTORY_H

#include "daemon/base/job.h"
#include "daemon/base/ticket.h"

enum { DECISIONS_KEPT = 1024 };

struct decision {
    uint32_t space; /* the space's number: only its own clients see the decision */
    uint32_t server;
    enum reason reason;
    uint32_t members;                 /* how many requests ran as one */
    struct work work;                 /* of all members together */
    uint64_t cpu_ns, gpu_ns, wait_ns; /* predicted, for all members; 0: not predicted */
    uint64_t took_ns;                 /* from submission to end */
    uint64_t ended_ns;                /* as clock_now_ns counts */
    bool well;
};

struct decisions {
    struct decision kept[DECISIONS_KEPT];
    uint64_t count; /* of all decisions since the start */
};

void decisions_add(struct decisions *d, const struct decision *one);
/* Copies the newest decisions of one space, newest first, at most max. Returns how many. */
uint32_t decisions_of(const struct decisions *d, uint32_t space, struct decision *out,
                      uint32_t max);

#endif
