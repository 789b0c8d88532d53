/* queue: jobs on their way to the scheduler, first in, first out.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none; the pipeline's pool of jobs bounds it. */
#ifndef ENGRAM_SCHED_QUEUE_H
#define ENGRAM_SCHED_QUEUE_H

#include "daemon/base/job.h"

struct queue {
    struct job *head, *tail;
    uint32_t depth;
};

void queue_push(struct queue *q, struct job *j);
/* Puts j back in front. */
void queue_push_front(struct queue *q, struct job *j);
/* Returns NULL when empty. */
struct job *queue_pop(struct queue *q);
/* Removes j, wherever in q it is. */
void queue_remove(struct queue *q, struct job *j);

#endif
