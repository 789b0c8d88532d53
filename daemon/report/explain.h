/* explain: why requests run where they run: what each backend is predicted to cost, from
 * where on the GPU wins, and what came of the asking space's last decisions.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_EXPLAIN_H
#define ENGRAM_REPORT_EXPLAIN_H

#include "daemon/exec/backend.h"
#include "daemon/sched/scheduler.h"
#include "daemon/wire/encode.h"

/* At most `last` decisions, of that space only. */
void explain_report(const struct scheduler *s, uint32_t space, uint32_t last, uint64_t now_ns,
                    struct wire_explain *out);
/* out->gpu: the line that Info has, too. NULL: this daemon runs without. */
void explain_report_cards(const struct backend *gpu, struct wire_explain *out);

#endif
