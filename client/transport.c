/* transport: sends and receives bytes. Never waits. */
#include "client/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GATHER_MAX = 128 };

/* ---- loss ---- */

void ea_lose(ea_client *c, const struct note *note, bool repeat)
{
    struct note why = *note; /* note may be one of those that change below */
    if (c->link != LINK_NONE) {
        if (c->fd >= 0) close(c->fd);
        c->fd = -1;
        c->link = LINK_NONE;
        c->losses++;
        c->loss = why;
    }
    c->output_first = c->output_last = NULL;
    c->reading = NULL;
    c->body_left = c->body_read = 0;
    c->input_used = 0;
    while (c->pending.first) {
        struct client_request *r = c->pending.first;
        if (!r->answered) {
            r->note = why;
            r->lost = repeat;
        }
        ea_request_end(c, r);
    }
    c->in_flight = 0;
    c->nearest_deadline_ns = INT64_MAX;
}

static void lose_system(ea_client *c, const char *what, int error)
{
    struct note note;
    ea_note_set(&note, EA_UNAVAILABLE, EA_DETAIL_SYSTEM, "connection lost: %s: %s", what,
                strerror(error));
    ea_lose(c, &note, true);
}

static void lose_protocol(ea_client *c, const char *text)
{
    struct note note;
    ea_note_set(&note, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE, "the daemon's reply: %s", text);
    ea_lose(c, &note, false);
}

/* ---- out ---- */

/* The deadline is sent as the time that is left. Hello has none. */
static void stamp_deadline(struct client_request *r, int64_t *now_ns)
{
    if (!r->deadline_ns || r->kind == engram_accel_v1_Kind_KIND_HELLO) return;
    if (!*now_ns) *now_ns = ea_now_ns();
    int64_t us = (r->deadline_ns - *now_ns) / 1000;
    ((struct wire_head *)r->head)->deadline_us = us < 1            ? 1
                                                 : us > UINT32_MAX ? UINT32_MAX
                                                                   : (uint32_t)us;
}

static void stamp_progress(const ea_client *c, struct client_request *r)
{
    bool knows = c->hello.features & engram_accel_v1_Feature_FEATURE_PROGRESS;
    if (r->progress && c->link == LINK_READY && knows)
        ((struct wire_head *)r->head)->flags = EA_FLAG_PROGRESS;
}

static bool may_begin(const ea_client *c, const struct client_request *r, uint64_t in_flight)
{
    if (c->link != LINK_READY) return r->kind == engram_accel_v1_Kind_KIND_HELLO;
    return r->begun || r->kind == engram_accel_v1_Kind_KIND_CANCEL || !c->limits.in_flight_max ||
           in_flight < c->limits.in_flight_max;
}

bool ea_output_waits(const ea_client *c)
{
    if (c->link == LINK_SOCKET) return true;
    return c->output_first && may_begin(c, c->output_first, c->in_flight);
}

/* Collects the pieces of as many requests as fit and may be sent. */
static size_t gather(ea_client *c, struct iovec *out)
{
    size_t count = 0;
    int64_t now_ns = 0;
    uint64_t in_flight = c->in_flight;
    for (struct client_request *r = c->output_first; r; r = r->output_next) {
        if (count + r->piece_count > GATHER_MAX || !may_begin(c, r, in_flight)) break;
        if (!r->begun) {
            stamp_deadline(r, &now_ns);
            stamp_progress(c, r);
            in_flight += r->kind != engram_accel_v1_Kind_KIND_CANCEL;
        }
        for (uint32_t i = r->piece_at; i < r->piece_count; i++)
            out[count++] = r->pieces[i];
        if (r == c->output_first && count) {
            out[0].iov_base = (char *)out[0].iov_base + r->piece_offset;
            out[0].iov_len -= r->piece_offset;
        }
    }
    return count;
}

