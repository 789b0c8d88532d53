/* answers_explain: why requests run where they run: what each backend is predicted to cost, from
 * where on the GPU wins, and what came of the asking space's last decisions.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_EXPLAIN_H
#define ENGRAM_REPORT_EXPLAIN_H

#include "daemon/sched/scheduler.h"
#include "daemon/wire/encode.h"

/* At most `last` decisions, of that space only. */
void answer_explain(const struct scheduler *s, uint32_t space, uint32_t last, uint64_t now_ns,
                    struct wire_explain *out);

#endif
