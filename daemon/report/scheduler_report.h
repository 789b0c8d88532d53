/* answers_sched: what stats say of the scheduler, of a space's share and bounds, and of the rungs
 * that were climbed for want of VRAM.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_SCHEDULER_REPORT_H
#define ENGRAM_REPORT_SCHEDULER_REPORT_H

#include "daemon/request/pipeline.h"
#include "daemon/wire/encode.h"

/* stats->space, scheduler and pressure; of GPUs, stats->gpus are summed, so they come first. */
void answer_sched_stats(const struct pipeline *p, const struct space *space,
                        struct wire_stats *stats);

#endif
