/* thread: threads that handle no signal, which is the main thread's.
 * Owner:  whoever starts one, and joins or detaches it.
 * Thread: any.
 * Errors: thread_start: pthread_create's. */
#ifndef ENGRAM_BASE_THREAD_H
#define ENGRAM_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Returns 0, or an error number: there is none then. */
int thread_start(pthread_t *out, void *(*run)(void *owner), void *owner);

/* Processors that this process may use, at least one. */
uint32_t thread_processors(void);

#endif
