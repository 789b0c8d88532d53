/* transport: what carries a connection's bytes: a libuv stream (transport_stream), or what tests give.
 * Owner:  net; the table is const.
 * Thread: the loop.
 * Errors: as each slot says; a connection in trouble is closed by its caller. */
#ifndef ENGRAM_NET_TRANSPORT_H
#define ENGRAM_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct connection;

struct transport {
    /* From now on bytes that come are put where receive_buffer says, and told by receive_bytes. */
    bool (*start_reading)(struct connection *c);
    void (*stop_reading)(struct connection *c);
    /* How many bytes were taken at once; UV_EAGAIN: none now; or what is wrong, negative. */
    int (*try_write)(struct connection *c, const uv_buf_t *bufs, unsigned count);
    /* All of it, later: output_written follows, never from inside this call. False: it cannot. */
    bool (*write)(struct connection *c, const uv_buf_t *bufs, unsigned count);
    /* Of such a write: bytes that nobody has taken yet. */
    size_t (*unwritten)(const struct connection *c);
    /* Nothing more is written. False: it cannot be said. */
    bool (*shutdown)(struct connection *c);
    /* connection_closed follows, never from inside this call. */
    void (*close)(struct connection *c);
};

extern const struct transport transport_stream;

#endif
