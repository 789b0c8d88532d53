/* connect: opens a socket to the daemon and says Hello, step by step. Only ea_connect_until waits,
 * and the look-up of a name for it. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/client.h"

enum { RETRY_NS = 2000000 };

/* ---- failure ---- */

static void note_refusal(const ea_client *c, struct note *note, int error)
{
    ea_status st = error == EACCES || error == EPERM ? EA_PERMISSION_DENIED : EA_UNAVAILABLE;
    if (c->tcp_host[0])
        ea_note_set(note, st, EA_DETAIL_SYSTEM, "cannot connect to %.200s port %u: %s", c->tcp_host,
                    c->tcp_port, strerror(error));
    else
        ea_note_set(note, st, EA_DETAIL_SYSTEM, "cannot connect to %.200s: %s", c->socket_path,
                    strerror(error));
}

/* Ends the attempt, and with it every request that waited for it. */
static void give_up(ea_client *c, int error)
{
    struct note note;
    note_refusal(c, &note, error);
    ea_lose(c, &note, false);
}

/* ---- Hello ---- */

static ea_status say_hello(ea_client *c)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_HELLO);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_HelloRequest m = {
        .version_min = EA_PROTOCOL_VERSION,
        .version_max = EA_PROTOCOL_VERSION,
        .features = engram_accel_v1_Feature_FEATURE_PROGRESS,
        .token.size = (pb_size_t)c->token_bytes,
    };
    memcpy(m.client_name, c->client_name, strlen(c->client_name));
    memcpy(m.space, c->space, strlen(c->space));
    memcpy(m.token.bytes, c->token, c->token_bytes);
    r->answer = &c->hello;
    ea_status st = ea_request_message(c, r, engram_accel_v1_HelloRequest_fields, &m);
    explicit_bzero(&m.token, sizeof m.token);
    if (!st) st = ea_submit(c, r);
    if (st) ea_request_release(c, r);
    return st;
}

static void begin_hello(ea_client *c)
{
    if (c->tcp_host[0]) setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c->link = LINK_HELLO;
    c->limits = (struct limits){.in_flight_max = 1};
    if (say_hello(c)) ea_lose(c, &c->error, false);
}

/* Refuses requests that turn out to be too large: the limit was not known before Hello was
 * answered. */
static void refuse_large(ea_client *c)
{
    struct client_request *next;
    for (struct client_request *r = c->pending.first; r; r = next) {
        next = r->next;
        if (r->body_bytes <= c->limits.body_bytes_max) continue;
        ea_note_set(&r->note, EA_RESOURCE_EXHAUSTED, EA_DETAIL_BODY_TOO_LARGE,
                    "request of %llu bytes, the daemon takes at most %llu",
                    (unsigned long long)r->body_bytes,
                    (unsigned long long)c->limits.body_bytes_max);
        ea_abandon(c, r);
    }
}

/* Takes the daemon's identity and limits from its reply. */
static void accept_hello(ea_client *c)
{
    const engram_accel_v1_HelloReply *m = &c->hello;
    struct note note;
    ea_status st = EA_OK;
    if (m->version != EA_PROTOCOL_VERSION)
        st = ea_note_set(&note, EA_UNIMPLEMENTED, 0, "the daemon chose protocol version %u",
                         m->version);
    else if (!m->has_limits)
        st = ea_note_set(&note, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE, "Hello names no limits");
    if (st) {
        ea_lose(c, &note, false);
        return;
    }
    c->link = LINK_READY;
    c->instance = m->instance;
    c->generation = m->generation;
    c->limits = (struct limits){
        .message_bytes_max = m->limits.message_bytes_max,
        .body_bytes_max = m->limits.body_bytes_max,
        .reply_bytes_max = m->limits.reply_bytes_max,
        .dimension_max = m->limits.dimension_max,
        .k_max = m->limits.k_max,
        .in_flight_max = m->limits.in_flight_max,
    };
    refuse_large(c);
}

void ea_connect_answered(ea_client *c, struct client_request *r)
{
    struct note note = r->note;
    explicit_bzero(r->head, sizeof r->head); /* it held the token */
    ea_request_release(c, r);
    if (c->link != LINK_HELLO) return; /* the connection is being lost, and all requests are told */
    if (note.code)
        ea_lose(c, &note, false);
    else
        accept_hello(c);
}

/* ---- the socket ---- */

static int connect_address(ea_client *c)
{
    if (c->address) return connect(c->fd, c->address->ai_addr, c->address->ai_addrlen);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, c->socket_path, strlen(c->socket_path) + 1);
    return connect(c->fd, (const struct sockaddr *)&a, sizeof a);
}

/* Tries the current address: 0 if the attempt is running, or an errno value. */
static int attempt(ea_client *c)
{
    if (c->fd < 0) {
        int family = c->address ? c->address->ai_family : AF_UNIX;
        c->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (c->fd < 0) return errno;
    }
    int error = connect_address(c) ? errno : 0;
    if (!error) {
        begin_hello(c);
    } else if (error == EINPROGRESS || error == EINTR) {
        c->link = LINK_SOCKET;
        /* there is no event for a free place in a Unix socket's backlog */
    } else if (error == EAGAIN) {
        c->link = LINK_RETRY;
        c->retry_ns = ea_now_ns() + RETRY_NS;
    } else {
        close(c->fd);
        c->fd = -1;
        return error;
    }
    return 0;
}

