#include "daemon/handover/peer_end.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/log.h"

struct peer_end peer_end_watch(int socket)
{
    struct ucred who = {0};
    socklen_t size = sizeof who;
    struct peer_end p = {.fd = -1};
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.pid <= 0) return p;
    p.pid = who.pid;
    p.fd = (int)syscall(SYS_pidfd_open, who.pid, 0);
    return p;
}

static bool has_ended(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) > 0;
}

/* As the kernel tells it in /proc: from the signal that ends it on, until it has. */
static bool is_ending(pid_t pid)
{
    enum { EXITING = 0x4, FIELDS_BEFORE = 7 }; /* between the name and the flags */
    char path[40], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    const char *at = read ? strrchr(line, ')') : NULL;
    for (int i = 0; i < FIELDS_BEFORE && at; i++)
        at = strchr(at + 1, ' ');
    return at && strtoul(at, NULL, 10) & EXITING;
}

bool peer_end_await(const struct peer_end *p, int timeout_ms)
{
    if (p->fd < 0) return false;
    if (has_ended(p->fd, 0)) return true;
    if (!is_ending(p->pid)) return has_ended(p->fd, 0);
    log_info("hand-over: process %d is ending; waiting for that", (int)p->pid);
    return has_ended(p->fd, timeout_ms);
}

void peer_end_close(struct peer_end *p)
{
    if (p->fd >= 0) close(p->fd);
    p->fd = -1;
}
