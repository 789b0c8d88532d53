/* handed_listener: a socket that clients connect to, as one daemon hands it to its successor: it
 * stays open meanwhile, so whoever connects waits in its line and is not refused.
 * Owner:  whoever has the descriptors.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_BASE_HANDED_LISTENER_H
#define ENGRAM_BASE_HANDED_LISTENER_H

#include <stdbool.h>

#include "daemon/base/socket_file.h"

enum { HANDED_LISTENERS_MAX = 4, HANDED_HOST_BYTES = 64 };
enum handed_kind { HANDED_NONE, HANDED_UNIX, HANDED_INHERITED, HANDED_TCP };

struct handed_listener {
    enum handed_kind kind;
    int fd;
    struct socket_file file;      /* HANDED_UNIX: its path, and the lock that says whose it is */
    char host[HANDED_HOST_BYTES]; /* HANDED_TCP: what it was asked for */
    uint32_t port;
};

struct handed_listeners {
    struct handed_listener all[HANDED_LISTENERS_MAX];
    uint32_t count;
};

#endif