/* Tries addresses from the current one on, until an attempt is running. */
static int attempt_all(ea_client *c)
{
    int error = attempt(c);
    while (error && c->address && c->address->ai_next) {
        c->address = c->address->ai_next;
        error = attempt(c);
    }
    return error;
}

/* Looks tcp_host up. That may wait for a name server, so it is done only where waiting is
 * allowed. */
static ea_status look_up(ea_client *c, bool may_wait)
{
    char port[8];
    snprintf(port, sizeof port, "%u", c->tcp_port);
    struct addrinfo hints = {.ai_flags = may_wait ? 0 : AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int failed = getaddrinfo(c->tcp_host, port, &hints, &list);
    if (failed && !may_wait && c->addresses) return EA_OK; /* the earlier addresses are kept */
    if (failed && !may_wait)
        return ea_fail(c, EA_FAILED_PRECONDITION, EA_DETAIL_NONE,
                       "%.200s is a name that was not looked up yet: call ea_connect first",
                       c->tcp_host);
    if (failed)
        return ea_fail(c, EA_UNAVAILABLE, EA_DETAIL_SYSTEM, "cannot connect to %.200s port %s: %s",
                       c->tcp_host, port, gai_strerror(failed));
    if (c->addresses) freeaddrinfo(c->addresses);
    c->addresses = list;
    return EA_OK;
}

static ea_status start(ea_client *c, bool may_wait)
{
    if (c->closing) return ea_fail(c, EA_CANCELLED, 0, "the handle is being closed");
    if (c->link != LINK_NONE) return EA_OK;
    int64_t until_ns = ea_deadline_after(c->connect_timeout_us);
    ea_status st = c->tcp_host[0] ? look_up(c, may_wait) : EA_OK;
    if (st) return st;
    c->address = c->tcp_host[0] ? c->addresses : NULL;
    c->connect_until_ns = until_ns ? until_ns : INT64_MAX;
    int error = attempt_all(c);
    if (!error) return c->link != LINK_NONE ? EA_OK : ea_fail_note(c, &c->loss);
    struct note note;
    note_refusal(c, &note, error);
    return ea_fail_note(c, &note);
}

ea_status ea_connect_start(ea_client *c)
{
    return start(c, false);
}

/* ---- on the way ---- */

int64_t ea_connect_next_ns(const ea_client *c)
{
    switch (c->link) {
    case LINK_RETRY: return c->retry_ns < c->connect_until_ns ? c->retry_ns : c->connect_until_ns;
    case LINK_SOCKET:
    case LINK_HELLO: return c->connect_until_ns;
    case LINK_NONE:
    case LINK_READY: break;
    }
    return INT64_MAX;
}

static void try_next(ea_client *c, int error)
{
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    if (c->address && c->address->ai_next) {
        c->address = c->address->ai_next;
        error = attempt_all(c);
    }
    if (error) give_up(c, error);
}

static void look_at_socket(ea_client *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLOUT};
    if (poll(&p, 1, 0) <= 0) return;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size)) error = errno;
    if (error)
        try_next(c, error);
    else
        begin_hello(c);
}

static void time_out(ea_client *c)
{
    struct note note;
    if (c->link == LINK_HELLO)
        ea_note_set(&note, EA_UNAVAILABLE, EA_DETAIL_DEADLINE, "connected, but no Hello in time");
    else
        note_refusal(c, &note, ETIMEDOUT);
    ea_lose(c, &note, false);
}

void ea_connect_continue(ea_client *c)
{
    int error = 0;
    switch (c->link) {
    case LINK_RETRY:
        if (ea_now_ns() >= c->retry_ns) error = attempt(c);
        if (error) try_next(c, error);
        break;
    case LINK_SOCKET: look_at_socket(c); break;
    case LINK_HELLO: break;
    case LINK_NONE:
    case LINK_READY: return;
    }
    if (c->link == LINK_HELLO) ea_fill(c); /* an answer that has come counts */
    if (c->link != LINK_NONE && c->link != LINK_READY && ea_now_ns() >= c->connect_until_ns)
        time_out(c);
}

/* The caller's own deadline came first. If no other request waits, the attempt ends, too. */
static ea_status too_late(ea_client *c)
{
    struct note note;
    if (c->link == LINK_HELLO)
        ea_note_set(&note, EA_DEADLINE_EXCEEDED, EA_DETAIL_DEADLINE,
                    "no answer before the deadline");
    else
        note_refusal(c, &note, ETIMEDOUT);
    if (!c->callback_count) ea_lose(c, &note, false);
    return ea_fail_note(c, &note);
}

ea_status ea_connect_until(ea_client *c, int64_t until_ns)
{
    ea_status st = ea_stopped(c);
    if (!st) st = start(c, true);
    while (!st && c->link != LINK_READY) {
        uint64_t losses = c->losses;
        ea_step(c, until_ns ? until_ns : INT64_MAX);
        if (c->losses != losses) return ea_fail_note(c, &c->loss);
        if (c->link == LINK_READY) break;
        if (until_ns && ea_now_ns() >= until_ns) return too_late(c);
        st = ea_stopped(c);
    }
    return st;
}
