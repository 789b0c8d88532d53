/* net_state: what connections and listeners share, and what they tell their owner.
 * Owner:  the engine, through net.h.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_NET_NET_STATE_H
#define ENGRAM_NET_NET_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/frame.h"
#include "daemon/base/job.h"
#include "daemon/net/body.h"
#include "daemon/net/peer.h"

struct connection;

/* One request, as received. message and body are valid during on_frame; body stays valid as long
 * as a reference to `hold` is held. */
struct frame {
    const struct frame_header *header;
    const void *message;
    void *body;        /* 64-byte aligned; NULL: no body */
    struct body *hold; /* the memory that body lies in */
};

struct net_events {
    void *owner;
    void (*on_frame)(void *owner, struct connection *c, const struct frame *f);
    /* Called for a frame that cannot be taken: bad framing, no memory for its body, too late (a
     * header of zeros). The owner replies; net logs, and closes the connection, where it does, once
     * the reply is written. */
    void (*on_bad_frame)(void *owner, struct connection *c, const struct frame_header *h,
                         const struct failure *why);
    /* Called when c is closed; the owner cancels its jobs. */
    void (*on_close)(void *owner, struct connection *c);
    /* Called when j's reply has been written, or never will be. */
    void (*on_written)(void *owner, struct job *j);
    /* Asked about a peer without connections: true if the owner has nothing of it any more, so that
     * it may be forgotten. NULL: always so. */
    bool (*on_idle_peer)(void *owner, struct peer *peer);
    /* Called when c, a Unix socket's, begins with what is_hand_over knows, in place of a frame:
     * `ask`, as long as a header (handover/hand_over.h). c closes then. NULL: it is a bad frame. */
    bool (*is_hand_over)(const void *bytes);
    void (*on_hand_over)(void *owner, struct connection *c, const void *ask);
    void *hand_over_owner;
};

struct net_counters {
    uint64_t opened, refused, dropped, bytes_in, bytes_out;
    uint32_t open;
};

struct output_page;
struct span;

struct net {
    uv_loop_t *loop; /* NULL: there are no listeners */
    const struct clock *clock;
    const struct config *config;
    struct net_events events;
    struct body_pool bodies;
    struct peers peers;
    struct connection *oldest_body, *newest_body; /* those that receive a large body */
    uint64_t body_round;                          /* private to large_body.c */
    struct net_counters counters;

    /* ration.c */
    uint64_t turn, turn_ns;                  /* turn_ns: when it began */
    uint32_t ration_bytes;                   /* RATION_BYTES; a test may set less */
    uint32_t ration_left;                    /* of it, for peers in line, in this turn */
    struct peer *first_behind, *last_behind; /* of which more came than their ration */
    uint32_t behind_count;
    uint32_t accepted; /* connections in this turn */
    bool accepts_wait; /* there were more */

    struct connection **slots; /* as many as limits.connections says */
    uint32_t *generations;
    uint32_t *free_slots;
    uint32_t free_count;
    struct connection *dirty; /* the list of connections that net_flush will look at */
    struct output_page *free_pages;
    uint32_t free_page_count;
    struct span *free_spans;

    struct listener *listeners;
    /* as of the last sweep: good enough for time limits, too coarse for measuring */
    uint64_t now_ns;
    bool draining;
    bool told_descriptors;      /* the log says that connections are refused for want of them */
    unsigned char scrap[65536]; /* where bytes that are to be ignored are read to */
};

/* How often the time limits are checked; likewise where nothing goes on. */
enum { SWEEP_MS = 100, SWEEP_QUIET_MS = 2 * SWEEP_MS };
/* Between two sweeps that are further apart the daemon stood still: a debugger, a machine that was
 * paused. No client could send or read anything then, and each gets that time, too. */
enum { STANDSTILL_MS = 5 * SWEEP_MS };

/* A time limit with a sweep added: net.now_ns may be a sweep old, and no client is cut off
 * early. */
static inline uint64_t net_allowance_ns(uint64_t limit_ms)
{
    return (limit_ms + SWEEP_QUIET_MS) * 1000000;
}

#endif
