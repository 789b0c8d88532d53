/* heartbeat: checks that a GPU process is alive: it becomes ready in time, its heartbeat changes,
 * and it ends after it was killed. */
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/cards/process_inside.h"

void heartbeat_check_starting(struct gpu_process *p, uint64_t now_ns)
{
    if (process_elapsed_ns(now_ns, p->started_ns) > GPU_STARTING_NS)
        gpu_process_kill(p, "not ready within 30 s");
}

/* Only changes of the number count, because the process's clock is not trusted. If nobody checked
 * for a while, the whole machine may have been paused: then the process gets its full time
 * again. */
void heartbeat_check(struct gpu_process *p, uint64_t now_ns)
{
    uint64_t limit_ns = (uint64_t)p->options.config->gpu_heartbeat_ms * 1000000;
    uint64_t gap_ns = process_elapsed_ns(now_ns, p->checked_ns);
    uint64_t beat = atomic_load(&p->life->share->heartbeat_ns);
    p->checked_ns = now_ns;
    if (beat != p->beat || gap_ns > (limit_ns > GPU_CHECK_GAP_NS ? limit_ns : GPU_CHECK_GAP_NS)) {
        p->beat = beat;
        p->beat_seen_ns = now_ns;
        return;
    }
    uint64_t silent_ns = process_elapsed_ns(now_ns, p->beat_seen_ns);
    if (silent_ns <= limit_ns) return;
    char why[64];
    snprintf(why, sizeof why, "no sign of life for %llu ms",
             (unsigned long long)(silent_ns / 1000000));
    gpu_process_kill(p, why);
}

void heartbeat_check_lingering(struct gpu_process *p, uint64_t now_ns)
{
    if (p->lingering || process_elapsed_ns(now_ns, p->killed_ns) < GPU_LINGER_NS) return;
    p->lingering = true;
    log_error("gpu%u: process %d was killed 5 s ago and is still there; no other is started before "
              "it is gone",
              p->options.number, (int)p->life->process_id);
    p->options.events.on_stuck(p->options.events.owner);
}
