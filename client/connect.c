/* connect: a socket to the daemon, and Hello on it. */
#include "client/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* 0, or an errno value. */
static int wait_connected(int fd, int64_t until_ns)
{
    for (;;) {
        int64_t left_ns = until_ns - ea_now_ns();
        if (left_ns <= 0) return ETIMEDOUT;
        struct timespec t = {left_ns / 1000000000, left_ns % 1000000000};
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int n = ppoll(&p, 1, &t, NULL);
        if (n < 0 && errno != EINTR) return errno;
        if (n <= 0) continue;
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size)) return errno;
        return error;
    }
}

/* A connected, non-blocking socket in *out; 0, or an errno value. */
static int connect_to(const struct sockaddr *address, socklen_t size, int64_t until_ns, int *out)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    int error = 0;
    for (;;) {
        error = connect(fd, address, size) ? errno : 0;
        /* A Unix socket whose backlog is full cannot be waited for. */
        if (error != EAGAIN || ea_now_ns() >= until_ns) break;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    if (error == EINPROGRESS || error == EINTR) error = wait_connected(fd, until_ns);
    if (error == EAGAIN) error = ETIMEDOUT;
    if (error) {
        close(fd);
        return error;
    }
    *out = fd;
    return 0;
}

static ea_status refuse(ea_client *c, const char *what, int error)
{
    ea_status st = error == EACCES || error == EPERM ? EA_PERMISSION_DENIED : EA_UNAVAILABLE;
    return ea_fail(c, st, EA_DETAIL_SYSTEM, "cannot connect to %s: %s", what, strerror(error));
}

static ea_status open_unix(ea_client *c, int64_t until_ns)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, c->socket_path, strlen(c->socket_path) + 1);
    int error = connect_to((const struct sockaddr *)&address, sizeof address, until_ns, &c->fd);
    return error ? refuse(c, c->socket_path, error) : EA_OK;
}

static ea_status open_tcp(ea_client *c, int64_t until_ns)
{
    char port[8];
    snprintf(port, sizeof port, "%u", c->tcp_port);
    char what[300];
    snprintf(what, sizeof what, "%s port %s", c->tcp_host, port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int failed = getaddrinfo(c->tcp_host, port, &hints, &list);
    if (failed)
        return ea_fail(c, EA_UNAVAILABLE, EA_DETAIL_SYSTEM, "cannot connect to %s: %s", what,
                       gai_strerror(failed));
    int error = EADDRNOTAVAIL;
    for (struct addrinfo *a = list; a; a = a->ai_next) {
        error = connect_to(a->ai_addr, a->ai_addrlen, until_ns, &c->fd);
        if (!error) break;
    }
    freeaddrinfo(list);
    if (error) return refuse(c, what, error);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return EA_OK;
}

/* The handle takes over the daemon's word: who it is and what it takes. */
static ea_status accept_hello(ea_client *c, const engram_accel_v1_HelloReply *m)
{
    struct note note;
    ea_status st = EA_OK;
    if (m->version != EA_PROTOCOL_VERSION)
        st = ea_note_set(&note, EA_UNIMPLEMENTED, 0, "the daemon chose protocol version %u",
                         m->version);
    else if (!m->has_limits)
        st = ea_note_set(&note, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE, "Hello names no limits");
    if (st) {
        ea_lose(c, &note, false);
        return ea_fail_note(c, &note);
    }
    c->instance = m->instance;
    c->limits = (struct limits){
        .message_bytes_max = m->limits.message_bytes_max,
        .body_bytes_max = m->limits.body_bytes_max,
        .reply_bytes_max = m->limits.reply_bytes_max,
        .dimension_max = m->limits.dimension_max,
        .k_max = m->limits.k_max,
        .in_flight_max = m->limits.in_flight_max,
    };
    return EA_OK;
}

static ea_status say_hello(ea_client *c, int64_t until_ns)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_HELLO);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_HelloRequest m = {
        .version_min = EA_PROTOCOL_VERSION,
        .version_max = EA_PROTOCOL_VERSION,
        .token.size = (pb_size_t)c->token_bytes,
    };
    memcpy(m.client_name, c->client_name, strlen(c->client_name));
    memcpy(m.space, c->space, strlen(c->space));
    memcpy(m.token.bytes, c->token, c->token_bytes);
    engram_accel_v1_HelloReply reply;
    r->answer = &reply;
    r->deadline_ns = until_ns;
    ea_status st = ea_request_message(c, r, engram_accel_v1_HelloRequest_fields, &m);
    explicit_bzero(&m.token, sizeof m.token);
    c->limits = (struct limits){.in_flight_max = 1};
    if (!st) st = ea_submit(c, r);
    if (!st) {
        ea_wait(c, r);
        st = r->note.code;
        if (st) ea_fail_note(c, &r->note);
    }
    explicit_bzero(r->head, sizeof r->head); /* it held the token */
    ea_request_release(c, r);
    if (!st) return accept_hello(c, &reply);
    if (c->fd >= 0) ea_lose(c, &c->error, false);
    return st;
}

ea_status ea_connect_until(ea_client *c, int64_t until_ns)
{
    if (c->closing) return ea_fail(c, EA_CANCELLED, 0, "the handle is being closed");
    if (c->fd >= 0) return EA_OK;
    int64_t bound_ns = ea_deadline_after(c->connect_timeout_us);
    if (until_ns && (!bound_ns || until_ns < bound_ns)) bound_ns = until_ns;
    ea_status st = c->tcp_host[0] ? open_tcp(c, bound_ns) : open_unix(c, bound_ns);
    if (!st) st = say_hello(c, bound_ns);
    /* Not the call's own deadline: nobody answers there. */
    if (st == EA_DEADLINE_EXCEEDED && bound_ns != until_ns)
        st = ea_fail(c, EA_UNAVAILABLE, EA_DETAIL_DEADLINE, "connected, but no Hello in time");
    return st;
}
