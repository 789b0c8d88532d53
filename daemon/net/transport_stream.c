#include "daemon/base/fault.h"
#include "daemon/net/connection.h"

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    *buf = receive_buffer(handle->data);
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buf)
{
    receive_bytes(stream->data, bytes);
}

static bool start_reading(struct connection *c)
{
    return !fault_here("receive: start") && uv_read_start(&c->uv.stream, on_alloc, on_read) == 0;
}

static void stop_reading(struct connection *c)
{
    uv_read_stop(&c->uv.stream);
}

static int try_write(struct connection *c, const uv_buf_t *bufs, unsigned count)
{
    return uv_try_write(&c->uv.stream, bufs, count);
}

static void on_write(uv_write_t *request, int status)
{
    output_written(request->data, status == 0);
}

static bool write_later(struct connection *c, const uv_buf_t *bufs, unsigned count)
{
    c->write.data = c;
    return !fault_here("output: write") &&
           uv_write(&c->write, &c->uv.stream, bufs, count, on_write) == 0;
}

static size_t unwritten(const struct connection *c)
{
    return uv_stream_get_write_queue_size(&c->uv.stream);
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    if (status && status != UV_ECANCELED) connection_close(request->data);
}

static bool shut_down(struct connection *c)
{
    c->shutdown.data = c;
    return !fault_here("output: shutdown") &&
           uv_shutdown(&c->shutdown, &c->uv.stream, on_shutdown) == 0;
}

static void on_closed(uv_handle_t *handle)
{
    connection_closed(handle->data);
}

static void close_stream(struct connection *c)
{
    uv_close(&c->uv.handle, on_closed);
}

const struct transport transport_stream = {
    .start_reading = start_reading,
    .stop_reading = stop_reading,
    .try_write = try_write,
    .write = write_later,
    .unwritten = unwritten,
    .shutdown = shut_down,
    .close = close_stream,
};
