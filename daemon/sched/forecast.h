/* forecast: when a server will be done with the work that it has, and with more.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_FORECAST_H
#define ENGRAM_SCHED_FORECAST_H

#include "daemon/sched/scheduler_state.h"

static inline enum backend_id forecast_backend(uint32_t server)
{
    return server == SERVER_CPU ? BACKEND_CPU : BACKEND_GPU;
}

struct prediction forecast_work(const struct scheduler *s, uint32_t server, const struct work *w);

/* How much of the work in flight is still to be done. */
uint64_t forecast_backlog_ns(const struct server *sv, uint64_t now_ns);
/* The same, as far as it counts towards the window. */
uint64_t forecast_window_ns(const struct server *sv, uint64_t now_ns);

/* How much of it a newcomer may have to wait for: where it can start at once, only a pass of a run
 * that lets others in between. */
uint64_t forecast_ahead_ns(const struct scheduler *s, const struct server *sv, uint64_t now_ns);

/* How long a ticket will wait that has own_ns of its tenant's queue before it. */
uint64_t forecast_wait_ns(const struct scheduler *s, const struct ticket *t, uint32_t server,
                          uint64_t own_ns, uint64_t charge_ns, uint64_t now_ns);

/* By how much t, which is in no queue, would make a server's longer: if queued tickets can run as
 * one with it, only by what it adds to all of them. busy_ns: what it takes alone. */
uint64_t forecast_added_ns(const struct scheduler *s, const struct ticket *t, uint32_t server,
                           uint64_t busy_ns);

/* How many of t's queries, from the first, the GPU should run so that it and the CPU, both idle,
 * end at the same time; 0 if that is not clearly sooner than either alone. */
uint64_t forecast_split(const struct scheduler *s, const struct ticket *t);

#endif
