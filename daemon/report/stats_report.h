/* stats_report: what Stats says: the daemon's counters, and what one space has.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_STATS_REPORT_H
#define ENGRAM_REPORT_STATS_REPORT_H

#include "daemon/report/sources.h"
#include "daemon/store/space.h"

void stats_report(const struct report_sources *from, struct space *space, struct wire_stats *out);

/* Lists where jobs ran and why; combinations without jobs are left out. */
void stats_report_routes(const struct stats *s, struct wire_stats *out);

#endif
