/* slow_json: the last slow requests as JSON, for the status page.
 * Owner:  the caller frees the text.
 * Thread: any.
 * Errors: NULL: no memory. */
#ifndef ENGRAM_REPORT_SLOW_JSON_H
#define ENGRAM_REPORT_SLOW_JSON_H

#include "daemon/report/slow_log.h"

/* {"total": N, "requests": [{"operation": "knn", "total_ns": N ...} ...]}, the newest first. Where
 * names are not wanted, no request tells which collection or graph it named, who sent it and with
 * which id. The text is for free(). */
char *slow_json(const struct slow_copy *s, bool names);

#endif
