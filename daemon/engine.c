#include "daemon/engine_inside.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/cards/cards.h"
#include "daemon/engine_memory.h"
#include "daemon/exec/workers.h"
#include "daemon/handover/hand_over.h"
#include "daemon/heap/adopt.h"
#include "daemon/http/http.h"
#include "daemon/learn/calibrate.h"
#include "daemon/learn/model_keeper.h"
#include "daemon/net/connection.h"
#include "daemon/ops/hrr_plans.h"
#include "daemon/request/pipeline.h"
#include "daemon/request/probe.h"
#include "daemon/request/trials.h"

/* One timer for all that is looked at now and then: an idle daemon wakes as seldom. */
enum { TRIM_EVERY = 10 };

static void close_handle(uv_handle_t *handle, void *unused)
{
    if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

/* ---------------------------------------------------------------- HTTP */

static void wake_loop(void *owner)
{
    struct engine *e = owner;
    uv_async_send(&e->done_wake);
}

static void look(void *owner, struct look *out)
{
    struct engine *e = owner;
    pipeline_look(e->pipeline, out);
}

/* Serves HTTP as these settings say; e->http stays as it is where they are wrong. */
static enum status renew_http(void *owner, const struct config *c, struct failure *f)
{
    struct engine *e = owner;
    struct failure why = {0};
    struct http_options options = {
        .config = c, .clock = e->clock, .readiness = &e->readiness, .wake = wake_loop, .owner = e};
    enum status st = http_renew(&options, &e->http, &why);
    return st ? live_settings_refuse(&e->live, c, &why, f) : STATUS_OK;
}

const char *engine_http_address(const struct engine *e)
{
    return e->http ? http_address(e->http) : NULL;
}

/* ---------------------------------------------------------------- signals */

static void on_signal(uv_signal_t *handle, int number)
{
    struct engine *e = handle->data;
    if (!e->net_open && number != SIGHUP) { /* half-built: there is nothing to finish */
        atomic_store(&e->stop_request, STOP_NOW);
    } else if (number == SIGHUP) {
        live_settings_hangup(&e->live);
    } else if (!e->draining) {
        atomic_store(&e->stop_request, STOP_DRAIN);
        engine_start_drain(e);
    } else {
        log_info("stopping at once");
        e->restarts = false;
        atomic_store(&e->stop_request, STOP_NOW);
        engine_stop_now(e);
    }
}

/* ---------------------------------------------------------------- turning */

/* Sends the replies to what is done, before anything is started: a worker that wakes may take the
 * loop's processor away. */
static void answer(struct engine *e)
{
    pipeline_collect(e->pipeline);
    net_flush(&e->net);
}

static void on_done_wake(uv_async_t *async)
{
    struct engine *e = async->data;
    if (e->net_open)
        answer(e); /* on_turn does the rest */
    else if (e->pipeline)
        pipeline_tick(e->pipeline);
}

/* Sends everything that is ready. Flushing may resume paused connections, which may queue
 * requests. */
static void turn(struct engine *e)
{
    do {
        pipeline_tick(e->pipeline);
        net_flush(&e->net);
    } while (pipeline_has_arrivals(e->pipeline));
    if (!net_wake_ns(&e->net)) uv_async_send(&e->done_wake);
}

/* Sets the timer for when the scheduler wants to be called again, or an order should end. */
static void set_wake(struct engine *e)
{
    uint64_t ns = pipeline_wake_ns(e->pipeline), card_ns = cards_wake_ns(e->gpu);
    uint64_t net_ns = net_wake_ns(&e->net);
    if (card_ns < ns) ns = card_ns;
    if (net_ns < ns) ns = net_ns;
    wake_timer_set(&e->wake, ns);
}

/* Runs before the loop sleeps. While GPUs answer at once the loop might never sleep, so after a
 * few rounds the sockets get their turn. */
static void on_turn(uv_prepare_t *prepare)
{
    enum { ROUNDS_MAX = 8 };
    struct engine *e = prepare->data;
    if (!e->net_open) return;
    http_turn(e->http, look, e);
    if (!engine_load_turn(&e->load)) atomic_store(&e->stop_request, STOP_NOW);
    uint32_t rounds = 0;
    if (heap_freed(e->heap)) pipeline_memory_freed(e->pipeline);
    answer(e);
    net_turn(&e->net);
    do
        turn(e);
    while (cards_watch(e->gpu, uv_backend_fd(&e->loop)) && ++rounds < ROUNDS_MAX);
    if (rounds == ROUNDS_MAX) {
        turn(e);
        uv_async_send(&e->done_wake);
    }
    set_wake(e);
    if (e->draining && e->net.counters.open == 0) atomic_store(&e->stop_request, STOP_NOW);
    if (atomic_load(&e->stop_request) == STOP_NOW) engine_stop_now(e);
}

static void on_housekeeping(uv_timer_t *timer)
{
    struct engine *e = timer->data;
    if (e->pipeline) pipeline_expire(e->pipeline, clock_read_ns(e->clock));
    cards_check(e->gpu, clock_read_ns(e->clock));
    /* the engine is half-built, and only waits for GPU processes to end */
    if (!e->net_open) return;
    net_sweep(&e->net);
    pipeline_keep_memory(e->pipeline);
    model_keeper_check(e->keeper, clock_read_ns(e->clock));
    engine_load_tell(&e->load, clock_read_ns(e->clock));
    if (!e->load.under_way) calibrate_check(e->calibrate, clock_read_ns(e->clock));
    struct pipeline_counts counts = pipeline_count(e->pipeline);
    bool idle = counts.jobs + counts.trials == 0 && counts.requests == e->requests_at_trim;
    /* GPU processes are still looked at as often as GPU_CHECK_GAP_NS wants. */
    net_pace(timer, idle && e->rested);
    if (e->http) pipeline_probe(e->pipeline, &e->readiness);
    if (++e->trim_countdown < TRIM_EVERY) return;
    e->trim_countdown = 0;
    e->requests_at_trim = counts.requests;
    heap_trim(e->heap, idle ? 0 : e->config.cache_mib_max << 20);
    if (idle && !e->rested) malloc_trim(0);
    if (idle) pipeline_rest(e->pipeline);
    e->rested = idle;
}

/* ---------------------------------------------------------------- building */

/* Makes the cost model, its keeper and the calibration. */
static enum status build_model(struct engine *e, struct failure *f)
{
    struct model_keeper_options kept = {
        .loop = &e->loop,
        .workers = e->worker_count,
        .kernels = e->kernels,
        .gpu = e->gpu,
        .model = pipeline_cost_model(e->pipeline),
        .path = e->config.model_file,
        .now_ns = clock_read_ns(e->clock),
    };
    enum status st = model_keeper_create(&kept, &e->keeper);
    struct calibrate_options calibrated = {
        .config = &e->config,
        .clock = e->clock,
        .store = e->store,
        .heap = e->heap,
        .gpu = e->gpu,
        .model = kept.model,
        .keeper = e->keeper,
        .runner = trials_runner(e->pipeline),
    };
    if (!st) st = calibrate_create(&calibrated, &e->calibrate);
    if (st) return failure_set(f, st, DETAIL_MEMORY, "sched.calibrate: no memory");
    return STATUS_OK;
}

static enum status build_backends(struct engine *e, struct failure *f)
{
    e->done.wake = wake_loop;
    e->done.owner = e;
    e->worker_count = e->config.worker_count ? e->config.worker_count : workers_usable_processors();
    enum status st = workers_create(e->worker_count, e->config.worker_pin, &e->done, &e->cpu);
    if (st)
        return failure_set(f, st, DETAIL_SYSTEM, "workers.count: cannot start %u threads",
                           e->worker_count);
    struct cards_options gpu = {.loop = &e->loop,
                                .config = &e->config,
                                .heap = e->heap,
                                .done = &e->done,
                                .cpu = e->cpu,
                                .clock = e->clock};
    st = cards_create(&gpu, &e->gpu);
    if (st) return failure_set(f, st, DETAIL_MEMORY, "gpu.devices: no memory for the GPU backend");
    return STATUS_OK;
}

static enum status build_pipeline(struct engine *e, struct failure *f)
{
    const struct secret_source from = {"auth.token_file", e->config.token_file, false};
    struct secret token;
    enum status st = from.path[0] ? secret_read(&from, &token, f) : STATUS_OK;
    if (st) return st;
    struct pipeline_options options = {
        .config = &e->config,
        .clock = e->clock,
        .heap = e->heap,
        .store = e->store,
        .net = &e->net,
        .kernels = e->kernels,
        .done = &e->done,
        .cpu = e->cpu,
        .gpu = e->gpu,
        .worker_count = e->worker_count,
        .token = from.path[0] ? &token : NULL,
        .asked = &e->live.asked,
        .set_setting = live_settings_set,
        .reload_settings = live_settings_reload,
        .reloads = &e->live.reloads,
        .settings_owner = &e->live,
    };
    st = pipeline_create(&options, &e->pipeline);
    e->live.pipeline = e->pipeline;
    if (st) return failure_set(f, st, DETAIL_MEMORY, "limits.requests_total: no memory");
    return STATUS_OK;
}

/* What a daemon has left behind and cannot be adopted is gone: there are snapshots. One that waits
 * goes on with it. */
static enum status build_memory(struct engine *e, struct failure *f)
{
    struct hand_over *from = e->options.adopts;
    enum status st = engine_memory_build(&e->config, e->kernels, from, &e->heap, &e->store, f);
    if (!st || !from || from->peer_fd >= 0) return st;
    log_error("hand-over: %s; nothing of it is used", f->text);
    if (e->heap) heap_leave(e->heap);
    store_destroy(e->store);
    heap_destroy(e->heap);
    e->store = NULL;
    e->heap = NULL;
    e->options.adopts = NULL;
    return engine_memory_build(&e->config, e->kernels, NULL, &e->heap, &e->store, f);
}

/* Makes everything but the network. */
static enum status build(struct engine *e, struct failure *f)
{
    e->clock = &clock_real;
    e->kernels = vectors_choose(e->config.kernels);
    if (!e->kernels)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "kernels: this machine cannot run '%s'", e->config.kernels);
    /* first, because what follows may take minutes: /readyz says meanwhile that it is loading */
    enum status st = renew_http(e, &e->config, f);
    if (!st) st = build_memory(e, f);
    if (!st) st = build_backends(e, f);
    if (!st) st = build_pipeline(e, f);
    struct persist_options data = {.config = &e->config,
                                   .heap = e->heap,
                                   .store = e->store,
                                   .kernels = e->kernels,
                                   .wake = wake_loop,
                                   .goes_on = engine_goes_on,
                                   .owner = e,
                                   .token = pipeline_know_token,
                                   .token_owner = e->pipeline};
    e->load = (struct engine_load){
        .pipeline = e->pipeline, .readiness = &e->readiness, .notify = e->options.notify};
    if (!st) st = engine_wait_for_socket(e, f);
    if (!st && e->options.adopts)
        st = engine_load_adopt(&e->load, &data, &e->options.adopts->from, f);
    else if (!st)
        st = engine_load_begin(&e->load, &data, f);
    if (!st) st = build_model(e, f);
    return st;
}

