/* decisions: the last ones with their predictions and what came of them, for `engram-accel explain`.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_HISTORY_H
#define ENGRAM_SCHED_HISTORY_H

#include "daemon/base/job.h"
#include "daemon/base/ticket.h"

enum { DECISIONS_KEPT = 1024 };

struct decision {
    uint32_t space; /* its number: only its own clients see it */
    uint32_t server;
    enum reason reason;
    uint32_t members;                 /* requests that ran as one */
    struct work work;                 /* of all of them */
    uint64_t cpu_ns, gpu_ns, wait_ns; /* predicted, of all of them; 0: not asked */
    uint64_t took_ns;                 /* submission to end */
    uint64_t ended_ns;                /* clock_now_ns */
    bool well;
};

struct decisions {
    struct decision kept[DECISIONS_KEPT];
    uint64_t count; /* ever */
};

void decisions_add(struct decisions *d, const struct decision *one);
/* The newest first, of one space, at most max. Returns how many. */
uint32_t decisions_of(const struct decisions *d, uint32_t space, struct decision *out,
                      uint32_t max);

#endif
