#include "daemon/handover/message.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/fault.h"

enum { SEND_MS = 10000 };

static bool wait_for(int fd, short what, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = what};
    int n;
    do
        n = poll(&p, 1, timeout_ms);
    while (n < 0 && errno == EINTR);
    if (n == 0) errno = ETIMEDOUT;
    return n > 0;
}

static ssize_t send_some(int fd, const char *data, size_t bytes, const int *fds, int fd_count)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * MESSAGE_FDS_MAX)];
    } control;
    struct iovec io = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    memset(&control, 0, sizeof control);
    if (fd_count) {
        size_t each = sizeof *fds * (size_t)fd_count;
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(each);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(each);
        memcpy(CMSG_DATA(c), fds, each);
    }
    return sendmsg(fd, &m, MSG_NOSIGNAL);
}

/* Descriptors go with the first byte. */
bool message_send(int fd, const struct hand_over_message *m, const int *fds, int fd_count)
{
    const char *data = (const char *)m;
    for (size_t done = 0; done < sizeof *m;) {
        ssize_t n = fault_here("hand over: send")
                        ? -1
                        : send_some(fd, data + done, sizeof *m - done, fds, done ? 0 : fd_count);
        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!wait_for(fd, POLLOUT, SEND_MS)) return false;
        } else if (n == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Takes the descriptors out; what there is no room for is closed. */
static void take_fds(struct msghdr *m, int *fds, int *fd_count)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (*fd_count < MESSAGE_FDS_MAX)
                fds[(*fd_count)++] = fd;
            else
                close(fd);
        }
    }
}

bool message_receive(int fd, struct hand_over_message *m, int fds[MESSAGE_FDS_MAX], int *fd_count,
                     int timeout_ms)
{
    char *data = (char *)m;
    *fd_count = 0;
    for (size_t done = 0; done < sizeof *m;) {
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof(int) * MESSAGE_FDS_MAX)];
        } control;
        struct iovec io = {.iov_base = data + done, .iov_len = sizeof *m - done};
        struct msghdr h = {.msg_iov = &io,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
        if (!wait_for(fd, POLLIN, timeout_ms)) return false;
        ssize_t n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);
        if (n > 0) {
            take_fds(&h, fds, fd_count);
            done += (size_t)n;
        } else if (n == 0) {
            errno = 0;
            return false;
        } else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
            return false;
        }
    }
    m->text[sizeof m->text - 1] = 0;
    return true;
}
