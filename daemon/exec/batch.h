/* batch: several kNN requests on one collection run as one job, the carrier (OPERATION_KNN_BATCH).
 * Owner:  the pipeline, which takes a carrier from the pool (job_take_own) for each batch.
 * Thread: the loop; while a backend has the carrier, it has the members, too, except `cancelled`.
 * Errors: a member's own, in its failure, as if it ran alone. The carrier fails if its plan finds
 *         no memory (RESOURCE_EXHAUSTED/MEMORY, its members unchanged): the members are then run
 *         alone.
 *
 * The pipeline calls batch_add for each member (operation_batches, one collection, each holding
 * its turnstile) and submits the carrier, with backend and reason set, as any job. When the
 * carrier is back (cards_resume returned false), or was not taken, batch_take empties it. Members
 * have no memory except their results. A member that is cancelled has no result or an unfinished
 * one; the carrier is cancelled only if all members are. */
#ifndef ENGRAM_EXEC_BATCH_H
#define ENGRAM_EXEC_BATCH_H

#include "daemon/base/job.h"

/* Of the results of one batch, and of one member: the GPU process returns them as one copy. */
enum { BATCH_RESULT_BYTES_MAX = 256 << 10 };

/* Adds the next member; last: the one before it, or NULL. */
void batch_add(struct job *carrier, struct job *last, struct job *m);

enum batch_end {
    BATCH_DONE,      /* it has a result or a failure of its own, or was cancelled */
    BATCH_FALL_BACK, /* the GPU failed it or cannot run it (m->gpu.gave_up): the CPU runs it */
    BATCH_AGAIN, /* it was not run: another member was refused, or there was no memory for all */
};

/* Takes the oldest member out; it is free again but still holds its turnstile, and has the
 * carrier's times if it is done. NULL: there is none left. */
struct job *batch_take(struct job *carrier, enum batch_end *end);

/* ---- for exec ---- */

/* Bytes of the members' bodies and results. */
uint64_t batch_bytes(const struct job *carrier);
/* Frees the results of all members. */
void batch_drop_results(struct job *carrier);
/* Finds the member with the query of this number, counted through all queries that the GPU was
 * given, and the query's number in the member; NULL: there is no such query. */
struct job *batch_find_query(const struct job *carrier, uint64_t number, uint64_t *own_number);

#endif
