/* screens_report: what kNN over a space's collections did with rows in int8.
 * Owner:  whoever answers.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REPORT_SCREENS_REPORT_H
#define ENGRAM_REPORT_SCREENS_REPORT_H

#include "daemon/store/space.h"
#include "daemon/wire/report.h"

/* Returns how many of out[] it has filled in; *left_out: further collections with such searches. */
uint32_t screens_report(const struct space *space, struct wire_screens out[WIRE_SCREENS_MAX],
                        uint32_t *left_out);

#endif