static int open_handles(struct engine *e)
{
    uv_loop_t *loop = &e->loop;
    int rc = fault_here("engine: handles") ? UV_ENOMEM : 0;
    if (!rc) rc = uv_async_init(loop, &e->done_wake, on_done_wake);
    if (!rc) rc = uv_async_init(loop, &e->stop_wake, engine_on_stop_wake);
    if (rc) return rc;
    rc = wake_timer_open(&e->wake, loop);
    if (rc) return rc;
    uv_prepare_init(loop, &e->turn);
    uv_timer_init(loop, &e->housekeeping);
    uv_timer_init(loop, &e->drain_limit);
    uv_timer_init(loop, &e->watchdog_timer);
    e->done_wake.data = e->stop_wake.data = e->turn.data = e;
    e->housekeeping.data = e->drain_limit.data = e->watchdog_timer.data = e;
    e->handles_open = true;
    uv_prepare_start(&e->turn, on_turn);
    uv_timer_start(&e->housekeeping, on_housekeeping, SWEEP_MS, SWEEP_MS);
    if (!e->options.handle_signals) return 0;
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    for (int i = 0; i < 3; i++) {
        rc = fault_here("engine: signals") ? UV_ENOMEM : uv_signal_init(loop, &e->signals[i]);
        if (rc) return rc;
        e->signals[i].data = e;
        rc = uv_signal_start(&e->signals[i], on_signal, numbers[i]);
        if (rc) return rc;
    }
    return 0;
}

