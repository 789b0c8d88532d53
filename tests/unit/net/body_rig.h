/* body_rig: a net without sockets, and clients that send large bodies to it piece by piece.
 * Owner:  the test that includes it. Thread: one. Errors: a step that fails ends the test. */
#ifndef ENGRAM_TESTS_BODY_RIG_H
#define ENGRAM_TESTS_BODY_RIG_H

#include "daemon/net/large_body.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/net/net.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define MS  UINT64_C(1000000)

enum { STRANGER = 77000, VICTIM = 77001, CLIENTS_MAX = 80 };

struct client {
    struct connection *c;
    uint64_t body_bytes, sent; /* of the request under way; sent: header too */
    uint8_t header[64];
    uint32_t received, refused; /* whole requests, by the daemon */
    struct failure why;
};

static struct net net;
static struct config config;
static struct heap *heap;
static uint64_t now_ns = 1000 * MS;
static struct client clients[CLIENTS_MAX];
static uint32_t client_count;
static struct body *held; /* the last body, if the test keeps one */
static bool keeps;

static uint64_t read_now(void *owner)
{
    return now_ns;
}

static const struct clock clock_set = {read_now, NULL};

static bool starts(struct connection *c)
{
    return true;
}

static void stops(struct connection *c) {}

static int takes_all(struct connection *c, const uv_buf_t *bufs, unsigned count)
{
    return UV_EAGAIN;
}

static size_t nothing(const struct connection *c)
{
    return 0;
}

static const struct transport silent = {.start_reading = starts,
                                        .stop_reading = stops,
                                        .try_write = takes_all,
                                        .unwritten = nothing,
                                        .close = connection_closed};

static struct client *client_of(const struct connection *c)
{
    for (uint32_t i = 0; i < client_count; i++)
        if (clients[i].c == c) return &clients[i];
    return NULL;
}

static uint8_t byte_at(uint64_t i)
{
    return (uint8_t)(i * 31 + i / 4096);
}

static void on_frame(void *owner, struct connection *c, const struct frame *f)
{
    struct client *client = client_of(c);
    const uint8_t *body = f->body;
    for (uint64_t i = 0; i < client->body_bytes; i += i % 4096 == 4095 ? 1 : 273)
        cr_assert_eq(body[i], byte_at(i), "byte %llu", (unsigned long long)i);
    if (client->body_bytes)
        cr_assert_eq(body[client->body_bytes - 1], byte_at(client->body_bytes - 1));
    client->received++;
    if (keeps) held = body_hold(f->hold);
}

static void on_bad_frame(void *owner, struct connection *c, const struct frame_header *h,
                         const struct failure *why)
{
    struct client *client = client_of(c);
    client->refused++;
    client->why = *why;
    cr_assert_eq(h->request_id, (uint64_t)(client - clients));
}

static void on_close(void *owner, struct connection *c) {}

static void open_net(uint64_t heap_bytes)
{
    const struct net_events events = {
        .on_frame = on_frame, .on_bad_frame = on_bad_frame, .on_close = on_close};
    config_defaults(&config);
    config.connection_max = 512;
    cr_assert_eq(heap_create(heap_bytes, &heap), STATUS_OK);
    heap_reserve(heap, heap_bytes / 16, RECEIVE_BYTES);
    cr_assert_eq(net_init(&net, NULL, &clock_set, heap, &config, &events), STATUS_OK);
}

static void close_net(void)
{
    body_drop(held);
    net_close(&net);
    net_finish(&net);
    cr_assert_eq(heap_usage(heap).bytes_used, 0);
    heap_destroy(heap);
}

static struct client *connect_as(uint32_t uid)
{
    const struct peer_key who = peer_key_of_user(uid);
    struct client *client = &clients[client_count++];
    client->c = connection_attach(&net, &who, &silent, NULL);
    cr_assert(client->c);
    client->c->greeted = true;
    client->c->owner = uid;
    return client;
}

static void begin(struct client *client, uint64_t body_bytes)
{
    client->body_bytes = body_bytes;
    client->sent = 0;
    memset(client->header, 0, sizeof client->header);
    frame_write(&(const struct frame_header){.kind = OPERATION_UPSERT,
                                             .request_id = (uint64_t)(client - clients),
                                             .body_bytes = body_bytes},
                client->header);
}

static bool is_sent(const struct client *client)
{
    return client->sent == client->body_bytes + sizeof client->header;
}

/* Sends up to so many bytes, as long as the daemon reads. Returns how many it took. */
static uint64_t send_up(struct client *client, uint64_t most)
{
    uint64_t done = 0;
    while (done < most && !is_sent(client)) {
        if (client->c->waits_in) net_turn(&net);
        if (!client->c->reading) break;
        uv_buf_t room = receive_buffer(client->c);
        if (!room.len) {
            receive_bytes(client->c, UV_ENOBUFS);
            continue;
        }
        uint64_t left = sizeof client->header + client->body_bytes - client->sent;
        uint64_t n = room.len < most - done ? room.len : most - done;
        if (n > left) n = left;
        if (n > 50000) n = 50000; /* what a socket holds */
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = client->sent + i;
            room.base[i] = (char)(at < 64 ? client->header[at] : byte_at(at - 64));
        }
        client->sent += n;
        done += n;
        receive_bytes(client->c, (ssize_t)n);
    }
    return done;
}

static void turn(uint64_t ms)
{
    now_ns += ms * MS;
    net_sweep(&net);
    net_flush(&net);
}

#endif
