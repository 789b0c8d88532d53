/* spaces_report: what spaces there are, and what each has, for `engram-accel spaces`.
 * Owner:  the pipeline asks.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_SPACES_REPORT_H
#define ENGRAM_REPORT_SPACES_REPORT_H

#include "daemon/report/sources.h"
#include "daemon/store/space.h"

/* Writes the next spaces behind the name `after`, by name, at most `max` (1 to 32); returns how
 * many. own: the space that asks, which sees itself alone unless it asks for an operator. */
size_t spaces_report(const struct report_sources *from, const struct store *store,
                     const struct space *own, const char *after, struct wire_space *out, size_t max,
                     bool *more);

#endif
