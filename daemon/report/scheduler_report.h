/* scheduler_report: what Stats says about the scheduler, about a space's share and quotas, and
 * about work that was made smaller because VRAM was short.
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

/* host_bytes: the space's use (heap_owner_bytes). */
void scheduler_report_space(const struct space *space, uint64_t host_bytes,
                            struct wire_space_stats *out);
void scheduler_report_counters(const struct scheduler *s, const struct stats *counted,
                               struct wire_scheduler_stats *out);
/* Fills in stats->pressure, which sums over stats->gpus: these must be filled in before. */
void scheduler_report_pressure(const struct scheduler *s, const struct stats *counted,
                               const struct cards_seen *seen, struct wire_stats *stats);

#endif
