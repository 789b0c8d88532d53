/* engine_stop: how the engine ends: it finishes requests, and then everything is saved, or another
 * daemon that waits gets it as it lies in memory (handover/hand_over.h). */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/cards/cards.h"
#include "daemon/engine_inside.h"
#include "daemon/handover/hand_over.h"
#include "daemon/heap/adopt.h"
#include "daemon/learn/calibrate.h"
#include "daemon/net/connection.h"
#include "daemon/request/pipeline.h"
#include "daemon/store/adopt.h"

/* ---------------------------------------------------------------- stopping */

void engine_stop_now(struct engine *e)
{
    atomic_store(&e->readiness.phase, LIFE_STOPPING);
    pipeline_drain(e->pipeline);
    calibrate_stop(e->calibrate);
    if (e->net_open) net_close(&e->net);
    cards_begin_stop(e->gpu); /* GPU processes may have more work than anyone will wait for */
    /* Jobs of GPUs cannot be stopped, and nobody waits for them: engine_destroy ends them. */
    if (e->running && pipeline_count(e->pipeline).stopping == 0) uv_stop(&e->loop);
}

/* For a successor they are answered first, and those answers get some time to be read. */
static void on_drain_limit(uv_timer_t *timer)
{
    struct engine *e = timer->data;
    struct pipeline_counts left = pipeline_count(e->pipeline);
    if (e->restarts && !e->cut_off) {
        log_info("hand-over: %u request%s still in flight after limits.hand_over_ms", left.clients,
                 left.clients == 1 ? " was" : "s were");
        e->cut_off = true;
        pipeline_cut_off(e->pipeline);
        uv_timer_start(&e->drain_limit, on_drain_limit, CONNECTION_LINGER_MS, 0);
        return;
    }
    log_warning("drain: %u requests were still in flight after limits.drain_ms", left.clients);
    atomic_store(&e->stop_request, STOP_NOW);
    engine_stop_now(e);
}

static void begin_drain(struct engine *e)
{
    if (e->options.notify) e->options.notify("STOPPING=1");
    pipeline_drain(e->pipeline);
    uv_timer_start(&e->drain_limit, on_drain_limit, e->config.drain_ms_max, 0);
}

static void begin_restart(struct engine *e)
{
    net_hand_listeners(&e->net, &e->options.leaves->listeners);
    pipeline_restart(e->pipeline);
    uv_timer_start(&e->drain_limit, on_drain_limit, e->config.hand_over_ms_max, 0);
}

void engine_start_drain(struct engine *e)
{
    if (e->draining) return;
    e->draining = true;
    atomic_store(&e->readiness.phase, LIFE_STOPPING);
    calibrate_stop(e->calibrate);
    log_info("stopping: finishing %u requests of %u connections",
             pipeline_count(e->pipeline).clients, e->net.counters.open);
    if (e->restarts)
        begin_restart(e);
    else
        begin_drain(e);
    net_drain(&e->net);
}

void engine_on_stop_wake(uv_async_t *async)
{
    struct engine *e = async->data;
    if (atomic_load(&e->stop_request) == STOP_NOW)
        engine_stop_now(e);
    else
        engine_start_drain(e);
}

void engine_stop(struct engine *e, bool drain)
{
    atomic_store(&e->stop_request, drain ? STOP_DRAIN : STOP_NOW);
    uv_async_send(&e->stop_wake);
}

/* ---------------------------------------------------------------- a successor */

static int keep_descriptor(struct connection *c)
{
    uv_os_fd_t fd;
    return uv_fileno(&c->uv.handle, &fd) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* Why nothing can be handed over; NULL: it can. */
static const char *hindrance(const struct engine *e)
{
    return e->load.under_way ? "the daemon is still loading its data" : NULL;
}

void engine_on_hand_over(void *owner, struct connection *c, const void *ask)
{
    struct engine *e = owner;
    struct failure f = {0};
    if (e->draining || e->restarts) return; /* who asks sees that it is closed */
    int fd = keep_descriptor(c);
    if (fd < 0) return;
    const char *why = hindrance(e);
    if (why) hand_over_refuse(fd, why);
    if (why || !hand_over_accept(fd, ask, &f)) {
        log_warning("hand-over: refused to %s: %s", c->from, why ? why : f.text);
        close(fd);
        return;
    }
    log_info("hand-over: asked for by %s", c->from);
    e->options.leaves->peer_fd = fd;
    e->restarts = true;
    engine_stop(e, true);
}

static enum status write_catalogue(struct engine *e, int *fd, struct failure *f)
{
    struct catalogue_writer *w = NULL;
    enum status st = catalogue_begin(&w);
    if (st) return failure_set(f, st, DETAIL_MEMORY, "no memory for a catalogue");
    st = store_tell(e->store, w, f);
    if (st) {
        catalogue_abandon(w);
        return st;
    }
    pipeline_tell(e->pipeline, w);
    persist_tell(e->load.persist, w);
    st = catalogue_end(w, fd);
    return st ? failure_set(f, st, DETAIL_MEMORY, "no memory for a catalogue") : STATUS_OK;
}

bool engine_tell(struct engine *e, bool *saved)
{
    struct hand_over *h = e->options.leaves;
    struct failure f = {0};
    int fd = -1;
    bool stays = e->options.leaves_to_manager && e->config.persist_hand_over;
    if (!h || !e->has_run || !(e->restarts || stays)) return false;
    if (hindrance(e) || e->load.failure.code) return false;
    enum status st = write_catalogue(e, &fd, &f);
    if (!st && (st = hand_over_make(h, heap_fd(e->heap), fd)))
        failure_set(&f, st, DETAIL_MEMORY, "no memory for what is handed over");
    if (st) {
        log_error("hand-over: %s", f.text);
        hand_over_close(h);
        return false;
    }
    *saved = e->restarts || persist_has_all(e->load.persist);
    if (*saved && !e->restarts)
        log_info("persist: not saved: all that was written is in the journal");
    return true;
}

void engine_give(struct engine *e)
{
    struct failure f = {0};
    struct hand_over *h = e->options.leaves;
    heap_leave(e->heap); /* before the successor has it */
    if (e->restarts && hand_over_give(h, (int)e->config.successor_ms_max, &f))
        log_info("hand-over: the successor serves");
    else if (e->restarts)
        log_error("hand-over: %s; going on", f.text);
}
