/* work: what the operations' files share to say what a request asks for, in numbers that the scheduler
 * predicts its time from. Shapes alone are looked at, never rows or ids: it runs on the loop for every
 * request.
 * Owner:  ops.
 * Thread: the loop.
 * Errors: none; what overflows is a very large number. */
#ifndef ENGRAM_OPS_WORK_H
#define ENGRAM_OPS_WORK_H

#include "daemon/base/job.h"

enum { WORK_BEST_BYTES = 12 }; /* an id and its score */

uint64_t work_times(uint64_t a, uint64_t b);
/* Of the collection, or of the request's own. */
uint64_t work_rows(const struct job *j);
uint32_t work_dimension(const struct job *j);
/* Of the best k of so many rows, for every query. */
uint64_t work_best_bytes(const struct job *j, uint64_t rows);

#endif
