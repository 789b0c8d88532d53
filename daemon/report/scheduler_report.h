/* scheduler_report: what Stats says of the scheduler, of a space's share and bounds, and of the
 * work that was made smaller because VRAM was short.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_SCHEDULER_REPORT_H
#define ENGRAM_REPORT_SCHEDULER_REPORT_H

#include "daemon/report/cards_report.h"
#include "daemon/report/stats.h"
#include "daemon/sched/scheduler.h"
#include "daemon/store/space.h"
#include "daemon/wire/encode.h"

/* host_bytes: what the space has (heap_owner_bytes). */
void scheduler_report_space(const struct space *space, uint64_t host_bytes,
                            struct wire_space_stats *out);
void scheduler_report_counters(const struct scheduler *s, const struct stats *counted,
                               struct wire_scheduler_stats *out);
/* stats->pressure; stats->gpus are summed, so they come first. */
void scheduler_report_pressure(const struct scheduler *s, const struct stats *counted,
                               const struct cards_seen *seen, struct wire_stats *stats);

#endif
