#include "daemon/cards/process.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/cards/process_inside.h"

enum { STOP_PATIENCE_MS = 600, LOG_BYTES = 512 };

void gpu_process_set_why(struct gpu_process *p, const char *format, ...)
{
    char text[GPU_WHY_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    memcpy(p->why, text, sizeof text);
}

void gpu_process_set_timer(struct gpu_process *p, uint64_t ms, uint64_t repeat_ms)
{
    p->options.host->set_timer(p, ms, repeat_ms);
}

void gpu_process_start(struct gpu_process *p)
{
    if (p->begun || p->stopping) return;
    p->begun = true;
    restart_now(p, clock_read_ns(p->options.clock));
}

/* ---------------------------------------------------------------- ending */

/* Takes the process out of use; the rest happens when it is reaped. */
static void end_life(struct gpu_process *p)
{
    p->killed = true;
    p->killed_ns = clock_read_ns(p->options.clock);
    p->state = GPU_DOWN;
    p->options.host->stop_timer(p);
    p->options.host->kill(p->life);
}

void gpu_process_kill(struct gpu_process *p, const char *why)
{
    if (!p->life || p->killed) return;
    gpu_process_set_why(p, "%s", why);
    log_warning("gpu%u: %s: killed", p->options.number, why);
    end_life(p);
}

/* Reads the reason that the process left for its end. True: it must not be started again. */
static bool read_verdict(struct gpu_process *p)
{
    struct share *s = p->life->share;
    char why[SHARE_WHY];
    uint32_t state = atomic_load(&s->state);
    if (state != SHARE_ABSENT && state != SHARE_BROKEN) return false;
    share_copy_text(why, sizeof why, s->why, sizeof s->why);
    const char *said = why[0] ? why : "it does not say why";
    p->given_up = state == SHARE_ABSENT && !gpu_process_has_worked(p);
    if (p->given_up) {
        gpu_process_set_why(p, "%s", said);
    } else {
        gpu_process_set_why(p, "the device failed: %s", said);
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

/* Called when the process has been reaped. on_gone comes last, because its receiver may stop and
 * destroy p. */
void gpu_process_exited(struct process_life *l, int64_t code, int number)
{
    struct gpu_process *p = l->owner;
    struct gpu_process_events events = p->options.events;
    uint64_t now_ns = clock_read_ns(p->options.clock);
    char how[64], what[LOG_BYTES], lived[GPU_TIME_BYTES];
    describe_exit(code, number, how, sizeof how);
    process_describe_time(process_elapsed_ns(now_ns, p->started_ns), lived);
    snprintf(what, sizeof what, "%s after %s", how, lived);

    if (!p->killed) read_verdict(p);
    p->killed = true; /* its process number may be reused from now on */
    p->state = GPU_DOWN;
    if (p->ready) events.on_completions(events.owner);

    p->options.host->stop_timer(p);
    l->share_kept = l->share == p->share;
    p->options.host->end(l);
    p->life = NULL;
    if (!p->why[0]) gpu_process_set_why(p, "%s", how);
    if (p->given_up)
        restart_never(p);
    else if (p->stopping)
        log_info("gpu%u: %s", p->options.number, what);
    else
        restart_later(p, what, now_ns);
    events.on_gone(events.owner);
}

/* ---------------------------------------------------------------- being ready */

static bool is_same_version(struct gpu_process *p)
{
    char version[SHARE_TEXT];
    const char *theirs = p->life->share->gpu_version;
    share_copy_text(version, sizeof version, theirs, SHARE_TEXT);
    if (strcmp(version, ENGRAM_VERSION) == 0) return true;
    gpu_process_set_why(p, "engram-accel-gpu is %s, engram-acceld %s: install both from one build",
                        version, ENGRAM_VERSION);
    return false;
}

/* Tells it what may be set while it runs. */
static void pass_settings(struct gpu_process *p)
{
    char memory = *p->options.config->screen_memory;
    atomic_store_explicit(&p->life->share->shadows, memory == 'a' || memory == 'g',
                          memory_order_relaxed);
}

/* Says it when rows in int8 were found to have changed. */
static void look_at_shadows(struct gpu_process *p)
{
    uint64_t differed =
        atomic_load_explicit(&p->life->share->usage.shadows_differed, memory_order_relaxed);
    if (differed != p->shadows_differed)
        log_error("gpu%u: rows in int8 had changed in its memory: they are made anew from the rows",
                  p->options.number);
    p->shadows_differed = differed;
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
    p->options.host->stop_timer(p);
    p->device = s->device;
    share_copy_text(p->device.name, sizeof p->device.name, s->device.name, sizeof s->device.name);
    share_copy_text(p->device.uuid, sizeof p->device.uuid, s->device.uuid, sizeof s->device.uuid);
    card_totals_end_life(&p->totals, p->share ? &p->share->usage : NULL);
    share_unmap(p->share);
    p->share = s;
    p->life->share_kept = true;
    p->ready = true;
    p->ready_ns = now_ns;
    p->state = GPU_READY;
    pass_settings(p);
    p->shadows_differed = 0;
    p->beat = atomic_load(&s->heartbeat_ns);
    p->beat_seen_ns = p->checked_ns = now_ns;
    process_describe_time(process_elapsed_ns(now_ns, p->started_ns), took);
    process_describe_device(&p->device, text, sizeof text);
    log_info("gpu%u: %s; ready after %s", p->options.number, text, took);
    p->options.events.on_ready(p->options.events.owner);
}

/* Reads the state in the share; for a process that runs and has not been killed. */
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

void gpu_process_woken(struct process_life *l)
{
    struct gpu_process *p = l->owner;
    if (!p->killed) look(p, clock_read_ns(p->options.clock));
    if (!p->ready) /* nobody else reads this ring, and its eventfd would wake the loop for ever */
        ring_wake(&p->completions);
    take_completions(p);
}

void gpu_process_check(struct gpu_process *p, uint64_t now_ns)
{
    if (!p->life) {
        if (p->waiting && now_ns >= p->next_start_ns) restart_now(p, now_ns);
        return;
    }
    if (!p->killed) look(p, now_ns);
    take_completions(p);
    if (p->ready) {
        pass_settings(p);
        look_at_shadows(p);
    }
    if (p->killed)
        heartbeat_check_lingering(p, now_ns);
    else if (p->ready)
        heartbeat_check(p, now_ns);
    else
        heartbeat_check_starting(p, now_ns);
}

void gpu_process_timed(struct gpu_process *p)
{
    uint64_t now_ns = clock_read_ns(p->options.clock);
    if (!p->life) {
        restart_when_due(p, now_ns);
    } else if (p->stopping) {
        gpu_process_kill(p, "did not stop within 600 ms");
    } else if (!p->killed) {
        look(p, now_ns);
        if (p->life && !p->killed && !p->ready) heartbeat_check_starting(p, now_ns);
    }
}

/* ---------------------------------------------------------------- from create to destroy */

enum status gpu_process_create(const struct gpu_process_options *options, struct gpu_process **out)
{
    struct gpu_process *p = fault_here("gpu process: allocate") ? NULL : calloc(1, sizeof *p);
    if (!p) return STATUS_RESOURCE_EXHAUSTED;
    p->options = *options;
    p->state = GPU_DOWN;
    if (!p->options.host) p->options.host = &process_host_system;
    p->options.host->begin(p);
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
        p->options.host->stop_timer(p);
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
    gpu_process_set_timer(p, STOP_PATIENCE_MS, 0);
}

void gpu_process_wait(struct gpu_process *p)
{
    p->options.host->wait(p);
}

void gpu_process_destroy(struct gpu_process *p)
{
    if (!p) return;
    assert(!p->life || p->lingering);
    if (p->life) { /* nobody will reap it */
        p->life->share_kept = p->life->share == p->share;
        p->options.host->end(p->life);
    }
    share_unmap(p->share);
    p->options.host->forget(p);
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

const struct card_totals *gpu_process_totals(struct gpu_process *p)
{
    card_totals_look(&p->totals, p->share ? &p->share->usage : NULL);
    return &p->totals;
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
