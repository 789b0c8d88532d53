/* restart: when a GPU process is started again: at once, then after growing waits, then by the
 * breaker. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/cards/process_inside.h"

enum { READY_POLL_MS = 5, LOG_BYTES = 512 };
#define BACKOFF_MIN_NS UINT64_C(100000000)
#define BACKOFF_MAX_NS UINT64_C(30000000000)

/* The wait after the n-th failure in a row: none, 100 ms, 200 ms, ... 30 s. */
static uint64_t backoff_ns(uint32_t failures)
{
    uint64_t ns = failures > 1 ? BACKOFF_MIN_NS : 0;
    for (uint32_t i = 2; i < failures && ns < BACKOFF_MAX_NS; i++)
        ns *= 2;
    return ns < BACKOFF_MAX_NS ? ns : BACKOFF_MAX_NS;
}

void restart_never(struct gpu_process *p)
{
    p->state = GPU_ABSENT;
    log_warning("gpu%u: absent: %s; the CPU answers everything", p->options.number, p->why);
}

/* Puts the process, whose why is set, down until its next start. what: the event, for the log. */
void restart_later(struct gpu_process *p, const char *what, uint64_t now_ns)
{
    char wait_text[GPU_TIME_BYTES];
    p->failures++;
    bool breaker = p->failures >= GPU_FAILURES_MAX;
    uint64_t wait_ns = breaker ? GPU_BREAKER_NS : backoff_ns(p->failures);
    p->state = breaker ? GPU_BREAKER : GPU_DOWN;
    p->next_start_ns = now_ns + wait_ns;
    p->waiting = true;
    process_describe_time(wait_ns, wait_text);
    log_warning("gpu%u: %s; restart %llu in %s", p->options.number, what,
                (unsigned long long)p->starts, wait_text);
    if (breaker)
        log_error("gpu%u: breaker %s: %u failures in a row, the last: %s; the CPU answers "
                  "everything",
                  p->options.number, p->breaker_open ? "open again" : "open", p->failures, p->why);
    p->breaker_open = breaker;
    gpu_process_set_timer(p, wait_ns / 1000000, 0);
}

/* ---------------------------------------------------------------- starting */

/* True if another attempt cannot succeed. */
static bool is_final(const struct gpu_process *p, int rc)
{
    if (gpu_process_has_worked(p)) return false;
    switch (-rc) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case ENOTDIR:
    case EISDIR:
    case ENOEXEC:
    case ELOOP:
    case ENAMETOOLONG: return true;
    default: return false;
    }
}

void restart_now(struct gpu_process *p, uint64_t now_ns)
{
    if (p->breaker_open) log_info("gpu%u: breaker half-open: trying one start", p->options.number);
    p->waiting = p->ready = p->killed = p->given_up = p->lingering = false;
    p->why[0] = 0;
    p->starts++;
    p->started_ns = p->checked_ns = now_ns;
    int rc = p->options.host->start(p, &p->life);
    if (rc) {
        gpu_process_set_why(p, "%.200s: %s", p->program, strerror(-rc));
        char what[LOG_BYTES];
        snprintf(what, sizeof what, "cannot start %s", p->why);
        if (is_final(p, rc))
            restart_never(p);
        else
            restart_later(p, what, now_ns);
        return;
    }
    share_orders(p->life->share, p->life->orders_fd, &p->orders);
    share_completions(p->life->share, p->life->completions_fd, &p->completions);
    p->state = GPU_STARTING;
    gpu_process_set_timer(p, READY_POLL_MS, READY_POLL_MS);
}

void restart_when_due(struct gpu_process *p, uint64_t now_ns)
{
    if (!p->waiting) return;
    if (now_ns >= p->next_start_ns)
        restart_now(p, now_ns);
    else
        gpu_process_set_timer(p, (p->next_start_ns - now_ns) / 1000000 + 1, 0);
}

void gpu_process_worked(struct gpu_process *p)
{
    if (p->breaker_open) log_info("gpu%u: breaker closed: it answers again", p->options.number);
    p->breaker_open = false;
    p->failures = 0;
}
