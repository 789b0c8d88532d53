/* look: what whoever serves HTTP has the loop copy between two of its turns.
 * Owner:  one of the two has the copy at any time.
 * Thread: pipeline_look, the loop, fills it in.
 * Errors: none. */
#ifndef ENGRAM_REPORT_LOOK_H
#define ENGRAM_REPORT_LOOK_H

#include "daemon/report/metrics.h"
#include "daemon/report/slow_log.h"

enum look_kind { LOOK_METRICS, LOOK_SLOW };

struct look {
    enum look_kind kind; /* which of these is wanted; the other is as it was */
    struct metrics_view metrics;
    struct slow_copy slow;
};

#endif
