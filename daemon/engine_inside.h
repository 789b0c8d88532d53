/* engine_inside: the struct of the engine, for engine.c (what it is made of, its turns) and
 * engine_stop.c (how it ends, and what it hands to its successor); engine_wait.c waits.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_ENGINE_INSIDE_H
#define ENGRAM_ENGINE_INSIDE_H

#include <stdatomic.h>
#include <uv.h>

#include "daemon/engine.h"
#include "daemon/engine_load.h"
#include "daemon/exec/done.h"
#include "daemon/live_settings.h"
#include "daemon/net/net.h"
#include "daemon/report/readiness.h"
#include "daemon/wake_timer.h"
#include "daemon/watchdog.h"

enum stop_request { STOP_NONE, STOP_DRAIN, STOP_NOW };

struct engine {
    struct engine_options options;
    struct config config;
    struct live_settings live;
    char config_path[4096];
    uv_loop_t loop;
    bool loop_open;
    /* within engine_run; engine_destroy runs the loop, too, and must not be stopped */
    bool running, has_run;
    const struct clock *clock;
    const struct vector_kernels *kernels;
    struct heap *heap;
    struct store *store;
    struct done done;
    uint32_t worker_count;
    struct backend *cpu, *gpu;
    struct net net;
    struct pipeline *pipeline;
    struct engine_load load;
    struct model_keeper *keeper;
    struct calibrate *calibrate;
    struct http *http; /* NULL: no metrics.listen */
    struct readiness readiness;
    bool net_open;

    uv_async_t done_wake, stop_wake;
    uv_prepare_t turn;
    struct wake_timer wake;
    uv_timer_t housekeeping, drain_limit, watchdog_timer;
    struct watchdog watchdog;
    uv_signal_t signals[3];
    bool handles_open, signals_open;
    uint32_t trim_countdown;
    uint64_t requests_at_trim;
    bool rested; /* freed memory has been returned to the system since the last request */
    atomic_int stop_request;
    bool draining;
    bool restarts; /* a successor waits for all that there is (engine_stop.c) */
    bool cut_off;  /* what it did not wait for has been answered */
};

/* engine_wait.c: a start that waits for the end of another process. False: it is to stop. */
bool engine_goes_on(void *owner);
/* CANCELLED: it was asked to stop meanwhile. */
enum status engine_wait_for_socket(struct engine *e, struct failure *f);

/* Closes connections; the loop ends when the jobs in flight are done. */
void engine_stop_now(struct engine *e);
void engine_start_drain(struct engine *e);
void engine_on_stop_wake(uv_async_t *async);
/* For net: a successor asks on this connection for all that there is. */
void engine_on_hand_over(void *owner, struct connection *c, const void *ask);

/* Nobody uses the store any more: tells a successor, if there is or may be one, what lies where.
 * *saved: one waits, or the journal has all, so that nothing need be saved. False: there is none,
 * or no memory. */
bool engine_tell(struct engine *e, bool *saved);
/* And gives it that, once everything but the store is gone. */
void engine_give(struct engine *e);

#endif
