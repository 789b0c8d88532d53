/* receive: socket bytes -> frames. Small frames are used where they were read; a large body is
 * read straight into a block of its own. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/net/connection.h"
#include "daemon/net/large_body.h"
#include "daemon/net/ration.h"

/* A frame must be whole this long after its first byte: stall_ms plus a second per MiB. */
static uint64_t frame_allowance_ns(const struct connection *c)
{
    uint64_t ms = c->net->config->stall_ms_max;
    if (c->has_header || c->discard) ms += c->header.body_bytes / 1024;
    return net_allowance_ns(ms);
}

bool receive_allowed(const struct connection *c)
{
    const struct config *cfg = c->net->config;
    return c->in_flight < cfg->in_flight_max && c->output_bytes < OUTPUT_HIGH_WATER &&
           c->in_flight_bytes <= cfg->body_mib_max << 20;
}

/* How many contiguous bytes, from `begin`, are needed to parse the frame there. */
static uint64_t frame_need(const struct connection *c)
{
    if (!c->has_header) return FRAME_HEADER_BYTES;
    uint64_t head = frame_body_offset(&c->header);
    uint64_t whole = head + c->header.body_bytes;
    return whole <= RECEIVE_BYTES ? whole : head;
}

/* Makes room to read more: takes a buffer if needed, with `begin` low enough for the frame to
 * fit. */
static enum status receive_room(struct connection *c)
{
    struct body *b = c->buffer;
    if (b && b->holds == 1 && c->begin == c->end) c->begin = c->end = 0;
    uint32_t least = RECEIVE_BYTES / 8;
    if (b && c->begin + frame_need(c) <= RECEIVE_BYTES &&
        (c->end + least <= RECEIVE_BYTES || (c->begin < c->end && c->has_header)) &&
        c->end < RECEIVE_BYTES)
        return STATUS_OK;
    uint32_t kept = c->end - c->begin;
    if (b && b->holds == 1) {
        memmove(b->block.data, (char *)b->block.data + c->begin, kept);
    } else {
        /* The first buffer of a connection ignores the quota: a client at its quota must still be
         * able to send a request that drops something. A further buffer has to wait for the
         * requests that hold this one. */
        struct body *fresh;
        struct body_pool *pool = &c->net->bodies;
        enum status st = b ? body_take(pool, RECEIVE_BYTES, c->owner, &fresh)
                           : body_take_past_quota(pool, RECEIVE_BYTES, c->owner, &fresh);
        if (st) return st;
        if (kept) memcpy(fresh->block.data, (char *)b->block.data + c->begin, kept);
        body_drop(b);
        c->buffer = fresh;
    }
    c->begin = 0;
    c->end = kept;
    return STATUS_OK;
}

uv_buf_t receive_buffer(struct connection *c)
{
    if (!ration_allows(c)) return uv_buf_init(NULL, 0);
    if (c->finishing) return uv_buf_init((char *)c->net->scrap, sizeof c->net->scrap);
    if (c->discard) {
        uint64_t room = sizeof c->net->scrap;
        return uv_buf_init((char *)c->net->scrap, c->discard < room ? c->discard : room);
    }
    if (c->direct) return large_body_room(c);
    if (receive_room(c)) return uv_buf_init(NULL, 0);
    return uv_buf_init((char *)c->buffer->block.data + c->end, RECEIVE_BYTES - c->end);
}

static void deliver(struct connection *c, void *body, struct body *hold)
{
    struct frame f = {
        .header = &c->header,
        .message = (char *)c->buffer->block.data + c->begin + FRAME_HEADER_BYTES,
        .body = c->header.body_bytes ? body : NULL,
        .hold = hold,
    };
    c->has_header = false;
    ration_spend(c, RATION_FRAME_BYTES);
    c->net->events.on_frame(c->net->events.owner, c, &f);
}

/* Starts to receive the large body of the frame at `begin`; bytes of it that came with the head
 * are moved there. */
static void begin_direct(struct connection *c)
{
    uint64_t head = frame_body_offset(&c->header);
    uint32_t have = c->end - c->begin - (uint32_t)head;
    if (large_body_begin(c, (char *)c->buffer->block.data + c->begin + head, have)) c->end -= have;
}

static void end_direct(struct connection *c)
{
    struct body *hold = large_body_end(c);
    deliver(c, hold->block.data, hold);
    c->begin = c->end;
    body_drop(hold);
}

/* Refuses bytes that are no request's header: where the next frame begins is unknown then. */
static void refuse_framing(struct connection *c, const void *at)
{
    struct failure f = {0};
    struct frame_header header = {0};
    frame_parse(at, c->net->config->body_mib_max << 20, &header, &f);
    connection_refuse_frame(c, &header, &f);
    c->net->counters.dropped++;
    connection_finish(c);
}

/* A cancel may exceed the limit of requests in flight: one of those may be what it cancels. */
static bool is_cancel(const struct connection *c)
{
    return c->header.kind == OPERATION_CANCEL && c->output_bytes < OUTPUT_HIGH_WATER;
}

