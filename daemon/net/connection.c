#include "daemon/net/connection.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/descriptors.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"

enum { CONNECTION_LOG_BYTES = 512 };

/* Descriptors that connections leave for files, for GPU processes that are started again and for
 * HTTP; operators' connections leave half. */
enum { DESCRIPTORS_KEPT = 24 };

void connection_closed(struct connection *c)
{
    struct net *n = c->net;
    if (c->id) {
        n->slots[c->slot] = NULL;
        n->generations[c->slot]++;
        n->free_slots[n->free_count++] = c->slot;
        n->counters.open--;
        c->peer->connections--;
    }
    free(c);
}

static void dirty_remove(struct connection *c)
{
    for (struct connection **at = &c->net->dirty; c->is_dirty && *at; at = &(*at)->dirty_next)
        if (*at == c) {
            *at = c->dirty_next;
            c->is_dirty = false;
            return;
        }
}

void connection_close(struct connection *c)
{
    if (c->closing) return;
    c->closing = true;
    receive_stop(c);
    ration_leave(c);
    if (c->id) c->net->events.on_close(c->net->events.owner, c);
    output_release(c);
    receive_release(c);
    dirty_remove(c);
    c->transport->close(c);
}

void connection_finish(struct connection *c)
{
    if (c->finishing || c->closing) return;
    c->finishing = true;
    c->finishing_ns = c->net->now_ns;
    connection_wake(c);
}

void connection_wake(struct connection *c)
{
    if (c->is_dirty || c->closing) return;
    c->is_dirty = true;
    c->dirty_next = c->net->dirty;
    c->net->dirty = c;
}

/* Returns who is at the other end of a Unix socket, and describes c. */
static struct peer_key find_user(struct connection *c)
{
    struct ucred cred;
    socklen_t size = sizeof cred;
    uv_os_fd_t fd;
    if (uv_fileno(&c->uv.handle, &fd) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0) {
        snprintf(c->from, sizeof c->from, "uid %u, process %d", cred.uid, cred.pid);
        return peer_key_of_user(cred.uid);
    }
    snprintf(c->from, sizeof c->from, "a local process");
    return (struct peer_key){.kind = PEER_UNKNOWN};
}

static struct peer_key find_address(struct connection *c)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    int size = sizeof address;
    char text[40] = "?";
    if (uv_tcp_getpeername(&c->uv.tcp, (struct sockaddr *)&address, &size) == 0)
        uv_ip_name((struct sockaddr *)&address, text, sizeof text);
    snprintf(c->from, sizeof c->from, "%s", text);
    uv_tcp_nodelay(&c->uv.tcp, 1);
    return peer_key_of_address((struct sockaddr *)&address);
}

/* Whether a peer may have one connection more. The last slots are kept: a few for operators, and
 * some for peers that have none, so that strangers together cannot keep a new one out. */
static enum status connection_admit(const struct net *n, const struct peer *peer, struct failure *f)
{
    const struct config *cfg = n->config;
    uint32_t eighth = cfg->connection_max / 8, left = 0;
    uint32_t most = cfg->peers.connections ? cfg->peers.connections : cfg->connection_max / 2;
    if (!peer->is_operator) {
        left += cfg->connection_kept < eighth ? cfg->connection_kept : eighth;
        if (peer->connections) left += eighth;
    }
    if (n->free_count <= left)
        failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_CONNECTIONS,
                    "this daemon takes %u connections (limits.connections)", cfg->connection_max);
    else if (!peer->is_operator && peer->connections && peer->connections >= most)
        failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_CONNECTIONS,
                    "the peer has %u connections, as many as it may (peers.connections)",
                    peer->connections);
    else
        return STATUS_OK;
    f->retry_after_ms = RETRY_CONNECTION_MS;
    return f->code;
}

/* Without this libuv, which finds no descriptor to accept with, would close connections without a
 * word. */
