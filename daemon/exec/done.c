#include "daemon/exec/done.h"

#include <stddef.h>

/* Returns true if the list was empty. */
static bool push(struct done *d, struct job *j)
{
    struct job *top = atomic_load_explicit(&d->top, memory_order_relaxed);
    do {
        j->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&d->top, &top, j, memory_order_release,
                                                    memory_order_relaxed));
    return !top;
}

void done_push(struct done *d, struct job *j)
{
    if (push(d, j)) d->wake(d->owner);
}

void done_add(struct done *d, struct job *j)
{
    push(d, j);
}

struct job *done_take(struct done *d)
{
    if (!atomic_load_explicit(&d->top, memory_order_relaxed)) return NULL;
    struct job *newest = atomic_exchange_explicit(&d->top, NULL, memory_order_acquire);
    struct job *oldest = NULL;
    while (newest) {
        struct job *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}