/* Whether a successor asks for what this daemon has. */
static bool is_hand_over(const struct connection *c, const void *at)
{
    const struct net_events *e = &c->net->events;
    return e->is_hand_over && !c->greeted && c->peer->key.kind == PEER_USER && e->is_hand_over(at);
}

/* Parses the frame at `begin`. False: it needs more bytes, or no further request may be taken. */
static bool parse_one(struct connection *c)
{
    uint32_t have = c->end - c->begin;
    if (have < FRAME_HEADER_BYTES) return false;
    char *at = (char *)c->buffer->block.data + c->begin;
    if (!c->has_header && is_hand_over(c, at)) {
        c->net->events.on_hand_over(c->net->events.hand_over_owner, c, at);
        connection_close(c);
        return false;
    }
    if (!c->has_header) {
        if (!frame_read(at, c->net->config->body_mib_max << 20, &c->header)) {
            refuse_framing(c, at);
            return false;
        }
        c->has_header = true;
    }
    uint64_t head = frame_body_offset(&c->header);
    uint64_t whole = head + c->header.body_bytes;
    if (whole > RECEIVE_BYTES) {
        if (have < head) return false;
        if (!c->greeted) { /* before Hello a large body is refused, without memory for it */
            deliver(c, NULL, NULL);
            connection_finish(c);
            return false;
        }
        if (!receive_allowed(c)) {
            c->paused = true;
            return false;
        }
        begin_direct(c);
        return false;
    }
    if (have < whole) return false;
    if (!receive_allowed(c) && !is_cancel(c)) {
        c->paused = true;
        return false;
    }
    deliver(c, at + head, c->buffer);
    c->begin += (uint32_t)whole;
    c->frame_started_ns = 0;
    return true;
}

void receive_parse(struct connection *c)
{
    if (c->in_receive || c->waits_in) return;
    struct body *hold = body_hold(c->buffer); /* a handler may close c */
    c->in_receive = true;
    /* the daemon paused it: the client's time starts anew */
    if (c->paused) c->frame_started_ns = 0;
    c->paused = c->direct && !large_body_grow(c) && c->direct;
    bool may = true;
    while (!c->finishing && !c->closing && !c->direct && !c->discard && c->buffer &&
           (may = ration_allows(c)) && parse_one(c)) {
    }
    c->in_receive = false;
    body_drop(hold);
    if (c->closing || c->finishing) return;
    if (c->begin == c->end && !c->direct && !c->discard)
        c->frame_started_ns = 0;
    else if (!c->frame_started_ns || c->paused)
        c->frame_started_ns = c->net->now_ns;
    if (!may)
        ration_wait(c);
    else if (c->paused)
        receive_stop(c);
    else
        receive_start(c);
}

/* There is no memory for the next bytes: the sweep tries again. */
static void wait_unread(struct connection *c)
{
    c->paused = true;
    receive_stop(c);
}

void receive_bytes(struct connection *c, ssize_t bytes)
{
    if (bytes == 0) return;
    if (bytes == UV_ENOBUFS) {
        if (ration_allows(c))
            wait_unread(c);
        else
            ration_wait(c);
        return;
    }
    if (bytes < 0) {
        connection_close(c);
        return;
    }
    c->net->counters.bytes_in += (uint64_t)bytes;
    ration_spend(c, (uint64_t)bytes);
    if (c->finishing) return;
    if (c->discard) {
        c->discard -= (uint64_t)bytes;
        if (!c->discard) c->frame_started_ns = 0;
        return;
    }
    if (c->direct) {
        large_body_came(c, (uint64_t)bytes);
        if (!large_body_is_whole(c)) {
            if (!large_body_grow(c) && c->direct && !c->closing) wait_unread(c);
            return;
        }
        end_direct(c);
        if (c->closing) return;
        c->frame_started_ns = 0;
        return;
    }
    c->end += (uint32_t)bytes;
    receive_parse(c);
}

void receive_start(struct connection *c)
{
    if (c->reading || c->closing) return;
    c->reading = c->transport->start_reading(c);
    if (!c->reading) connection_close(c);
}

void receive_stop(struct connection *c)
{
    if (!c->reading) return;
    c->transport->stop_reading(c);
    c->reading = false;
}

void receive_relax(struct connection *c)
{
    if (c->buffer && c->buffer->holds == 1 && c->begin == c->end && !c->direct) {
        body_drop(c->buffer);
        c->buffer = NULL;
        c->begin = c->end = 0;
    }
}

void receive_release(struct connection *c)
{
    body_drop(c->buffer);
    body_drop(large_body_end(c));
    c->buffer = NULL;
    c->begin = c->end = 0;
}

bool receive_stalled(const struct connection *c, uint64_t now_ns)
{
    return c->frame_started_ns && !c->paused && !c->waits_in &&
           now_ns - c->frame_started_ns > frame_allowance_ns(c);
}
