/* work_queue: jobs of which CPU workers can take a part, and which of them is next. Whoever has had
 * the least work so far goes first, by powers of two, so that a short job passes a long one that it
 * finds under way; among equals, the older. The oldest gets a quarter of the time whatever comes.
 * Owner:  the workers.
 * Thread: any, under the workers' lock.
 * Errors: none. */
#ifndef ENGRAM_EXEC_WORK_QUEUE_H
#define ENGRAM_EXEC_WORK_QUEUE_H

#include "daemon/base/job.h"

struct work_queue {
    struct job *head, *tail; /* oldest first; linked by next and previous */
    uint64_t arrivals;
    /* Time that workers spent on the oldest and on others since it is the oldest. */
    uint64_t oldest_ns, others_ns;
};

/* Adds a job that is new. */
void work_queue_add(struct work_queue *q, struct job *j);
/* Adds a job that was here before, where it was. */
void work_queue_add_again(struct work_queue *q, struct job *j);
void work_queue_remove(struct work_queue *q, struct job *j);

/* How much work a job has had: 0 for less than 2 ms, 1 more for twice that, and so on. */
unsigned work_queue_level(uint64_t worked_ns);

/* The next job; NULL: none. */
struct job *work_queue_choose(const struct work_queue *q);

/* The next job for somebody who interrupts others, the innermost of which is of that level: a job
 * of a lower one, none of those, and none whose parts last as long. NULL: none. */
struct job *work_queue_choose_shorter(const struct work_queue *q, unsigned level,
                                      struct job *const *others, unsigned count);

/* A worker spent that time on j. */
void work_queue_spent(struct work_queue *q, const struct job *j, uint64_t ns);

#endif
