/* explain: why requests run where they run: the predicted cost on each backend, from where on the
 * GPU is faster, and the outcomes of the asking space's last decisions.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_EXPLAIN_H
#define ENGRAM_REPORT_EXPLAIN_H

#include "daemon/exec/backend.h"
#include "daemon/sched/scheduler.h"
#include "daemon/wire/encode.h"

/* Reports at most `last` decisions, of that space only. */
void explain_report(const struct scheduler *s, uint32_t space, uint32_t last, uint64_t now_ns,
                    struct wire_explain *out);
/* Fills in out->gpu, the line that Info has, too. NULL: this daemon runs without GPUs. */
void explain_report_cards(const struct backend *gpu, struct wire_explain *out);

#endif
