/* saves_count: how saves of everything ended (saves.h).
 * Owner:  the pipeline. Thread: the loop. Errors: none. */
#ifndef ENGRAM_REQUEST_SAVES_COUNT_H
#define ENGRAM_REQUEST_SAVES_COUNT_H

#include "daemon/persist/persist.h"
#include "daemon/request/pipeline_inside.h"

/* Counts one that ended, as r says, or could not begin, r NULL. why: code OK, or the failure; one
 * that is CANCELLED, or fails as the daemon stops, was given up. */
void saves_count(struct saves *s, const struct persist_report *r, const struct failure *why,
                 bool stops, uint64_t now_ns);
/* How snapshots in persist.dir went, for reports; texts stay until the next turn. */
struct wire_snapshots saves_seen(const struct pipeline *p, uint64_t now_ns);

#endif
