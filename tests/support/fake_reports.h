/* fake_reports: what the fake daemon reports of itself.
 * Owner:  fake_daemon.c.
 * Thread: any; constant.
 * Errors: none. */
#ifndef ENGRAM_TESTS_FAKE_REPORTS_H
#define ENGRAM_TESTS_FAKE_REPORTS_H

#include "daemon/wire/report.h"

extern const struct wire_info fake_info;
extern const struct wire_stats fake_stats;
extern const struct wire_explain fake_explain;

#endif
