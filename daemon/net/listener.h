/* listener: a bound socket that accepts connections.
 * Owner:  net.
 * Thread: the loop.
 * Errors: with text: what is in the way, and what to do about it. */
#ifndef ENGRAM_NET_LISTENER_H
#define ENGRAM_NET_LISTENER_H

#include "daemon/net/net.h"

struct listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } uv;
    struct net *net;
    struct listener *next;
    bool is_tcp;
    bool owns_path;
    bool waiting; /* a client could not be accepted for want of memory */
    char path[108];
    uint64_t path_inode; /* so that only our own file is removed */
    uint16_t port;
};

/* A socket file at path with mode; ALREADY_EXISTS when something answers there. */
enum status listener_open_unix(struct net *n, const char *path, uint32_t mode, struct failure *f);
/* A listening Unix socket that systemd made. */
enum status listener_open_inherited(struct net *n, int fd, struct failure *f);
enum status listener_open_tcp(struct net *n, const char *host, uint32_t port, struct failure *f);
/* Accepts a client that was left waiting, if there is one. Every now and then. */
void listener_retry(struct listener *l);
/* Stops accepting, removes the socket file. Freed by the loop. */
void listener_close(struct listener *l);

#endif
