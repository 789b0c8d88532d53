/* work: functions with which operations describe a request's work in numbers, from which the
 * scheduler predicts its time. They read shapes only, never rows or ids, because they run on the
 * loop for every request.
 * Owner:  ops.
 * Thread: the loop.
 * Errors: none; a number that would overflow becomes a very large one. */
#ifndef ENGRAM_OPS_WORK_H
#define ENGRAM_OPS_WORK_H

#include "daemon/base/job.h"

enum { WORK_BEST_BYTES = 12 }; /* an id and its score */

uint64_t work_times(uint64_t a, uint64_t b);
/* Returns the rows of the collection, or those of the request. */
uint64_t work_rows(const struct job *j);
uint32_t work_dimension(const struct job *j);
/* Returns the bytes of the best k of so many rows, for all queries. */
uint64_t work_best_bytes(const struct job *j, uint64_t rows);

#endif
