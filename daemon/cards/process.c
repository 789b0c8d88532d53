#include "daemon/cards/process.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/cards/process_inside.h"

enum {
    READY_POLL_MS = 5,
    STOP_PATIENCE_MS = 600,
    LOG_BYTES = 512,
};
#define BACKOFF_MIN_NS UINT64_C(100000000)
#define BACKOFF_MAX_NS UINT64_C(30000000000)

static void on_timer(uv_timer_t *timer);
static void on_exit_of(uv_process_t *process, int64_t code, int number);
static void on_wake(uv_poll_t *poll, int status, int events);

__attribute__((format(printf, 2, 3))) static void set_why(struct gpu_process *p, const char *format,
                                                          ...)
{
    char text[GPU_WHY_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    memcpy(p->why, text, sizeof text);
}

static void set_timer(struct gpu_process *p, uint64_t ms, uint64_t repeat_ms)
{
    uv_update_time(p->options.loop);
    int rc = uv_timer_start(&p->timer, on_timer, ms, repeat_ms);
    assert(rc == 0); /* fails for a handle that is closing, and without a callback */
    (void)rc;
}

/* ---------------------------------------------------------------- failing */

/* After the n-th failure in a row: at once, 100 ms, 200 ms, ... 30 s. */
static uint64_t backoff_ns(uint32_t failures)
{
    uint64_t ns = failures > 1 ? BACKOFF_MIN_NS : 0;
    for (uint32_t i = 2; i < failures && ns < BACKOFF_MAX_NS; i++)
        ns *= 2;
    return ns < BACKOFF_MAX_NS ? ns : BACKOFF_MAX_NS;
}

static void be_absent(struct gpu_process *p)
{
    p->state = GPU_ABSENT;
    log_warning("gpu%u: absent: %s; the CPU answers everything", p->options.number, p->why);
}

/* It, whose why is known, is down until it is started again. what: the event, for the log. */
static void count_failure(struct gpu_process *p, const char *what, uint64_t now_ns)
{
    char wait_text[GPU_TIME_BYTES];
    p->failures++;
    bool breaker = p->failures >= GPU_FAILURES_MAX;
    uint64_t wait_ns = breaker ? GPU_BREAKER_NS : backoff_ns(p->failures);
    p->state = breaker ? GPU_BREAKER : GPU_DOWN;
    p->next_start_ns = now_ns + wait_ns;
    p->waiting = true;
    gpu_describe_time(wait_ns, wait_text);
    log_warning("gpu%u: %s; restart %llu in %s", p->options.number, what,
                (unsigned long long)p->starts, wait_text);
    if (breaker)
        log_error("gpu%u: breaker %s: %u failures in a row, the last: %s; the CPU answers "
                  "everything",
                  p->options.number, p->breaker_open ? "open again" : "open", p->failures, p->why);
    p->breaker_open = breaker;
    set_timer(p, wait_ns / 1000000, 0);
}

/* ---------------------------------------------------------------- starting */

/* It has been READY, in this life or an earlier one: what is missing now may come back. */
static bool has_worked(const struct gpu_process *p)
{
    return p->share != NULL;
}

/* Whether another try could not do better. */
static bool is_final(const struct gpu_process *p, int rc)
{
    if (has_worked(p)) return false;
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

static void start_life(struct gpu_process *p, uint64_t now_ns)
{
    if (p->breaker_open) log_info("gpu%u: breaker half-open: trying one start", p->options.number);
    p->waiting = p->ready = p->killed = p->given_up = p->lingering = false;
    p->why[0] = 0;
    p->starts++;
    p->started_ns = p->checked_ns = now_ns;
    int rc = gpu_life_start(p, on_exit_of, on_wake, &p->life);
    if (rc) {
        set_why(p, "%.200s: %s", p->program, strerror(-rc));
        char what[LOG_BYTES];
        snprintf(what, sizeof what, "cannot start %s", p->why);
        if (is_final(p, rc))
            be_absent(p);
        else
            count_failure(p, what, now_ns);
        return;
    }
    share_orders(p->life->share, p->life->orders_fd, &p->orders);
    share_completions(p->life->share, p->life->completions_fd, &p->completions);
    p->state = GPU_STARTING;
    set_timer(p, READY_POLL_MS, READY_POLL_MS);
}

void gpu_process_start(struct gpu_process *p)
{
    if (p->begun || p->stopping) return;
    p->begun = true;
    start_life(p, clock_now_ns());
}

/* ---------------------------------------------------------------- ending */

/* Nothing more is asked of it; the rest happens when it is reaped. */
static void end_life(struct gpu_process *p)
{
    p->killed = true;
    p->killed_ns = clock_now_ns();
    p->state = GPU_DOWN;
    uv_timer_stop(&p->timer);
    uv_process_kill(&p->life->process, SIGKILL);
}

void gpu_process_kill(struct gpu_process *p, const char *why)
{
    if (!p->life || p->killed) return;
    set_why(p, "%s", why);
    log_warning("gpu%u: %s: killed", p->options.number, why);
    end_life(p);
}

/* Its own word on why it ends, if it left one. True: it is not to go on. */
static bool read_verdict(struct gpu_process *p)
{
    struct share *s = p->life->share;
    char why[SHARE_WHY];
    uint32_t state = atomic_load(&s->state);
    if (state != SHARE_ABSENT && state != SHARE_BROKEN) return false;
    share_copy_text(why, sizeof why, s->why, sizeof s->why);
    const char *said = why[0] ? why : "it does not say why";
    p->given_up = state == SHARE_ABSENT && !has_worked(p);
    if (p->given_up) {
        set_why(p, "%s", said);
    } else {
        set_why(p, "the device failed: %s", said);
        log_warning("gpu%u: %s", p->options.number, p->why);
    }
    return true;
}

static void describe_exit(int64_t code, int number, char *text, size_t bytes)
{
    const char *name = number ? sigdescr_np(number) : NULL;
    if (number)
        snprintf(text, bytes, "exited with signal %d (%s)", number, name ? name : "?");
    else
        snprintf(text, bytes, "exited with code %d", (int)code);
}

/* It is reaped. on_gone comes last: its receiver may stop and destroy us. */
static void on_exit_of(uv_process_t *process, int64_t code, int number)
{
    struct gpu_life *l = process->data;
    struct gpu_process *p = l->owner;
    struct gpu_process_events events = p->options.events;
    uint64_t now_ns = clock_now_ns();
    char how[64], what[LOG_BYTES], lived[GPU_TIME_BYTES];
    describe_exit(code, number, how, sizeof how);
    gpu_describe_time(gpu_elapsed(now_ns, p->started_ns), lived);
    snprintf(what, sizeof what, "%s after %s", how, lived);

    if (!p->killed) read_verdict(p);
    p->killed = true; /* its number may be another's from now on */
    p->state = GPU_DOWN;
    if (p->ready) events.on_completions(events.owner);

    uv_timer_stop(&p->timer);
    l->share_kept = l->share == p->share;
    gpu_life_end(l);
    p->life = NULL;
    if (!p->why[0]) set_why(p, "%s", how);
    if (p->given_up)
        be_absent(p);
    else if (p->stopping)
        log_info("gpu%u: %s", p->options.number, what);
    else
        count_failure(p, what, now_ns);
    events.on_gone(events.owner);
}

/* ---------------------------------------------------------------- being ready */

static bool is_same_version(struct gpu_process *p)
{
    char version[SHARE_TEXT];
    const char *theirs = p->life->share->gpu_version;
    share_copy_text(version, sizeof version, theirs, SHARE_TEXT);
    if (strcmp(version, ENGRAM_VERSION) == 0) return true;
    set_why(p, "engram-accel-gpu is %s, engram-acceld %s: install both from one build", version,
            ENGRAM_VERSION);
    return false;
}

static void become_ready(struct gpu_process *p, uint64_t now_ns)
{
    struct share *s = p->life->share;
    if (!is_same_version(p)) {
        p->given_up = true;
        end_life(p);
        return;
    }
    char took[GPU_TIME_BYTES], text[LOG_BYTES];
    uv_timer_stop(&p->timer);
    p->device = s->device;
    share_copy_text(p->device.name, sizeof p->device.name, s->device.name, sizeof s->device.name);
    share_copy_text(p->device.uuid, sizeof p->device.uuid, s->device.uuid, sizeof s->device.uuid);
    share_unmap(p->share);
    p->share = s;
    p->life->share_kept = true;
    p->ready = true;
    p->ready_ns = now_ns;
    p->state = GPU_READY;
    p->beat = atomic_load(&s->heartbeat_ns);
    p->beat_seen_ns = p->checked_ns = now_ns;
    gpu_describe_time(gpu_elapsed(now_ns, p->started_ns), took);
    gpu_describe_device(&p->device, text, sizeof text);
    log_info("gpu%u: %s; ready after %s", p->options.number, text, took);
    p->options.events.on_ready(p->options.events.owner);
}

/* Reads what the share says; of a process that is there and not killed. */
static void look(struct gpu_process *p, uint64_t now_ns)
{
    uint32_t state = atomic_load(&p->life->share->state);
    if (state == (p->ready ? SHARE_READY : SHARE_STARTING)) return;
    if (read_verdict(p))
        end_life(p);
    else if (state == SHARE_READY && !p->stopping)
        become_ready(p, now_ns);
    else if (state != SHARE_READY)
        gpu_process_kill(p, "what it shares with us is nonsense");
}

static void take_completions(struct gpu_process *p)
{
    if (!p->ready) return;
    p->options.events.on_completions(p->options.events.owner);
    if (ring_broken(&p->completions) || ring_broken(&p->orders))
        gpu_process_kill(p, "a ring that it shares with us holds nonsense");
}

static void on_wake(uv_poll_t *poll, int status, int events)
{
    struct gpu_life *l = poll->data;
    struct gpu_process *p = l->owner;
    if (status < 0) {
        uv_poll_stop(poll);
        gpu_process_kill(p, "its eventfd fails");
        return;
    }
    if (!p->killed) look(p, clock_now_ns());
    if (!p->ready)
        ring_wake(&p->completions); /* nobody else reads it, and it would wake us for ever */
    take_completions(p);
}

/* ---------------------------------------------------------------- watching */

static void check_starting(struct gpu_process *p, uint64_t now_ns)
{
    if (gpu_elapsed(now_ns, p->started_ns) > GPU_STARTING_NS)
        gpu_process_kill(p, "not ready within 30 s");
}

/* Its clock is not trusted, only that the number changes. While nobody checked, it may have been
 * standing still as we were (a paused machine): then its time begins anew. */
static void check_heartbeat(struct gpu_process *p, uint64_t now_ns)
{
    uint64_t limit_ns = (uint64_t)p->options.config->gpu_heartbeat_ms * 1000000;
    uint64_t gap_ns = gpu_elapsed(now_ns, p->checked_ns);
    uint64_t beat = atomic_load(&p->life->share->heartbeat_ns);
    p->checked_ns = now_ns;
    if (beat != p->beat || gap_ns > (limit_ns > GPU_CHECK_GAP_NS ? limit_ns : GPU_CHECK_GAP_NS)) {
        p->beat = beat;
        p->beat_seen_ns = now_ns;
        return;
    }
    uint64_t silent_ns = gpu_elapsed(now_ns, p->beat_seen_ns);
    if (silent_ns <= limit_ns) return;
    char why[64];
    snprintf(why, sizeof why, "no sign of life for %llu ms",
             (unsigned long long)(silent_ns / 1000000));
    gpu_process_kill(p, why);
}

static void check_lingering(struct gpu_process *p, uint64_t now_ns)
{
    if (p->lingering || gpu_elapsed(now_ns, p->killed_ns) < GPU_LINGER_NS) return;
    p->lingering = true;
    log_error("gpu%u: process %d was killed 5 s ago and is still there; no other is started before "
              "it is gone",
              p->options.number, uv_process_get_pid(&p->life->process));
    p->options.events.on_stuck(p->options.events.owner);
}

static void start_when_due(struct gpu_process *p, uint64_t now_ns)
{
    if (!p->waiting) return;
    if (now_ns >= p->next_start_ns)
        start_life(p, now_ns);
    else
        set_timer(p, (p->next_start_ns - now_ns) / 1000000 + 1, 0);
}

void gpu_process_check(struct gpu_process *p, uint64_t now_ns)
{
    if (!p->life) {
        if (p->waiting && now_ns >= p->next_start_ns) start_life(p, now_ns);
        return;
    }
    if (!p->killed) look(p, now_ns);
    take_completions(p);
    if (p->killed)
        check_lingering(p, now_ns);
    else if (p->ready)
        check_heartbeat(p, now_ns);
    else
        check_starting(p, now_ns);
}

static void on_timer(uv_timer_t *timer)
{
    struct gpu_process *p = timer->data;
    uint64_t now_ns = clock_now_ns();
    if (!p->life) {
        start_when_due(p, now_ns);
    } else if (p->stopping) {
        gpu_process_kill(p, "did not stop within 600 ms");
    } else if (!p->killed) {
        look(p, now_ns);
        if (p->life && !p->killed && !p->ready) check_starting(p, now_ns);
    }
}

void gpu_process_worked(struct gpu_process *p)
{
    if (p->breaker_open) log_info("gpu%u: breaker closed: it answers again", p->options.number);
    p->breaker_open = false;
    p->failures = 0;
}

/* ---------------------------------------------------------------- from create to destroy */

enum status gpu_process_create(const struct gpu_process_options *options, struct gpu_process **out)
{
    struct gpu_process *p = fault_here("gpu process: allocate") ? NULL : calloc(1, sizeof *p);
    if (!p) return STATUS_RESOURCE_EXHAUSTED;
    p->options = *options;
    p->state = GPU_DOWN;
    uv_timer_init(options->loop, &p->timer); /* never fails */
    p->timer.data = p;
    *out = p;
    return STATUS_OK;
}

void gpu_process_stop(struct gpu_process *p)
{
    if (p->stopping) return;
    p->stopping = true;
    p->waiting = false;
    if (p->state != GPU_ABSENT) p->state = GPU_DOWN;
    if (!p->life) {
        uv_timer_stop(&p->timer);
        p->options.events.on_gone(p->options.events.owner);
        return;
    }
    if (p->lingering) p->options.events.on_stuck(p->options.events.owner);
    if (p->killed) return;
    struct order *order = ring_reserve(&p->orders);
    if (order) {
        *order = (struct order){.kind = ORDER_STOP};
        ring_publish(&p->orders);
    }
    set_timer(p, STOP_PATIENCE_MS, 0);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void gpu_process_destroy(struct gpu_process *p)
{
    if (!p) return;
    assert(!p->life || p->lingering);
    if (p->life) { /* nobody will reap it */
        p->life->share_kept = p->life->share == p->share;
        gpu_life_end(p->life);
    }
    share_unmap(p->share);
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

/* ---------------------------------------------------------------- asking */

enum gpu_state gpu_process_state(const struct gpu_process *p)
{
    return p->state;
}

struct share *gpu_process_share(struct gpu_process *p)
{
    return p->share;
}

struct ring *gpu_process_orders(struct gpu_process *p)
{
    return p->life && p->ready ? &p->orders : NULL;
}

struct ring *gpu_process_completions(struct gpu_process *p)
{
    return p->life && p->ready ? &p->completions : NULL;
}

uint64_t gpu_process_ready_ns(const struct gpu_process *p)
{
    return p->state == GPU_READY ? p->ready_ns : 0;
}

uint64_t gpu_process_restarts(const struct gpu_process *p)
{
    return p->starts > 1 ? p->starts - 1 : 0;
}
