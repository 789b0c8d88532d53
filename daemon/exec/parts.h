/* parts: one kNN request as several jobs, each a range of its queries, so that both backends can
 * work on it at once. Lines of the result are the whole's from the beginning.
 * Owner:  the pipeline, which takes the parts from the pool (job_take_own, OPERATION_KNN).
 * Thread: the loop.
 * Errors: a part's, naming queries as the whole counts them; parts_take merges them.
 *
 * The pipeline: parts_make_request for each part of a whole that holds its turnstile
 * (operation_splits), submits them like any job, each to its backend (one that gives up there goes
 * to the CPU, its lines untouched), and calls parts_take when one is done or was refused. The first
 * plan takes the result's memory for all of them. To stop them, it sets `cancelled` in each. */
#ifndef ENGRAM_EXEC_PARTS_H
#define ENGRAM_EXEC_PARTS_H

#include "daemon/base/job.h"

/* Makes part the range of count queries from first on: collection, request, whole, part_first and
 * body_bytes; counts it in whole->parts_out. */
void parts_make_request(struct job *whole, struct job *part, uint64_t first, uint64_t count);

/* The part is done with: the whole gets its times, and its failure unless an earlier part has one.
 * True: it was the last, and the whole is done as if it had run alone. */
bool parts_take(struct job *whole, struct job *part);

/* No part is out, but the whole shall run alone after all: failure and result are cleared. */
void parts_forget(struct job *whole);

#endif
