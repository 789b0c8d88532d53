/* sources: what info and stats report on: the daemon's parts, and figures that belong to no part.
 * Owner:  whoever answers fills one in for each answer.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_SOURCES_H
#define ENGRAM_REPORT_SOURCES_H

#include "daemon/base/config.h"
#include "daemon/heap/heap.h"
#include "daemon/net/net.h"
#include "daemon/report/stats.h"
#include "daemon/sched/scheduler.h"
#include "daemon/wire/report.h"
#include "kernels/vectors.h"

struct report_sources {
    struct heap *heap;
    const struct vector_kernels *kernels;
    const struct net_counters *net;
    const struct peers *peers;
    const struct peer *asking; /* who asks; it sees others only if it is the operator */
    const struct scheduler *scheduler;
    const struct stats *stats;
    const struct config_reloads *reloads; /* NULL: none are counted */
    const struct backend *gpu;            /* NULL: none */
    const struct job *in_flight;          /* all jobs of clients, linked by hh */
    uint32_t workers;
    uint32_t queue_depth;    /* jobs that wait in the scheduler */
    uint32_t jobs_in_flight; /* requests of clients: no batches, uploads or trials */
    bool observed;           /* observe.enabled: requests are counted */
    uint64_t slow;           /* requests that took long, so far */
    uint64_t instance, started_ns, now_ns;
    struct wire_limits limits;
    struct wire_journal journal;
    struct wire_snapshots snapshots;
};

#endif
