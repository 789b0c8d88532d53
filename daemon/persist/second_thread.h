/* second_thread: a thread that does for another what can wait, one thing after the other, in the
 * order in which it is given.
 * Owner:  whoever made it.
 * Thread: one gives and waits.
 * Errors: second_thread_make: NULL, no memory or no thread; the work is the caller's then. */
#ifndef ENGRAM_PERSIST_SECOND_THREAD_H
#define ENGRAM_PERSIST_SECOND_THREAD_H

#include <stdint.h>

struct second_thread;
typedef void (*second_thread_work)(void *owner, const void *data, uint64_t bytes);

struct second_thread *second_thread_make(second_thread_work work, void *owner);
/* NULL is fine. What was given is done first. */
void second_thread_end(struct second_thread *t);

/* It calls work(owner, data, bytes); data must stay until then. Waits while much is to be done. */
void second_thread_give(struct second_thread *t, const void *data, uint64_t bytes);
/* Until all is done. */
void second_thread_wait(struct second_thread *t);

#endif
