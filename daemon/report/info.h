/* info: what Info says of the daemon.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_INFO_H
#define ENGRAM_REPORT_INFO_H

#include "daemon/report/sources.h"

/* Texts in out belong to the build and the kernels, and are valid for ever. */
void info_report(const struct report_sources *from, struct wire_info *out);

#endif
