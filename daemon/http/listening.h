/* listening: the socket on which HTTP is served.
 * Owner:  http.
 * Thread: the loop.
 * Errors: with "metrics.listen: reason". */
#ifndef ENGRAM_HTTP_LISTENING_H
#define ENGRAM_HTTP_LISTENING_H

#include "daemon/base/config.h"
#include "daemon/base/socket_file.h"

struct listening {
    int fd;         /* -1: none; whoever accepts from it may take it over, and sets -1 */
    char text[300]; /* what the port is known by: "127.0.0.1:7424", with the port that was chosen */
    struct socket_file file;
};

/* INVALID_ARGUMENT: the address is in use, or cannot be used. */
enum status listening_open(const struct config *c, struct listening *out, struct failure *f);
/* Gives the socket's file up, before the socket is closed. */
void listening_release(struct listening *l);
/* The same, and closes the socket. */
void listening_close(struct listening *l);

#endif
