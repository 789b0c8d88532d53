/* slow_times: from which time on a request of an operation counts as slow.
 * Owner:  base; no state. Thread: any. Errors: false, for a text that says nothing. */
#ifndef ENGRAM_BASE_SLOW_TIMES_H
#define ENGRAM_BASE_SLOW_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/operations.h"

/* Reads "knn=20 cluster=60000", milliseconds by operation, 0 for never, over ms for all others;
 * UINT64_MAX stands for never. A text that is not right changes nothing. */
bool slow_times_parse(const char *text, uint32_t ms, uint64_t over_ns[OPERATION_MAX]);
bool slow_times_valid(const char *text);

#endif
