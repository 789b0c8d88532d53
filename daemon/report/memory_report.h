/* memory_report: what each thing in a space holds, in the host and on cards.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_MEMORY_REPORT_H
#define ENGRAM_REPORT_MEMORY_REPORT_H

#include "daemon/report/sources.h"
#include "daemon/wire/encode.h"

/* Writes a page of those with number > after; walks over what was made before, as a list does. */
void memory_report(const struct report_sources *from, struct space *space, uint64_t after,
                   struct wire_memory *out);

#endif
