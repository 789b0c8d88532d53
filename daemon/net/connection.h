/* connection: one client's connection: receive buffer, output queue, and its space.
 * Owner:  net. Others find it by its generation-checked id; a pointer is valid for one callback.
 * Thread: the loop.
 * Errors: none to callers; a connection that fails closes, and on_close is called once. */
#ifndef ENGRAM_NET_CONNECTION_H
#define ENGRAM_NET_CONNECTION_H

#include "daemon/net/net_state.h"
#include "daemon/net/transport.h"

struct output_page;
struct span;
struct tenancy;

enum {
    RECEIVE_BYTES = 131072,      /* of a receive buffer: any header and message fit */
    OUTPUT_HIGH_WATER = 1 << 20, /* reading stops while this much output waits */
    CONNECTION_LINGER_MS = 1000, /* after a refusal, so that the client can read it */
};

struct connection {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } uv;
    const struct transport *transport;
    void *carrier; /* the transport's own data, if it is not the stream above */
    struct net *net;
    uint64_t id;
    uint32_t slot;
    bool closing; /* uv_close called */
    bool reading;
    bool paused;    /* holds bytes that may not be parsed yet */
    bool finishing; /* input is ignored; closes once the output is written */
    bool is_dirty;
    bool greeted; /* Hello was answered */
    bool in_receive;

    struct space *space;     /* set by the pipeline after Hello */
    uint32_t owner;          /* the space's number; 0 before Hello */
    struct tenancy *tenancy; /* likewise: what the peer asks of that space */
    struct peer *peer;       /* who is at the other end */
    char from[56];           /* "uid 1000, process 4711" or an address, for the log */

    /* receive */
    struct body *buffer;
    uint32_t begin, end; /* unparsed bytes of buffer */
    bool has_header;
    struct frame_header header;
    struct body *direct; /* a large body being received; its message stays at `begin` */
    uint64_t direct_filled;
    struct connection *body_next, *body_previous; /* in net's list of those with a large body */
    bool body_is_other;                           /* private to large_body.c */
    uint64_t waiting_ns; /* since when it waits for memory; 0: it does not */
    uint64_t discard;    /* bytes of a refused body that are still to come */
    uint64_t opened_ns, frame_started_ns, finishing_ns;

    /* ration.c */
    struct waiting *waits_in; /* it is not read until it is called; NULL: it does not wait */
    bool was_refused;         /* the last of its requests, for want of room in line */
    struct connection *ration_next, *ration_previous; /* its peer's that wait */
    uint64_t called_turn;                             /* the turn in which it was called last */
    uint32_t turn_left; /* bytes of it that may be read in that turn */
    uint64_t waits_since_ns;

    /* output */
    struct span *output_head, *output_tail;
    struct output_page *page; /* the page being filled */
    uint64_t output_bytes;
    uint64_t output_progress_ns;
    size_t output_left; /* bytes of the write in flight, as last seen */
    bool write_busy;
    uint64_t write_bytes;
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool shutdown_sent;

    /* Requests in flight, from on_frame to on_written; the pipeline counts them. */
    struct job *jobs;
    uint32_t in_flight;
    uint64_t in_flight_bytes;
    uint64_t told_ns; /* when the pipeline told it how far they are */
    uint64_t writes;  /* how many it has sent that change something; the pipeline counts them */
    bool hides;       /* it has made something hidden, which goes with it; the pipeline's */

    struct connection *dirty_next;
};

/* Accepts a connection from a listener, or refuses it with an error if there are too many. False:
 * no memory; the client still waits, and nobody else is accepted until this is called again. */
bool connection_accept(struct net *n, uv_stream_t *listener, bool is_tcp);
/* Makes a connection of this peer without a listener, whose bytes this transport carries. NULL: no
 * memory, or too many connections. */
struct connection *connection_attach(struct net *n, const struct peer_key *who,
                                     const struct transport *t, void *carrier);
/* Called by the transport when it is done with c; it does not call for c again. */
void connection_closed(struct connection *c);

/* Returns room for bytes of a reply; write them there, then commit how many (a multiple of 64).
 * NULL: no memory, and the connection is closing. */
void *connection_reserve(struct connection *c, size_t bytes);
void connection_commit(struct connection *c, size_t bytes);
/* Queues the body of j's reply, after a commit; it must stay until on_written(j). With bytes 0,
 * on_written follows once the head is written. */
void connection_send_body(struct connection *c, struct job *j, const void *data, uint64_t bytes);

/* Makes net_flush look at c, because a job ended and reading may go on. */
void connection_wake(struct connection *c);
/* Closes c once its output is written; input is ignored. */
void connection_finish(struct connection *c);
/* Closes c now. on_close runs before this returns. */
void connection_close(struct connection *c);
/* Logs a line that c's peer caused, unless there were too many of them (peers.log_lines). */
void connection_log(struct connection *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Logs why a frame of c is refused, and has that answered; h: of zeros, where it answers none. */
void connection_refuse_frame(struct connection *c, const struct frame_header *h,
                             const struct failure *why);
/* Closes c now, logs why, and counts it. */
void connection_drop(struct connection *c, const char *why);
/* The same, but c's client is told: c closes once that is written. */
void connection_give_up(struct connection *c, const struct failure *why);

/* receive.c */
void receive_start(struct connection *c);
void receive_stop(struct connection *c);
/* Returns where the transport is to put the next bytes; empty: there is no memory for them now. */
uv_buf_t receive_buffer(struct connection *c);
/* Takes `bytes` bytes that the transport put there; UV_ENOBUFS: there was no memory to put them;
 * negative: the connection is at its end. */
void receive_bytes(struct connection *c, ssize_t bytes);
/* Parses the buffered bytes as far as allowed. */
void receive_parse(struct connection *c);
/* Gives the buffer of an idle connection back. */
void receive_relax(struct connection *c);
void receive_release(struct connection *c);
/* True if a frame that has begun takes too long. */
bool receive_stalled(const struct connection *c, uint64_t now_ns);
/* True if the connection may take another request now. */
bool receive_allowed(const struct connection *c);

/* ration.c */
/* Notes that a request of c was taken in line, or refused because there is no room in it. */
void ration_took(struct connection *c, bool taken);
/* Notes that c's client said a wrong token. */
void ration_guessed(struct connection *c);
/* Takes c out of the line of those that are to be read in a later turn, if it is there. */
void ration_leave(struct connection *c);

/* output.c */
void output_flush(struct connection *c);
/* Called by the transport when a write that it took over has ended, well or not. */
void output_written(struct connection *c, bool well);
/* True if output waits, and the client has read nothing for limits.stall_ms. */
bool output_stalled(struct connection *c, uint64_t now_ns);
/* True if more waits than limits.output_mib. The body at the head of the queue does not count: one
 * reply has a limit of its own. The sweep checks this; twice as much drops the connection at
 * once. */
bool output_excessive(const struct connection *c);
/* Gives the page of an idle connection back. */
void output_relax(struct connection *c);
void output_release(struct connection *c);
void output_finish_pool(struct net *n);

#endif
