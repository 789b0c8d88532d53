/* transport: how a connection's bytes are carried: by a libuv stream (transport_stream), or by a
 * test.
 * Owner:  net; the table is const.
 * Thread: the loop.
 * Errors: as each slot says; the caller closes a connection that fails. */
#ifndef ENGRAM_NET_TRANSPORT_H
#define ENGRAM_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct connection;

struct transport {
    /* From now on puts bytes that arrive where receive_buffer says and reports them to
     * receive_bytes. */
    bool (*start_reading)(struct connection *c);
    void (*stop_reading)(struct connection *c);
    /* Returns how many bytes were taken at once; UV_EAGAIN: none now; another negative value: an
     * error. */
    int (*try_write)(struct connection *c, const uv_buf_t *bufs, unsigned count);
    /* Writes all of it later; output_written follows, never from inside this call. False: it
     * cannot. */
    bool (*write)(struct connection *c, const uv_buf_t *bufs, unsigned count);
    /* Returns the bytes of such a write that have not been taken yet. */
    size_t (*unwritten)(const struct connection *c);
    /* Tells the client that no more will be written. False: that is not possible. */
    bool (*shutdown)(struct connection *c);
    /* connection_closed follows, never from inside this call. */
    void (*close)(struct connection *c);
};

extern const struct transport transport_stream;

#endif
