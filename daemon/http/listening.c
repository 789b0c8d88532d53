#include "daemon/http/listening.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/listen_address.h"
#include "daemon/base/socket_file.h"

enum { LISTEN_BACKLOG = 128 };

static enum status refuse(const char *what, const char *why, struct failure *f)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "metrics.listen: %s: %s", what,
                       why);
}

/* The socket's file never has wider permissions than asked for, not even between bind and chmod. */
static int bind_socket(const struct listen_address *a, const struct config *c, struct listening *l)
{
    int one = 1;
    bool is_unix = a->address.ss_family == AF_UNIX;
    if (!is_unix) setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    mode_t old = umask(0777);
    int rc = fault_here("http: bind") ? (errno = EADDRINUSE, -1)
                                      : bind(l->fd, (const struct sockaddr *)&a->address, a->bytes);
    umask(old);
    if (rc || !is_unix) return rc;
    struct stat sb;
    if (stat(c->metrics_listen, &sb)) return -1;
    strcpy(l->path, c->metrics_listen);
    l->inode = sb.st_ino;
    return fault_here("http: mode") ? (errno = EPERM, -1) : chmod(l->path, c->socket_mode);
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
        snprintf(l->text, sizeof l->text, "%s", l->path);
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
    if (what[0] == '/' && socket_file_clear(what, &stale))
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "metrics.listen: %s",
                           stale.text);
    l.fd = fault_here("http: socket")
               ? (errno = EMFILE, -1)
               : socket(a.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l.fd < 0 || bind_socket(&a, c, &l) || listen(l.fd, LISTEN_BACKLOG) || describe(&l)) {
        enum status st = refuse(what, strerror(errno), f);
        listening_close(&l);
        return st;
    }
    *out = l;
    return STATUS_OK;
}

void listening_close(struct listening *l)
{
    struct stat sb;
    if (l->path[0] && stat(l->path, &sb) == 0 && sb.st_ino == l->inode) unlink(l->path);
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
    l->path[0] = 0;
}
