/* stats: the loop's counters, which only rise, and a latency histogram for each operation.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_STATS_H
#define ENGRAM_REPORT_STATS_H

#include "daemon/base/durations.h"
#include "daemon/base/histogram.h"
#include "daemon/base/job.h"
#include "daemon/base/status.h"

/* Bounds of the histograms for the metrics, in microseconds. */
#define STATS_BUCKETS_US                                                                    \
    "50 100 250 500 1000 2500 5000 10000 25000 50000 100000 250000 500000 1000000 2500000 " \
    "10000000"

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
    /* For the metrics, in stated buckets: all, and by operation and backend. */
    struct duration_bounds bounds;
    struct durations decided, durations[OPERATION_MAX][4];
};

/* buckets: as durations_parse reads them; "": STATS_BUCKETS_US. */
void stats_init(struct stats *s, const char *buckets);
/* Counts an answered request. backend: that ran it; NONE: the loop did, or nobody. */
void stats_add(struct stats *s, enum operation operation, enum backend_id backend,
               uint64_t total_ns, enum status code);
/* Counts a job that a backend ran to its end. */
void stats_route(struct stats *s, enum backend_id backend, enum reason reason);

/* Counts how long a decision took. */
void stats_decided(struct stats *s, uint64_t ns);

#endif