/* Advances past n bytes that were sent. */
static void consume(ea_client *c, size_t n)
{
    while (n) {
        struct client_request *r = c->output_first;
        if (!r->begun) {
            r->begun = true;
            c->in_flight += r->kind != engram_accel_v1_Kind_KIND_CANCEL;
        }
        size_t left = r->pieces[r->piece_at].iov_len - r->piece_offset;
        if (n < left) {
            r->piece_offset += n;
            return;
        }
        n -= left;
        r->piece_offset = 0;
        if (++r->piece_at < r->piece_count) continue;
        r->sent = true;
        ea_watch_sent(c, r);
        c->output_first = r->output_next;
        if (!c->output_first) c->output_last = NULL;
        if (r->answered) ea_request_end(c, r);
    }
}

void ea_flush(ea_client *c)
{
    while (c->link >= LINK_HELLO && c->output_first) {
        struct iovec pieces[GATHER_MAX];
        struct msghdr m = {.msg_iov = pieces, .msg_iovlen = gather(c, pieces)};
        if (!m.msg_iovlen) return; /* as many requests are in flight as the daemon takes */
        ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            consume(c, (size_t)n);
            continue;
        }
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        /* The daemon may have sent a reason before it closed the connection. */
        int error = errno;
        ea_fill(c);
        if (c->link != LINK_NONE) lose_system(c, "write", error);
        return;
    }
}

/* ---- in ---- */

/* The reply is complete. */
static void finish_reply(ea_client *c, struct client_request *r)
{
    if (!r->note.code && r->owner != OWNER_LIBRARY && ea_reply_check(r, &r->note) == EA_DATA_LOSS) {
        struct note note = r->note;
        ea_lose(c, &note, false);
        return;
    }
    r->answered = true;
    if (r->owner != OWNER_LIBRARY) ea_watch_learn(c, r);
    if (r->sent) ea_request_end(c, r); /* otherwise its arrays are still being sent */
}

static const char *head_fault(const struct wire_head *h)
{
    if (h->magic != EA_MAGIC) return "wrong magic";
    if (h->version != EA_PROTOCOL_VERSION) return "unknown frame version";
    if (h->flags != EA_FLAG_REPLY && h->flags != (EA_FLAG_REPLY | EA_FLAG_ERROR) &&
        h->flags != (EA_FLAG_REPLY | EA_FLAG_PROGRESS))
        return "flags of no reply";
    if (h->message_bytes > EA_MESSAGE_BYTES_MAX) return "message too large";
    if (h->body_bytes % EA_ALIGN || h->body_bytes > INT64_MAX) return "body of a wrong size";
    if (h->flags != EA_FLAG_REPLY && h->body_bytes) return "a body where there is none";
    return NULL;
}

/* An Error that answers no request: the daemon refuses the connection. */
static void refused(ea_client *c, const uint8_t *message, uint32_t bytes)
{
    struct note note;
    if (ea_reply_error(message, bytes, &note) == EA_DATA_LOSS)
        lose_protocol(c, note.text);
    else
        ea_lose(c, &note, false);
}

/* Takes one whole head (header, message, padding); its body follows. */
static void take_head(ea_client *c, const struct wire_head *h, const uint8_t *message)
{
    bool is_error = h->flags & EA_FLAG_ERROR;
    struct note unread;
    if (h->flags & EA_FLAG_PROGRESS) {
        if (ea_progress_take(c, h, message, &unread)) ea_lose(c, &unread, false);
        return;
    }
    if (is_error && h->request_id == 0) {
        refused(c, message, h->message_bytes);
        return;
    }
    struct client_request *r = ea_request_find(c, h->request_id);
    if (!r || !r->begun || r->answered) {
        lose_protocol(c, "to a request that nobody made");
        return;
    }
    if (r->kind != h->kind) {
        lose_protocol(c, "of another kind than its request");
        return;
    }
    r->instance = c->instance;
    ea_status st;
    if (is_error)
        st = ea_reply_error(message, h->message_bytes, &r->note);
    else if (r->owner == OWNER_LIBRARY)
        st = EA_OK; /* too late: only the length of its body matters */
    else
        st = ea_reply_parse(r, message, h->message_bytes, h->body_bytes, &r->note);
    if (st == EA_DATA_LOSS && !is_error) {
        struct note note = r->note;
        ea_lose(c, &note, false);
        return;
    }
    c->body_left = h->body_bytes;
    c->body_read = 0;
    c->reading = r->result.memory && h->body_bytes ? r : NULL;
    if (!c->body_left || !c->reading) finish_reply(c, r);
}

