/* connection: one client's socket: receive buffer, output queue, the space it speaks for.
 * Owner:  net. Found by a generation-checked id; pointers are good for the current callback.
 * Thread: the loop.
 * Errors: none to callers; a connection in trouble closes and on_close is called once. */
#ifndef ENGRAM_NET_CONNECTION_H
#define ENGRAM_NET_CONNECTION_H

#include "daemon/net/net.h"
#include "daemon/net/transport.h"

struct output_page;
struct span;

enum {
    RECEIVE_BYTES = 131072,      /* one receive buffer: any header and message fits */
    OUTPUT_HIGH_WATER = 1 << 20, /* reading stops while this much output waits */
    CONNECTION_LINGER_MS = 1000, /* after a refusal, for the client to read it */
};

struct connection {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } uv;
    const struct transport *transport;
    void *carrier; /* the transport's, where it is not the stream above */
    struct net *net;
    uint64_t id;
    uint32_t slot;
    bool closing; /* uv_close called */
    bool reading;
    bool paused;    /* has bytes it may not take yet */
    bool finishing; /* no more input is looked at; closes when output is written */
    bool is_dirty;
    bool greeted; /* Hello was answered */
    bool in_receive;

    struct space *space; /* after Hello; the pipeline's */
    uint32_t owner;      /* the space's number; 0 before */
    char peer[48];       /* "uid 1000, process 4711" or an address, for the log */

    /* receive */
    struct body *buffer;
    uint32_t begin, end; /* unparsed bytes of buffer */
    bool has_header;
    struct frame_header header;
    struct body *direct; /* a large body on its way; its message stays at begin */
    uint64_t direct_filled;
    uint64_t discard; /* bytes of a refused body still to come */
    uint64_t opened_ns, frame_started_ns, finishing_ns;

    /* output */
    struct span *output_head, *output_tail;
    struct output_page *page; /* being filled */
    uint64_t output_bytes;
    uint64_t output_progress_ns;
    size_t output_left; /* of a write in flight, when last looked at */
    bool write_busy;
    uint64_t write_bytes;
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool shutdown_sent;

    /* requests in flight: from on_frame to on_written; the pipeline counts them */
    struct job *jobs;
    uint32_t in_flight;
    uint64_t in_flight_bytes;

    struct connection *dirty_next;
};

/* Accepts from a listener. Refuses politely past the bound. False: no memory; the client still
 * waits, and nobody else is accepted until this is called again. */
bool connection_accept(struct net *n, uv_stream_t *listener, bool is_tcp);
/* One that needs no listener: its bytes come by that transport. NULL: no memory, or no more places. */
struct connection *connection_attach(struct net *n, const struct transport *t, void *carrier);
/* The transport has let go of c: the last that is heard of it. */
void connection_closed(struct connection *c);

/* Room for bytes of reply; write there, then commit how many (a multiple of 64). NULL: out of
 * memory, and the connection is closing. */
void *connection_reserve(struct connection *c, size_t bytes);
void connection_commit(struct connection *c, size_t bytes);
/* After a commit: the body of j's reply, which stays until on_written(j). With bytes 0 on_written
 * follows once the head is written. */
void connection_send_body(struct connection *c, struct job *j, const void *data, uint64_t bytes);

/* Wants net_flush to look at it (a job ended, so reading may go on). */
void connection_wake(struct connection *c);
/* Writes what is queued, then closes; input is ignored. */
void connection_finish(struct connection *c);
/* Closes now. on_close runs before this returns. */
void connection_close(struct connection *c);

/* receive.c */
void receive_start(struct connection *c);
void receive_stop(struct connection *c);
/* Where the transport is to put the next bytes; no bytes: there is no memory for them now. */
uv_buf_t receive_buffer(struct connection *c);
/* So many lie there; UV_ENOBUFS: they could not be put anywhere; negative: none come any more. */
void receive_bytes(struct connection *c, ssize_t bytes);
/* Parses what is buffered as far as allowed. */
void receive_parse(struct connection *c);
/* Gives an idle connection's buffer back. */
void receive_relax(struct connection *c);
void receive_release(struct connection *c);
/* Whether a frame that was begun has taken too long. */
bool receive_stalled(const struct connection *c, uint64_t now_ns);
/* Whether the connection may take another request now. */
bool receive_allowed(const struct connection *c);

/* net.c */
/* Closes it, says why in the log, and counts it. */
void connection_drop(struct connection *c, const char *why);

/* output.c */
void output_flush(struct connection *c);
/* What the transport took to write later is written, or will not be. */
void output_written(struct connection *c, bool well);
/* Whether the client has read nothing for limits.stall_ms while output waited. */
bool output_stalled(struct connection *c, uint64_t now_ns);
/* Whether more waits than limits.output_mib. The body that is next to go does not count: one reply
 * is bounded by its own limit, and legal. Looked at now and then; twice as much ends it at once. */
bool output_excessive(const struct connection *c);
/* Gives an idle connection's page back. */
void output_relax(struct connection *c);
void output_release(struct connection *c);
void output_finish_pool(struct net *n);

#endif
