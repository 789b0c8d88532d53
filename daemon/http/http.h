/* http: serves /metrics, /healthz, /readyz and a status page on metrics.listen, from a thread of
 * its own, so that no client of it holds the loop up, and it answers even when the loop stands
 * still.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: with "KEY: reason": INVALID_ARGUMENT where a setting is wrong, else
 *         RESOURCE_EXHAUSTED. */
#ifndef ENGRAM_HTTP_HTTP_H
#define ENGRAM_HTTP_HTTP_H

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/report/look.h"
#include "daemon/report/readiness.h"

struct http;

struct http_options {
    const struct config *config;       /* read only while http_create or http_renew runs */
    const struct clock *clock;         /* NULL: the real one */
    const struct readiness *readiness; /* outlives it */
    void (*wake)(void *owner);         /* makes the loop call http_turn soon; from any thread */
    void *owner;
    uint64_t time_ns; /* that a connection has in all; 0: the usual */
};

/* The settings want it (metrics.listen is not empty). */
enum status http_create(const struct http_options *options, struct http **out, struct failure *f);
/* The same settings, changed: *h, which may be NULL, is created, destroyed or told. On an error it
 * is as it was. */
enum status http_renew(const struct http_options *options, struct http **h, struct failure *f);
/* NULL is fine. */
void http_destroy(struct http *h);

/* In each turn of the loop: has look copy the counters, if a client wants them. NULL is fine. */
void http_turn(struct http *h, void (*look)(void *owner, struct look *out), void *owner);
/* The loop will not turn any more: there is nothing to tell of it. NULL is fine. */
void http_quiesce(struct http *h);

/* Where it listens: "127.0.0.1:7424", with the port that the system chose. */
const char *http_address(const struct http *h);

#endif
