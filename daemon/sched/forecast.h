/* forecast: when a server would be done with what it has, and with more.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_FORECAST_H
#define ENGRAM_SCHED_FORECAST_H

#include "daemon/sched/scheduler.h"

static inline enum backend_id forecast_backend(uint32_t server)
{
    return server == SERVER_CPU ? BACKEND_CPU : BACKEND_GPU;
}

struct prediction forecast_work(const struct scheduler *s, uint32_t server, const struct work *w);

/* Of what is in flight, how much is still to do. */
uint64_t forecast_backlog_ns(const struct server *sv, uint64_t now_ns);
/* The same, as it counts towards the window. */
uint64_t forecast_window_ns(const struct server *sv, uint64_t now_ns);

/* Until a ticket could start that stands behind own_ns of its tenant's line there. */
uint64_t forecast_wait_ns(const struct scheduler *s, const struct ticket *t, uint32_t server,
                          uint64_t own_ns, uint64_t charge_ns, uint64_t now_ns);

/* What one more makes its line longer by: where others in line can run as one with it, only what
 * it adds to them. busy_ns: alone. */
uint64_t forecast_added_ns(const struct scheduler *s, const struct ticket *t, uint64_t busy_ns);

/* How many of t's queries, from the first, to run on the GPU so that it and the CPU, both idle, end
 * together, where that is well ahead of either alone; 0: nowhere. */
uint64_t forecast_split(const struct scheduler *s, const struct ticket *t);

#endif
