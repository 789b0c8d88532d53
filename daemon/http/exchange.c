#include "daemon/http/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"

bool exchange_init(struct exchange *x, void (*wake)(void *owner), void *owner)
{
    memset(x, 0, sizeof *x);
    x->look = fault_here("http: view") ? NULL : malloc(sizeof *x->look);
    if (!x->look) return false;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->changed, NULL);
    x->wake = wake;
    x->owner = owner;
    return true;
}

void exchange_finish(struct exchange *x)
{
    if (!x->look) return;
    free(x->look);
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->lock);
}

/* Waits until the loop has given the copy back. */
static bool await(struct exchange *x, uint64_t wait_ns)
{
    uint64_t until_ns = clock_now_ns() + wait_ns;
    struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    int rc = 0;
    while (!x->closed && atomic_load(&x->wanted) && rc != ETIMEDOUT)
        rc = pthread_cond_clockwait(&x->changed, &x->lock, CLOCK_MONOTONIC, &until);
    return !x->closed && !atomic_load(&x->wanted);
}

const struct look *exchange_take(struct exchange *x, enum look_kind kind, uint64_t wait_ns)
{
    pthread_mutex_lock(&x->lock);
    bool owed = x->late && atomic_load(&x->wanted);
    if (!owed && !x->closed) {
        x->look->kind = kind;
        atomic_store(&x->wanted, true);
        x->wake(x->owner);
        x->late = !await(x, wait_ns);
    }
    bool came = !owed && !x->closed && !x->late;
    pthread_mutex_unlock(&x->lock);
    return came ? x->look : NULL;
}

void exchange_serve(struct exchange *x, void (*look)(void *owner, struct look *out), void *owner)
{
    if (!atomic_load(&x->wanted)) return;
    look(owner, x->look);
    pthread_mutex_lock(&x->lock);
    atomic_store(&x->wanted, false);
    pthread_cond_signal(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

void exchange_close(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->closed = true;
    pthread_cond_signal(&x->changed);
    pthread_mutex_unlock(&x->lock);
}
