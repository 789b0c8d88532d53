/* info: what Info says of the daemon.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_INFO_H
#define ENGRAM_REPORT_INFO_H

#include "daemon/report/sources.h"

/* Texts in out are the build's and the kernels', for good. */
void info_report(const struct report_sources *from, struct wire_info *out);

#endif
