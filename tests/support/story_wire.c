/* Bytes between the clients of a story and their connections. They come in pieces of any size, and
 * a client may be slow to take its replies. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/net/ration.h"
#include "tests/support/story.h"

#define WAY_NS UINT64_C(8000)

static struct story_client *client_of(const struct connection *c)
{
    return c->carrier;
}

static void append(char **bytes, uint64_t *count, uint64_t *room, const void *more, uint64_t n)
{
    if (*count + n > *room) {
        *room = 2 * (*count + n);
        *bytes = realloc(*bytes, *room);
        if (!*bytes) abort();
    }
    memcpy(*bytes + *count, more, n);
    *count += n;
}

/* ---------------------------------------------------------------- requests */

static void deliver(struct story *s, void *subject)
{
    struct story_client *c = subject;
    c->due = false;
    if (!c->connection || !c->reading || c->closing || !c->out_count) return;
    uv_buf_t room = receive_buffer(c->connection);
    uint64_t n = c->out_count < room.len ? c->out_count : room.len;
    if (n && story_chance(s, s->settings.dribble)) n = 1 + story_random(s, n);
    story_note(s, "deliver", c->number, n);
    if (!room.len) {
        STORY_CHECK(s,
                    s->settings.memory_short || s->bytes_limited || !ration_allows(c->connection),
                    "there is no memory to read into");
        receive_bytes(c->connection, UV_ENOBUFS);
        return;
    }
    memcpy(room.base, c->out, n);
    memmove(c->out, c->out + n, c->out_count - n);
    c->out_count -= n;
    receive_bytes(c->connection, (ssize_t)n);
    story_deliver_soon(c);
}

void story_deliver_soon(struct story_client *c)
{
    if (c->due || !c->connection || !c->reading || !c->out_count) return;
    c->due = true;
    story_at(c->story, c->story->now_ns + story_about(c->story, WAY_NS), deliver, c);
}

void story_send(struct story_client *c, const void *bytes, uint64_t count)
{
    append(&c->out, &c->out_count, &c->out_room, bytes, count);
    story_deliver_soon(c);
}

/* ---------------------------------------------------------------- the transport */

static bool start_reading(struct connection *connection)
{
    struct story_client *c = client_of(connection);
    c->reading = true;
    story_deliver_soon(c);
    return true;
}

static void stop_reading(struct connection *connection)
{
    client_of(connection)->reading = false;
}

static void parse_later(struct story *s, void *subject)
{
    story_client_reads(subject);
}

/* Up to so many of the bytes in bufs reach the client. */
static uint64_t take(struct story_client *c, const uv_buf_t *bufs, unsigned count, uint64_t most)
{
    uint64_t taken = 0;
    for (unsigned i = 0; i < count && taken < most; i++) {
        uint64_t n = bufs[i].len < most - taken ? bufs[i].len : most - taken;
        append(&c->in, &c->in_count, &c->in_room, bufs[i].base, n);
        taken += n;
    }
    /* The client is not asked from inside the daemon, but soon. */
    if (taken) story_at(c->story, c->story->now_ns + story_about(c->story, WAY_NS), parse_later, c);
    return taken;
}

static int try_write(struct connection *connection, const uv_buf_t *bufs, unsigned count)
{
    struct story_client *c = client_of(connection);
    struct story *s = c->story;
    if (c->deaf) return UV_EAGAIN;
    uint64_t most = UINT64_MAX;
    if (story_chance(s, s->settings.slow_read)) {
        most = story_random(s, 4096);
        c->deaf = true;
        story_hear_again(c);
    }
    uint64_t n = take(c, bufs, count, most);
    return n ? (int)n : UV_EAGAIN;
}

static bool write_late(struct connection *connection, const uv_buf_t *bufs, unsigned count)
{
    struct story_client *c = client_of(connection);
    STORY_CHECK(c->story, !c->late_count && count <= 64, "two writes at once");
    memcpy(c->late, bufs, count * sizeof *bufs);
    c->late_count = count;
    return true;
}

static void hear(struct story *s, void *subject)
{
    struct story_client *c = subject;
    if (!c->deaf) return;
    c->deaf = false;
    if (!c->connection || c->closing || !c->late_count) return;
    unsigned count = c->late_count;
    c->late_count = 0;
    take(c, c->late, count, UINT64_MAX);
    output_written(c->connection, true);
}

void story_hear_again(struct story_client *c)
{
    story_at(c->story, c->story->now_ns + story_about(c->story, 40 * WAY_NS), hear, c);
}

static size_t unwritten(const struct connection *connection)
{
    const struct story_client *c = client_of(connection);
    size_t bytes = 0;
    for (unsigned i = 0; i < c->late_count; i++)
        bytes += c->late[i].len;
    return bytes;
}

static void leave(struct story *s, void *subject)
{
    story_vanish(subject);
}

/* After a refusal: the client reads it, and goes. */
static bool shut_down(struct connection *connection)
{
    struct story_client *c = client_of(connection);
    STORY_CHECK(c->story, c->story->settings.memory_short, "the daemon shuts a connection down");
    story_at(c->story, c->story->now_ns + story_about(c->story, 10 * WAY_NS), leave, c);
    return true;
}

static void closed(struct story *s, void *subject)
{
    struct connection *connection = subject;
    struct story_client *c = client_of(connection);
    c->connection = NULL;
    c->closing = c->reading = c->deaf = false;
    c->late_count = 0;
    connection_closed(connection);
}

/* The client's bytes that were under way are lost, and so are the replies that it has not read. */
static void close_it(struct connection *connection)
{
    struct story_client *c = client_of(connection);
    c->closing = true;
    c->out_count = c->in_count = 0;
    c->late_count = 0;
    story_note(c->story, "close", c->number, 0);
    story_client_lost(c);
    story_at(c->story, c->story->now_ns + story_about(c->story, WAY_NS), closed, connection);
}

static const struct transport wire = {
    .start_reading = start_reading,
    .stop_reading = stop_reading,
    .try_write = try_write,
    .write = write_late,
    .unwritten = unwritten,
    .shutdown = shut_down,
    .close = close_it,
};

/* ---------------------------------------------------------------- connecting */

/* The only excuse for no connection is the story's fault, if it fired in this very call. It fires
 * once, so that c gets its connection when it tries again. */
void story_connect(struct story_client *c)
{
    bool fired = fault_fired();
    c->greeted = false;
    const struct peer_key who = peer_key_of_user(c->uid);
    c->connection = connection_attach(&c->story->net, &who, &wire, c);
    STORY_CHECK(c->story, c->connection || (!fired && fault_fired()), "no connection is left");
    if (!c->connection) return;
    c->connection_id = c->connection->id;
    story_greet(c);
}

void story_vanish(struct story_client *c)
{
    if (!c->connection || c->closing) return;
    c->leaving = true;
    receive_bytes(c->connection, UV_EOF);
}
