#include "daemon/http/listening.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/listen_address.h"

enum { LISTEN_BACKLOG = 128 };

static enum status refuse(const char *what, const char *why, struct failure *f)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "metrics.listen: %s: %s", what,
                       why);
}

static int bind_address(const struct listen_address *a, struct listening *l)
{
    int one = 1;
    l->fd = fault_here("http: socket")
                ? (errno = EMFILE, -1)
                : socket(a->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0) return -1;
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return fault_here("http: bind") ? (errno = EADDRINUSE, -1)
                                    : bind(l->fd, (const struct sockaddr *)&a->address, a->bytes);
}

static int describe(struct listening *l)
{
    struct sockaddr_storage at = {0};
    socklen_t bytes = sizeof at;
    char host[INET6_ADDRSTRLEN] = "";
    if (getsockname(l->fd, (struct sockaddr *)&at, &bytes)) return -1;
    const struct sockaddr_in *in = (const struct sockaddr_in *)&at;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&at;
    bool v6 = at.ss_family == AF_INET6;
    if (at.ss_family == AF_UNIX) {
        snprintf(l->text, sizeof l->text, "%s", l->file.path);
        return 0;
    }
    inet_ntop(at.ss_family, v6 ? (const void *)&in6->sin6_addr : &in->sin_addr, host, sizeof host);
    snprintf(l->text, sizeof l->text, v6 ? "[%s]:%u" : "%s:%u", host,
             ntohs(v6 ? in6->sin6_port : in->sin_port));
    return 0;
}

enum status listening_open(const struct config *c, struct listening *out, struct failure *f)
{
    struct listen_address a;
    struct listening l = {.fd = -1};
    struct failure stale = {0};
    const char *what = c->metrics_listen;
    if (!listen_address_parse(what, &a)) return refuse(what, "not an address to listen on", f);
    bool is_unix = a.address.ss_family == AF_UNIX;
    if (is_unix && socket_file_bind(what, c->socket_mode, &l.file, &l.fd, &stale))
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "metrics.listen: %s",
                           stale.text);
    if ((!is_unix && bind_address(&a, &l)) || listen(l.fd, LISTEN_BACKLOG) || describe(&l)) {
        enum status st = refuse(what, strerror(errno), f);
        listening_close(&l);
        return st;
    }
    *out = l;
    return STATUS_OK;
}

void listening_release(struct listening *l)
{
    socket_file_release(&l->file);
}

void listening_close(struct listening *l)
{
    listening_release(l);
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}
