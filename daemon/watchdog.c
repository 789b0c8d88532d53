#include "daemon/watchdog.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/base/log.h"

void watchdog_init(struct watchdog *w, uint64_t bound_us, struct backend *cpu, uint32_t workers,
                   void (*notify)(const char *state))
{
    memset(w, 0, sizeof *w);
    w->bound_ns = notify ? bound_us * 1000 : 0;
    w->cpu = cpu;
    w->workers = workers;
    w->pulse = workers_pulse;
    w->line_pulse = workers_line_pulse;
    w->notify = notify;
    if (w->bound_ns)
        log_info("watchdog: the service manager wants a sign of life every %" PRIu64 " ms",
                 w->bound_ns / 1000000);
}

uint64_t watchdog_gap_ms(const struct watchdog *w)
{
    uint64_t ms = w->bound_ns / 4000000;
    return ms ? ms : 1;
}

/* How long there has been the same work without progress. */
static uint64_t stands_for_ns(struct worker_seen *seen, struct worker_pulse pulse, uint64_t now_ns)
{
    if (!pulse.busy || pulse.beats != seen->beats || !seen->since_ns)
        *seen = (struct worker_seen){pulse.beats, now_ns};
    return now_ns - seen->since_ns;
}

bool watchdog_check(struct watchdog *w, uint64_t now_ns)
{
    bool stuck = false;
    if (!w->bound_ns) return false;
    for (uint32_t i = 0; i < w->workers; i++) {
        uint64_t stands_ns = stands_for_ns(&w->seen[i], w->pulse(w->cpu, i), now_ns);
        if (stands_ns < w->bound_ns) continue;
        if (!stuck && !w->is_silent)
            log_error("watchdog: worker %u has shown no progress for %" PRIu64
                      " ms: the service manager is told nothing until it does",
                      i, stands_ns / 1000000);
        stuck = true;
    }
    uint64_t line_ns = stands_for_ns(&w->seen_line, w->line_pulse(w->cpu), now_ns);
    if (line_ns >= w->bound_ns) {
        if (!stuck && !w->is_silent)
            log_error("watchdog: work waits, and no worker has taken any for %" PRIu64
                      " ms: the service manager is told nothing until one does",
                      line_ns / 1000000);
        stuck = true;
    }
    if (w->is_silent && !stuck) log_warning("watchdog: all workers make progress again");
    w->is_silent = stuck;
    if (!stuck) w->notify("WATCHDOG=1");
    return !stuck;
}