enum status engine_create(const struct engine_options *options, struct engine **out,
                          struct failure *f)
{
    struct engine *e = fault_here("engine: allocate") ? NULL : calloc(1, sizeof *e);
    if (!e) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory");
    e->options = *options;
    e->config = options->config;
    if (options->config_path && strlen(options->config_path) < sizeof e->config_path)
        strcpy(e->config_path, options->config_path);
    e->live = (struct live_settings){.config = &e->config,
                                     .asked = options->config,
                                     .path = e->config_path,
                                     .settings = options->settings,
                                     .setting_count = options->setting_count,
                                     .accept = renew_http,
                                     .owner = e};
    enum status st = STATUS_OK;
    int rc = fault_here("engine: loop") ? UV_ENOMEM : uv_loop_init(&e->loop);
    e->loop_open = rc == 0;
    if (!rc) rc = open_handles(e);
    if (rc) st = failure_set(f, status_from_errno(rc), DETAIL_SYSTEM, "loop: %s", uv_strerror(rc));
    if (!st) st = build(e, f);
    if (!st) {
        struct net_events events = pipeline_net_events(e->pipeline);
        if (e->options.leaves) events.is_hand_over = hand_over_is_asked;
        events.on_hand_over = engine_on_hand_over;
        events.hand_over_owner = e;
        e->net_open = true;
        st = net_init(&e->net, &e->loop, e->clock, e->heap, &e->config, &events);
        if (st) failure_set(f, st, DETAIL_MEMORY, "limits.connections: no memory for the tables");
    }
    if (!st && options->adopts) st = net_listen_handed(&e->net, &options->adopts->listeners, f);
    if (!st) st = net_listen(&e->net, options->inherited_fd, f);
    if (st) {
        engine_destroy(e);
        return st;
    }
    *out = e;
    return STATUS_OK;
}

