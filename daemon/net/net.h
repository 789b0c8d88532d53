/* net: listeners, connections and the clock that watches them. Turns socket bytes into frames and
 * replies into socket bytes; knows nothing of what they mean.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: net_listen: what binding gives, with text. A connection's errors close it. */
#ifndef ENGRAM_NET_NET_H
#define ENGRAM_NET_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/frame.h"
#include "daemon/base/job.h"
#include "daemon/net/body.h"

struct connection;

/* One request, as received. message and body stay valid during on_frame; holding `hold` keeps
 * body valid longer. */
struct frame {
    const struct frame_header *header;
    const void *message;
    void *body;        /* 64-byte aligned; NULL when there is none */
    struct body *hold; /* what body lies in */
};

struct net_events {
    void *owner;
    void (*on_frame)(void *owner, struct connection *c, const struct frame *f);
    /* A frame that cannot be taken: bad framing, or no memory for its body. The reply is the
     * owner's; after bad framing net closes the connection once that is written. */
    void (*on_bad_frame)(void *owner, struct connection *c, const struct frame_header *h,
                         const struct failure *why);
    /* Nothing more will come from or go to c; its jobs are to be cancelled. */
    void (*on_close)(void *owner, struct connection *c);
    /* j's reply was written, or never will be. */
    void (*on_written)(void *owner, struct job *j);
};

struct net_counters {
    uint64_t opened, refused, dropped, bytes_in, bytes_out;
    uint32_t open;
};

struct output_page;
struct span;

struct net {
    uv_loop_t *loop; /* NULL: nobody listens, and net_sweep is called by the owner */
    const struct clock *clock;
    const struct config *config;
    struct net_events events;
    struct body_pool bodies;
    struct net_counters counters;

    struct connection **slots; /* connection_max */
    uint32_t *generations;
    uint32_t *free_slots;
    uint32_t free_count;
    struct connection *dirty; /* wants net_flush */
    struct output_page *free_pages;
    uint32_t free_page_count;
    struct span *free_spans;

    struct listener *listeners;
    uv_timer_t sweep;
    uint64_t now_ns; /* of the last sweep: time for watching, too coarse for measuring */
    bool sweep_open;
    bool draining;
    unsigned char scrap[65536]; /* where unwanted bytes go */
};

/* How often connections are watched. */
enum { SWEEP_MS = 100 };

/* A limit for watching: net.now_ns may lie a sweep back, and nobody is cut off early. */
static inline uint64_t net_allowance_ns(uint64_t limit_ms)
{
    return (limit_ms + SWEEP_MS) * 1000000;
}

/* config and events stay the caller's; config's live keys may change. loop as in struct net; clock
 * NULL: the real one. */
enum status net_init(struct net *n, uv_loop_t *loop, const struct clock *clock, struct heap *heap,
                     const struct config *config, const struct net_events *events);

/* Opens what the config names, or takes descriptor inherited_fd (>= 0; systemd's) instead of
 * socket_path. A stale socket file is replaced; one that answers is not. */
enum status net_listen(struct net *n, int inherited_fd, struct failure *f);

/* The TCP port in use, 0 for none. */
uint16_t net_tcp_port(const struct net *n);

/* Every SWEEP_MS: looks whose time is up. */
void net_sweep(struct net *n);

/* Writes what is queued, takes up paused connections again. Once per turn of the loop. */
void net_flush(struct net *n);

/* The connection of that id, or NULL when it is gone. */
struct connection *net_find(struct net *n, uint64_t id);

/* Stops listening; connections without work or output close, the others when they are done. */
void net_drain(struct net *n);

/* Closes everything now. The loop must turn once more before net_finish. */
void net_close(struct net *n);
void net_finish(struct net *n);

#endif
