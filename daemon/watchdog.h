/* watchdog: tells the service manager that the daemon makes progress (WatchdogSec, sd_notify
 * WATCHDOG=1). The loop asks for it from a timer, so a loop that stands still tells nothing; and
 * it is not told while a worker that has work, or all of them while work waits, have shown no
 * progress for as long as the manager waits. Then the manager kills the daemon and starts it again.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_WATCHDOG_H
#define ENGRAM_WATCHDOG_H

#include "daemon/exec/workers.h"

/* A worker's pulse as it was when it last changed. */
struct worker_seen {
    uint32_t beats;
    uint64_t since_ns;
};

struct watchdog {
    uint64_t bound_ns; /* how long the manager waits; 0: nobody does */
    struct backend *cpu;
    uint32_t workers;
    struct worker_pulse (*pulse)(struct backend *cpu, uint32_t worker);
    struct worker_pulse (*line_pulse)(struct backend *cpu);
    void (*notify)(const char *state);
    bool is_silent; /* and the log says why */
    struct worker_seen seen[WORKERS_MAX], seen_line;
};

void watchdog_init(struct watchdog *w, uint64_t bound_us, struct backend *cpu, uint32_t workers,
                   void (*notify)(const char *state));
/* How often to check. */
uint64_t watchdog_gap_ms(const struct watchdog *w);
/* Tells the manager, unless a worker is stuck; returns whether it was told. */
bool watchdog_check(struct watchdog *w, uint64_t now_ns);

#endif
