/* peer_end: whether the process at the other end of a Unix socket has ended. One that is killed
 * closes its connections while the system still takes its memory down; what it had locked is free
 * when it has ended.
 * Owner:  the caller.
 * Thread: one.
 * Errors: none: a process that cannot be watched is taken for one that lives. */
#ifndef ENGRAM_HANDOVER_PEER_END_H
#define ENGRAM_HANDOVER_PEER_END_H

#include <stdbool.h>
#include <sys/types.h>

struct peer_end {
    int fd; /* of the process; < 0: it cannot be watched */
    pid_t pid;
};

/* While it lives. socket: connected to it. */
struct peer_end peer_end_watch(int socket);
/* True if it has ended, or is ending and has after at most this long; one that lives is not waited
 * for. */
bool peer_end_await(const struct peer_end *p, int timeout_ms);
void peer_end_close(struct peer_end *p);

#endif