static void on_watchdog(uv_timer_t *timer)
{
    struct engine *e = timer->data;
    watchdog_check(&e->watchdog, clock_read_ns(e->clock));
}

static void start_watchdog(struct engine *e)
{
    struct watchdog *w = &e->watchdog;
    watchdog_init(w, e->options.watchdog_us, e->cpu, e->worker_count, e->options.notify);
    if (w->bound_ns) uv_timer_start(&e->watchdog_timer, on_watchdog, 0, watchdog_gap_ms(w));
}

const struct failure *engine_run(struct engine *e)
{
    atomic_store(&e->readiness.turned_ns, clock_read_ns(e->clock));
    engine_load_start(&e->load);
    if (e->options.adopts) hand_over_serves(e->options.adopts);
    start_watchdog(e);
    e->running = e->has_run = true;
    heap_never_wait(e->heap, wake_loop, e);
    uv_run(&e->loop, UV_RUN_DEFAULT);
    heap_never_wait(e->heap, NULL, NULL);
    e->running = false;
    return e->load.failure.code ? &e->load.failure : NULL;
}

bool engine_destroy(struct engine *e)
{
    if (!e) return true;
    bool fails = e->options.adopts && !e->has_run; /* the daemon that it is from goes on */
    if (fails && e->net_open) net_leave_handed(&e->net);
    http_quiesce(e->http);
    if (e->net_open) net_close(&e->net);
    calibrate_stop(e->calibrate);
    if (e->gpu) cards_stop(e->gpu);
    /* it drains first: jobs that are left come back through done */
    if (e->cpu) e->cpu->ops->destroy(e->cpu);
    if (e->pipeline) pipeline_abandon(e->pipeline);
    bool has_all = false, told = engine_tell(e, &has_all);
    bool saved = engine_load_finish(&e->load, e->has_run && !(told && has_all));
    http_destroy(e->http);
    calibrate_destroy(e->calibrate);
    if (e->gpu) e->gpu->ops->destroy(e->gpu);
    if (e->loop_open) {
        uv_walk(&e->loop, close_handle, NULL);
        uv_run(&e->loop, UV_RUN_DEFAULT);
        int rc = uv_loop_close(&e->loop);
        assert(rc == 0);
        (void)rc;
    }
    wake_timer_close(&e->wake);
    model_keeper_destroy(e->keeper);
    if (e->net_open) net_finish(&e->net);
    if (told) engine_give(e);
    if (fails && e->heap) heap_leave(e->heap);
    pipeline_destroy(e->pipeline);
    store_destroy(e->store);
    hrr_plans_finish();
    heap_destroy(e->heap);
    free(e);
    return saved;
}

uint16_t engine_tcp_port(const struct engine *e)
{
    return net_tcp_port(&e->net);
}
