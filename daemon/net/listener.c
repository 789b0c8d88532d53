#include "daemon/net/listener.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/net/connection.h"
#include "daemon/net/ration.h"

enum { BACKLOG = 511 };

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *l = stream->data;
    if (status) return;
    /* libuv would accept all that wait, and who is connected already would wait for that */
    if (l->net->accepted++ >= RATION_ACCEPTS)
        l->waiting = l->net->accepts_wait = true;
    else
        l->waiting = !connection_accept(l->net, stream, l->is_tcp);
}

void listener_retry(struct listener *l)
{
    /* libuv does not call again until the client that waits is accepted. */
    if (l->waiting) l->waiting = !connection_accept(l->net, &l->uv.stream, l->is_tcp);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static enum status listener_create(struct net *n, bool is_tcp, struct listener **out,
                                   struct failure *f)
{
    struct listener *l = fault_here("listener: allocate") ? NULL : calloc(1, sizeof *l);
    if (!l) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_SYSTEM, "no memory to listen");
    int rc = fault_here("listener: handle") ? UV_EMFILE
             : is_tcp                       ? uv_tcp_init(n->loop, &l->uv.tcp)
                                            : uv_pipe_init(n->loop, &l->uv.pipe, 0);
    if (rc) {
        free(l);
        return failure_set(f, status_from_errno(rc), DETAIL_SYSTEM, "socket: %s", uv_strerror(rc));
    }
    l->uv.handle.data = l;
    l->net = n;
    l->is_tcp = is_tcp;
    *out = l;
    return STATUS_OK;
}

static enum status listener_start(struct listener *l, const char *what, int rc, struct failure *f)
{
    if (!rc && fault_here("listener: listen")) rc = UV_ENOMEM;
    if (!rc) rc = uv_listen(&l->uv.stream, BACKLOG, on_connection);
    if (rc) {
        enum status st = failure_set(f, status_from_errno(rc), DETAIL_SYSTEM,
                                     "cannot listen on %s: %s", what, uv_strerror(rc));
        listener_close(l);
        return st;
    }
    l->next = l->net->listeners;
    l->net->listeners = l;
    return STATUS_OK;
}

static uint16_t port_of(const struct sockaddr_storage *a)
{
    return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
                                          : ((const struct sockaddr_in *)a)->sin_port);
}

enum status listener_open_unix(struct net *n, const char *path, uint32_t mode, struct failure *f)
{
    struct listener *l;
    struct socket_file file;
    int fd;
    enum status st = socket_file_bind(path, mode, &file, &fd, f);
    if (st) return st;
    st = listener_create(n, false, &l, f);
    if (st) {
        socket_file_release(&file);
        close(fd);
        return st;
    }
    l->file = file;
    /* libuv is not told the path: it would remove whatever is there when it closes the socket */
    int rc = fault_here("listener: open") ? UV_EMFILE : uv_pipe_open(&l->uv.pipe, fd);
    st = listener_start(l, path, rc, f);
    if (rc) close(fd);
    return st;
}

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) ? -1 : value;
}

enum status listener_open_inherited(struct net *n, int fd, struct failure *f)
{
    struct listener *l;
    /* On another kind nobody would be told from anybody else. */
    if (socket_option(fd, SO_DOMAIN) != AF_UNIX || socket_option(fd, SO_TYPE) != SOCK_STREAM)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "the inherited descriptor is no Unix stream socket: ListenStream= of "
                           "the socket unit must be a path");
    enum status st = listener_create(n, false, &l, f);
    if (st) return st;
    l->is_inherited = true;
    return listener_start(l, "the inherited socket", uv_pipe_open(&l->uv.pipe, fd), f);
}

enum status listener_open_handed(struct net *n, struct handed_listener *from, struct failure *f)
{
    struct listener *l;
    enum status st = STATUS_OK;
    if (from->kind == HANDED_UNIX)
        st = socket_file_set_mode(&from->file, n->config->socket_mode, f);
    if (!st) st = listener_create(n, from->kind == HANDED_TCP, &l, f);
    if (st) return st;
    l->is_inherited = from->kind == HANDED_INHERITED;
    l->is_handed = true;
    if (from->kind == HANDED_UNIX) {
        l->file = from->file;
        socket_file_tell_owner(&l->file);
    }
    from->kind = HANDED_NONE;
    int rc = l->is_tcp ? uv_tcp_open(&l->uv.tcp, from->fd) : uv_pipe_open(&l->uv.pipe, from->fd);
    if (rc) close(from->fd);
    from->fd = -1;
    struct sockaddr_storage address;
    int size = sizeof address;
    if (!rc && l->is_tcp) rc = uv_tcp_getsockname(&l->uv.tcp, (struct sockaddr *)&address, &size);
    if (!rc && l->is_tcp) l->port = port_of(&address);
    return listener_start(l, "a socket that was handed over", rc, f);
}

void listener_leave(struct listener *l)
{
    if (!l->is_handed || !l->file.path[0]) return;
    close(l->file.lock_fd);
    l->file = (struct socket_file){.lock_fd = -1};
}

bool listener_hand(struct listener *l, struct handed_listener *out)
{
    const struct config *c = l->net->config;
    uv_os_fd_t fd;
    if (uv_fileno(&l->uv.handle, &fd)) return false;
    *out = (struct handed_listener){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    if (out->fd < 0) return false;
    out->kind = l->is_tcp ? HANDED_TCP : l->is_inherited ? HANDED_INHERITED : HANDED_UNIX;
    out->file = l->file;
    l->file = (struct socket_file){.lock_fd = -1};
    if (!l->is_tcp) return true;
    snprintf(out->host, sizeof out->host, "%.63s", c->tcp_host);
    out->port = c->tcp_port;
    return true;
}

enum status listener_open_tcp(struct net *n, const char *host, uint32_t port, struct failure *f)
{
    struct listener *l;
    enum status st = listener_create(n, true, &l, f);
    if (st) return st;
    struct sockaddr_storage address;
    memset(&address, 0, sizeof address);
    int rc = uv_ip4_addr(host, (int)port, (struct sockaddr_in *)&address);
    if (rc) rc = uv_ip6_addr(host, (int)port, (struct sockaddr_in6 *)&address);
    if (!rc && fault_here("listener: bind")) rc = UV_EADDRINUSE;
    if (!rc) rc = uv_tcp_bind(&l->uv.tcp, (struct sockaddr *)&address, 0);
    int size = sizeof address;
    if (!rc) rc = uv_tcp_getsockname(&l->uv.tcp, (struct sockaddr *)&address, &size);
    if (!rc) l->port = port_of(&address);
    return listener_start(l, host, rc, f);
}

void listener_close(struct listener *l)
{
    socket_file_release(&l->file);
    if (!uv_is_closing(&l->uv.handle)) uv_close(&l->uv.handle, on_closed);
}
