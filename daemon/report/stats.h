/* stats: the loop's counters, which only rise, and a latency histogram for each operation.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_STATS_H
#define ENGRAM_REPORT_STATS_H

#include "daemon/base/histogram.h"
#include "daemon/base/job.h"
#include "daemon/base/status.h"

struct operation_stats {
    uint64_t requests, errors, total_ns;
    struct histogram latency; /* from complete frame to queued reply */
};

struct stats {
    uint64_t requests_total; /* frames, valid or not */
    uint64_t errors_total;   /* error replies */
    uint64_t cancelled_total, deadline_exceeded_total;
    struct operation_stats operations[OPERATION_MAX];
    uint64_t routes[4][REASON_MAX]; /* jobs that ran, by backend_id and reason */
    struct histogram decide;        /* time to choose a backend for a request */
};

void stats_init(struct stats *s);
/* Counts an answered request. */
void stats_add(struct stats *s, enum operation operation, uint64_t total_ns, enum status code);
/* Counts a job that a backend ran to its end. */
void stats_route(struct stats *s, enum backend_id backend, enum reason reason);

/* Counts how long a decision took. */
void stats_decided(struct stats *s, uint64_t ns);

#endif
