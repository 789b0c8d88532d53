/* engine: the whole daemon as one object: makes all parts in order, runs the loop, and destroys them.
 * main.c makes one; tests make as many as they like.
 * Owner:  main.
 * Thread: the creating one, but for engine_stop, which any thread (not a signal handler) may call.
 * Errors: engine_create: with text, everything undone. */
#ifndef ENGRAM_ENGINE_H
#define ENGRAM_ENGINE_H

#include <stdbool.h>

#include "daemon/base/config.h"

struct engine;

struct engine_options {
    struct config config;
    const char *config_path;     /* what SIGHUP reads again; NULL: nothing */
    const char *const *settings; /* and what goes over it, "key=value"; the caller's */
    unsigned setting_count;
    int inherited_fd;    /* systemd's listening socket, or -1 */
    bool handle_signals; /* SIGTERM, SIGINT drain, then stop; SIGHUP re-reads */
    /* What the service manager is told; may be NULL. */
    void (*notify)(const char *state);
};

enum status engine_create(const struct engine_options *options, struct engine **out,
                          struct failure *f);
/* Serves until stopped. */
void engine_run(struct engine *e);
/* drain: finish accepted work first, at most limits.drain_ms; else at once. */
void engine_stop(struct engine *e, bool drain);
/* NULL and half-built are fine. */
void engine_destroy(struct engine *e);

/* The TCP port in use, 0 for none. */
uint16_t engine_tcp_port(const struct engine *e);

#endif
