/* batch: several kNN requests on one collection as one job, the carrier (OPERATION_KNN_BATCH).
 * Owner:  the pipeline, which takes a carrier from the pool (job_take_own) for each batch.
 * Thread: the loop; while a backend has the carrier its members are the backend's too, but for
 *         `cancelled`.
 * Errors: a member's own, in its failure, as if it ran alone. The carrier fails when its plan finds
 *         no memory (RESOURCE_EXHAUSTED/MEMORY, its members as before): run them alone then.
 *
 * The pipeline: batch_add for each member (operation_batches, one collection, each holding its
 * turnstile); submits the carrier, with backend and reason set, as any job; and when it is back
 * (gpu_resume was false), or was not taken, empties it with batch_take. Members keep no memory but
 * their results. A member that is cancelled has no result or an unfinished one; the carrier is
 * cancelled only when all members are, if ever. */
#ifndef ENGRAM_EXEC_BATCH_H
#define ENGRAM_EXEC_BATCH_H

#include "daemon/base/job.h"

/* Of results of one batch, and of one member: what the GPU process sends back as one copy. */
enum { BATCH_RESULT_BYTES_MAX = 256 << 10 };

/* The next member; last: the one before it, or NULL. */
void batch_add(struct job *carrier, struct job *last, struct job *m);

enum batch_end {
    BATCH_DONE,      /* there is a result, or a failure of its own (or it was cancelled) */
    BATCH_FALL_BACK, /* the GPU let it down or it was not for it: m->gpu.gave_up; for the CPU */
    BATCH_AGAIN,     /* it has not been run: another was refused, or there was no memory for all */
};

/* Takes the oldest member out, free again but for the turnstile, with the carrier's times if it is
 * done. NULL: there is none left. */
struct job *batch_take(struct job *carrier, enum batch_end *end);

/* ---- for exec ---- */

/* Bytes that members have in bodies and results. */
uint64_t batch_bytes(const struct job *carrier);
/* No member has a result. */
void batch_drop_results(struct job *carrier);
/* The member that has a query, counted through all that the GPU was given, and its number there;
 * NULL: no such query. */
struct job *batch_find_query(const struct job *carrier, uint64_t number, uint64_t *own_number);

#endif
