/* exchange: how the thread that serves HTTP gets a copy of the loop's counters: it asks, the loop
 * copies between two of its turns, and one of the two has the copy at any time.
 * Owner:  http.
 * Thread: exchange_take: the server's. exchange_serve, exchange_close: the loop.
 * Errors: exchange_init: false, no memory. exchange_take: false. */
#ifndef ENGRAM_HTTP_EXCHANGE_H
#define ENGRAM_HTTP_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "daemon/report/look.h"

struct exchange {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct look *look;
    atomic_bool wanted; /* the loop has the copy, and is to fill it */
    bool late;          /* the server has given up waiting for that */
    bool closed;        /* the loop will not turn any more */
    void (*wake)(void *owner);
    void *owner;
};

/* wake makes the loop call exchange_serve soon; any thread calls it. */
bool exchange_init(struct exchange *x, void (*wake)(void *owner), void *owner);
void exchange_finish(struct exchange *x);

/* Returns a copy of that kind made after the call began, the caller's until the next call; NULL:
 * the loop did not answer within wait_ns, or will not any more. While it owes an answer, nobody
 * waits again. */
const struct look *exchange_take(struct exchange *x, enum look_kind kind, uint64_t wait_ns);

/* In each turn of the loop: has look fill the copy if it is wanted. */
void exchange_serve(struct exchange *x, void (*look)(void *owner, struct look *out), void *owner);
/* Nobody waits for the loop from now on. */
void exchange_close(struct exchange *x);

#endif
