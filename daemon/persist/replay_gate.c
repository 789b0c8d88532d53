#include "daemon/persist/replay_gate.h"

#include <errno.h>
#include <time.h>

#define SECOND_NS UINT64_C(1000000000)

void replay_gate_init(struct replay_gate *g, void (*wake)(void *owner), void *owner)
{
    pthread_condattr_t attributes;
    *g = (struct replay_gate){.wake = wake, .owner = owner};
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void replay_gate_finish(struct replay_gate *g)
{
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

void replay_gate_enter(struct replay_gate *g)
{
    if (!g) return;
    pthread_mutex_lock(&g->lock);
    if (!g->lent && !g->given) {
        g->waits = true;
        if (g->wake) g->wake(g->owner);
        while (!g->lent && !g->given)
            pthread_cond_wait(&g->changed, &g->lock);
        g->waits = false;
        pthread_cond_broadcast(&g->changed);
    }
    g->inside = true;
    pthread_mutex_unlock(&g->lock);
}

void replay_gate_leave(struct replay_gate *g)
{
    if (!g) return;
    pthread_mutex_lock(&g->lock);
    g->inside = false;
    if (!g->lent) pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void replay_gate_end(struct replay_gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->ended = true;
    pthread_cond_broadcast(&g->changed);
    if (g->wake) g->wake(g->owner);
    pthread_mutex_unlock(&g->lock);
}

static struct timespec in_ns(uint64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t at = (uint64_t)t.tv_nsec + ns;
    return (struct timespec){t.tv_sec + (time_t)(at / SECOND_NS), (long)(at % SECOND_NS)};
}

bool replay_gate_lend(struct replay_gate *g, uint64_t ns)
{
    pthread_mutex_lock(&g->lock);
    if (g->waits) {
        int rc = 0;
        g->lent = true;
        pthread_cond_broadcast(&g->changed);
        while (g->waits) /* it may get a processor late */
            pthread_cond_wait(&g->changed, &g->lock);
        struct timespec until = in_ns(ns);
        while (!g->ended && rc != ETIMEDOUT)
            rc = pthread_cond_timedwait(&g->changed, &g->lock, &until);
        g->lent = false;
        while (g->inside)
            pthread_cond_wait(&g->changed, &g->lock);
    }
    bool waits = g->waits;
    pthread_mutex_unlock(&g->lock);
    return waits;
}

void replay_gate_give(struct replay_gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->given = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

bool replay_gate_has_ended(struct replay_gate *g)
{
    pthread_mutex_lock(&g->lock);
    bool ended = g->ended;
    pthread_mutex_unlock(&g->lock);
    return ended;
}
