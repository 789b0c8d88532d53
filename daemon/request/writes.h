/* writes: whether a request that changes a collection or graph finds what it expects, or repeats
 * one that was done.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: in the job's failure: ABORTED/VERSION_CHANGED, INVALID_ARGUMENT/UNKNOWN_VERSION, and
 *         those of tokens.h. */
#ifndef ENGRAM_REQUEST_WRITES_H
#define ENGRAM_REQUEST_WRITES_H

#include "daemon/request/pipeline_inside.h"

/* Before j's collection or graph is looked up. True: it repeats a write by its token and has the
 * first one's answer, or is refused; it need not run. */
bool writes_recall(struct pipeline *p, struct job *j);

/* j writes, and is the next to do so; or it drops, and is about to take the name away. A drop that
 * expects one version is refused while others write or wait to: they will leave another. False: j
 * need not run, as above. */
bool writes_begin(struct pipeline *p, struct job *j);

/* j creates, now, and repeats nothing; is_there: the name is taken. False: it is refused. After all
 * of these that are made at once, done or not: writes_end. */
bool writes_create(struct pipeline *p, struct job *j, bool is_there);
/* The same of a swap; there: what it puts something else in place of; NULL: nothing is there. */
bool writes_swap(struct pipeline *p, struct job *j, const struct resident *there);
void writes_end(struct pipeline *p, struct job *j);

#endif
