/* message: what two daemons say to each other on a hand-over's connection, of a fixed size, with
 * descriptors or without.
 * Owner:  nobody.
 * Thread: one.
 * Errors: false; errno says why, 0: the other end is closed. */
#ifndef ENGRAM_HANDOVER_MESSAGE_H
#define ENGRAM_HANDOVER_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/handed_listener.h"

enum message_kind {
    MESSAGE_ACCEPTED = 1, /* the daemon begins to stop */
    MESSAGE_REFUSED,      /* it does not: text says why */
    MESSAGE_GIVEN,        /* descriptors: heap, catalogue, claim; of each listener, and its lock */
    MESSAGE_SERVES,       /* the successor does */
    MESSAGE_GIVES_UP,     /* it never will: text says why */
};

enum { MESSAGE_TEXT_BYTES = 224, MESSAGE_FDS_MAX = 3 + 2 * HANDED_LISTENERS_MAX };

struct message_listener {
    uint32_t kind, port;
    uint64_t device, inode;
    char path[SOCKET_PATH_BYTES];
    char host[HANDED_HOST_BYTES];
    uint32_t unused;
};

struct hand_over_message {
    uint32_t kind, listener_count;
    struct message_listener listeners[HANDED_LISTENERS_MAX];
    char text[MESSAGE_TEXT_BYTES];
};

/* Waits for as long as it takes, timeout_ms for each step (< 0: for ever). *fd_count: how many
 * came; they are the caller's, also where it fails. */
bool message_send(int fd, const struct hand_over_message *m, const int *fds, int fd_count);
bool message_receive(int fd, struct hand_over_message *m, int fds[MESSAGE_FDS_MAX], int *fd_count,
                     int timeout_ms);

#endif
