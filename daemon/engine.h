/* engine: the whole daemon as one object: makes all its parts in order, runs the loop, destroys
 * them. main.c makes one; tests make as many as they like.
 * Owner:  main.
 * Thread: the creating one; only engine_stop may be called from any thread (not a signal handler).
 * Errors: engine_create: with text; everything is undone then. */
#ifndef ENGRAM_ENGINE_H
#define ENGRAM_ENGINE_H

#include <stdbool.h>

#include "daemon/base/config.h"

struct engine;
struct hand_over;

struct engine_options {
    struct config config;
    const char *config_path;     /* the file that SIGHUP reads again; NULL: none */
    const char *const *settings; /* "key=value" settings applied over the file; the caller's */
    unsigned setting_count;
    int inherited_fd;    /* a listening socket made by systemd, or -1 */
    bool handle_signals; /* SIGTERM and SIGINT drain, then stop; SIGHUP reads the settings again */
    /* How long the service manager waits for a sign of life (watchdog.h); 0: it does not. */
    uint64_t watchdog_us;
    /* Reports the state to the service manager; may be NULL. */
    void (*notify)(const char *state);
    /* What another daemon had and this one takes over; NULL: nothing. Where that cannot be it fails
     * if the other one waits, and begins without it if not. */
    struct hand_over *adopts;
    /* Where it leaves all to a successor, which asks for it, or, if leaves_to_manager, comes later;
     * NULL: nowhere. After engine_destroy: is_back: the one that asked has failed. */
    struct hand_over *leaves;
    bool leaves_to_manager;
};

enum status engine_create(const struct engine_options *options, struct engine **out,
                          struct failure *f);
/* Runs the loop until the engine is stopped. Returns NULL, or why it stopped by itself: what was
 * saved cannot be loaded. */
const struct failure *engine_run(struct engine *e);
/* drain: finish accepted requests first, for at most limits.drain_ms; else stop at once. */
void engine_stop(struct engine *e, bool drain);
/* NULL and half-built engines are fine. False: its data should have been saved, and are not. */
bool engine_destroy(struct engine *e);

/* Returns where HTTP is served, or NULL. */
const char *engine_http_address(const struct engine *e);
/* Returns the TCP port in use, or 0. */
uint16_t engine_tcp_port(const struct engine *e);

#endif