/* Takes body bytes that are already in the buffer. Returns how many. */
static uint32_t take_body(ea_client *c, const uint8_t *bytes, uint32_t count)
{
    uint32_t n = count < c->body_left ? count : (uint32_t)c->body_left;
    if (c->reading) memcpy((char *)c->reading->body + c->body_read, bytes, n);
    c->body_read += n;
    c->body_left -= n;
    if (!c->body_left && c->reading) {
        struct client_request *r = c->reading;
        c->reading = NULL;
        finish_reply(c, r);
    }
    return n;
}

/* Parses what the buffer holds; an incomplete head is moved to its start. */
static void parse_input(ea_client *c)
{
    uint32_t at = 0;
    uint64_t losses = c->losses;
    while (at < c->input_used) {
        const uint8_t *bytes = c->input + at;
        uint32_t left = c->input_used - at;
        if (c->body_left) {
            at += take_body(c, bytes, left);
        } else {
            if (left < EA_HEADER_BYTES) break;
            struct wire_head h;
            memcpy(&h, bytes, sizeof h);
            const char *fault = head_fault(&h);
            if (fault) {
                lose_protocol(c, fault);
                return;
            }
            uint64_t head_bytes = ea_align(EA_HEADER_BYTES + (uint64_t)h.message_bytes);
            if (left < head_bytes) break;
            at += (uint32_t)head_bytes;
            take_head(c, &h, bytes + EA_HEADER_BYTES);
        }
        if (c->losses != losses) return; /* ea_lose has emptied the buffer */
    }
    c->input_used -= at;
    if (at && c->input_used) memmove(c->input, c->input + at, c->input_used);
}

/* Where the next bytes are read to: the rest of a body directly to its memory, then the buffer. */
static size_t input_places(ea_client *c, struct iovec *places, size_t *into_body)
{
    size_t count = 0;
    *into_body = 0;
    if (c->reading && c->body_left) {
        *into_body = c->body_left;
        places[count++] = (struct iovec){(char *)c->reading->body + c->body_read, c->body_left};
    }
    places[count++] = (struct iovec){c->input + c->input_used, EA_INPUT_BYTES - c->input_used};
    return count;
}

void ea_fill(ea_client *c)
{
    while (c->link >= LINK_HELLO) {
        struct iovec places[2];
        size_t into_body;
        struct msghdr m = {.msg_iov = places};
        m.msg_iovlen = input_places(c, places, &into_body);
        ssize_t got = recvmsg(c->fd, &m, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got < 0) {
            lose_system(c, "read", errno);
            return;
        }
        if (got == 0) {
            struct note note;
            ea_note_set(&note, EA_UNAVAILABLE, 0, "connection lost: the daemon closed it");
            ea_lose(c, &note, true);
            return;
        }
        size_t n = (size_t)got, in_body = n < into_body ? n : into_body;
        bool full = n == into_body + places[m.msg_iovlen - 1].iov_len;
        c->input_used += (uint32_t)(n - in_body);
        c->body_read += in_body;
        c->body_left -= in_body;
        if (into_body && !c->body_left) {
            struct client_request *r = c->reading;
            c->reading = NULL;
            uint64_t losses = c->losses;
            finish_reply(c, r);
            if (c->losses != losses) return;
        }
        parse_input(c);
        if (!full) return; /* everything was read; later bytes wake a poll */
    }
}
