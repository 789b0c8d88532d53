/* parts: one kNN request run as several jobs, each with a range of its queries, so that both
 * backends can work on it at once. They write directly into the whole's result.
 * Owner:  the pipeline, which takes the parts from the pool (job_take_own, OPERATION_KNN).
 * Thread: the loop.
 * Errors: a part's, with query numbers as the whole counts them; parts_take merges them.
 *
 * The pipeline calls parts_make_request for each part of a whole that holds its turnstile
 * (operation_splits) and submits each part to its backend, as any job; a part that a GPU gives up
 * goes to the CPU. It calls parts_take when a part is done or was refused. The first plan takes
 * the memory of the result for all parts. To stop them, the pipeline sets `cancelled` in each. */
#ifndef ENGRAM_EXEC_PARTS_H
#define ENGRAM_EXEC_PARTS_H

#include "daemon/base/job.h"

/* Makes part a job for count queries from `first` on: collection, request, whole, part_first and
 * body_bytes; counts it in whole->parts_out. */
void parts_make_request(struct job *whole, struct job *part, uint64_t first, uint64_t count);

/* Adds the times of a part that is done to the whole, and its failure unless an earlier part has
 * one. True: it was the last part, and the whole is done as if it had run alone. */
bool parts_take(struct job *whole, struct job *part);

/* Clears failure and result of a whole without parts in flight, so that it can run alone. */
void parts_forget(struct job *whole);

#endif