static enum status descriptors_admit(struct connection *c, struct failure *f)
{
    uint32_t kept = c->peer->is_operator ? DESCRIPTORS_KEPT / 2 : DESCRIPTORS_KEPT;
    uint64_t limit;
    uv_os_fd_t fd;
    if (uv_fileno(&c->uv.handle, &fd) || descriptors_left(fd, &limit) >= kept) return STATUS_OK;
    if (!c->net->told_descriptors)
        log_warning("net: refusing connections: %llu descriptors may be open (RLIMIT_NOFILE), and "
                    "the last %d are kept for files; it is not said again",
                    (unsigned long long)limit, DESCRIPTORS_KEPT);
    c->net->told_descriptors = true;
    failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_CONNECTIONS,
                "this daemon may have %llu descriptors, too few for another connection "
                "(RLIMIT_NOFILE)",
                (unsigned long long)limit);
    f->retry_after_ms = RETRY_CONNECTION_MS;
    return f->code;
}

/* Answers why there is no connection, and closes. Without an id, nobody can find it. */
static void refuse(struct connection *c, const struct failure *f)
{
    c->net->counters.refused++;
    if (c->peer) c->peer->refused_connections++;
    struct frame_header none = {0};
    c->net->events.on_bad_frame(c->net->events.owner, c, &none, f);
    output_flush(c);
    connection_close(c);
}

/* Gives c a free slot, which exists, and starts reading from it. */
static void connection_begin(struct connection *c)
{
    struct net *n = c->net;
    c->slot = n->free_slots[--n->free_count];
    c->id = (uint64_t)n->generations[c->slot] << 32 | c->slot;
    n->slots[c->slot] = c;
    n->counters.opened++;
    n->counters.open++;
    c->peer->connections++;
    c->opened_ns = n->now_ns;
    receive_start(c);
}

struct connection *connection_attach(struct net *n, const struct peer_key *who,
                                     const struct transport *t, void *carrier)
{
    struct failure f;
    struct peer *peer = peers_find(&n->peers, who);
    bool may = peer && !connection_admit(n, peer, &f);
    struct connection *c = may ? calloc(1, sizeof *c) : NULL;
    if (!c) return NULL;
    c->net = n;
    c->peer = peer;
    c->transport = t;
    c->carrier = carrier;
    snprintf(c->from, sizeof c->from, "%s", peer->name);
    connection_begin(c);
    return c;
}

bool connection_accept(struct net *n, uv_stream_t *listener, bool is_tcp)
{
    struct connection *c = fault_here("connection: allocate") ? NULL : calloc(1, sizeof *c);
    if (!c) {
        log_warning("net: no memory for a connection");
        return false;
    }
    c->net = n;
    c->transport = &transport_stream;
    int rc = fault_here("connection: handle") ? UV_ENOMEM
             : is_tcp                         ? uv_tcp_init(n->loop, &c->uv.tcp)
                                              : uv_pipe_init(n->loop, &c->uv.pipe, 0);
    if (rc) {
        free(c);
        return false;
    }
    c->uv.handle.data = c;
    if (uv_accept(listener, &c->uv.stream) || fault_here("connection: accept")) {
        connection_close(c);
        return true;
    }
    struct peer_key who = is_tcp ? find_address(c) : find_user(c);
    c->peer = peers_find(&n->peers, &who);
    struct failure f;
    if (!c->peer) failure_set(&f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a peer");
    if (!c->peer || connection_admit(n, c->peer, &f) || descriptors_admit(c, &f))
        refuse(c, &f);
    else
        connection_begin(c);
    return true;
}

void connection_log(struct connection *c, const char *format, ...)
{
    char text[CONNECTION_LOG_BYTES];
    if (log_level_now < LOG_LEVEL_INFO ||
        !peer_may_log(c->peer, c->net->config->peers.log_lines, c->net->now_ns))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_info("%s", text);
}

void connection_refuse_frame(struct connection *c, const struct frame_header *h,
                             const struct failure *why)
{
    connection_log(c, "net: bad frame from %s: %s", c->from, why->text);
    c->net->events.on_bad_frame(c->net->events.owner, c, h, why);
}

void connection_drop(struct connection *c, const char *why)
{
    connection_log(c, "net: closing a connection of %s: %s", c->from, why);
    c->net->counters.dropped++;
    connection_close(c);
}

void connection_give_up(struct connection *c, const struct failure *why)
{
    static const struct frame_header none;
    connection_log(c, "net: closing a connection of %s: %s", c->from, why->text);
    c->net->counters.dropped++;
    c->net->events.on_bad_frame(c->net->events.owner, c, &none, why);
    if (c->closing) return;
    ration_leave(c);
    receive_release(c);
    receive_start(c); /* what it still sends is ignored, so that it can read why */
    connection_finish(c);
}
