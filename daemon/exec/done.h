/* done: takes finished jobs from any thread back to the loop; nothing else does.
 * Owner:  the pipeline.
 * Thread: done_push any; done_take the loop.
 * Errors: none: a push allocates nothing. */
#ifndef ENGRAM_EXEC_DONE_H
#define ENGRAM_EXEC_DONE_H

#include <stdatomic.h>

#include "daemon/base/job.h"

struct done {
    _Atomic(struct job *) top;
    void (*wake)(void *owner); /* called by the pushing thread if the list was empty */
    void *owner;
};

void done_push(struct done *d, struct job *j);
/* As done_push, from the loop, which empties the list before it sleeps: it need not be woken. */
void done_add(struct done *d, struct job *j);
/* Returns all finished jobs, oldest first, linked by next; NULL if there are none. */
struct job *done_take(struct done *d);

#endif
