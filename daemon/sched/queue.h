/* queue: jobs on their way to the scheduler, first come, first served.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none; the pipeline's job pool bounds it. */
#ifndef ENGRAM_SCHED_QUEUE_H
#define ENGRAM_SCHED_QUEUE_H

#include "daemon/base/job.h"

struct queue {
    struct job *head, *tail;
    uint32_t depth;
};

void queue_push(struct queue *q, struct job *j);
/* Back to where it was popped. */
void queue_push_front(struct queue *q, struct job *j);
/* NULL when empty. */
struct job *queue_pop(struct queue *q);
/* From wherever in q it is. */
void queue_remove(struct queue *q, struct job *j);

#endif
