/* listener: a bound socket that accepts connections.
 * Owner:  net.
 * Thread: the loop.
 * Errors: with a text that says what is wrong and what to do about it. */
#ifndef ENGRAM_NET_LISTENER_H
#define ENGRAM_NET_LISTENER_H

#include "daemon/base/handed_listener.h"
#include "daemon/net/net_state.h"

struct listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } uv;
    struct net *net;
    struct listener *next;
    bool is_tcp, is_inherited, is_handed;
    bool waiting;            /* a client was not accepted yet: no memory, or too many in a turn */
    struct socket_file file; /* of a Unix socket that we made */
    uint16_t port;
};

/* Listens on a socket file at path with this mode; ALREADY_EXISTS if another process has it. */
enum status listener_open_unix(struct net *n, const char *path, uint32_t mode, struct failure *f);
/* Listens on a Unix socket that systemd made. */
enum status listener_open_inherited(struct net *n, int fd, struct failure *f);
enum status listener_open_tcp(struct net *n, const char *host, uint32_t port, struct failure *f);
/* Listens on a socket of the daemon before this one, and owns it and its file then. */
enum status listener_open_handed(struct net *n, struct handed_listener *from, struct failure *f);
/* Fills *out, whose socket stays open when l is closed; its file is out's from then on. False:
 * there is no descriptor for that. */
bool listener_hand(struct listener *l, struct handed_listener *out);
/* If it was handed over, its socket's file stays when it is closed. */
void listener_leave(struct listener *l);
/* Accepts the client that could not be accepted before, if any. */
void listener_retry(struct listener *l);
/* Stops accepting and gives the socket file up. The loop frees the listener. */
void listener_close(struct listener *l);

#endif
