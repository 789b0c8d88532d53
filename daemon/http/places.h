/* places: the connections over HTTP, a bounded number, each for a bounded time: a client that sends
 * or reads a byte now and then does not gain by it.
 * Owner:  http.
 * Thread: the server's.
 * Errors: none. */
#ifndef ENGRAM_HTTP_PLACES_H
#define ENGRAM_HTTP_PLACES_H

#include <stdbool.h>
#include <stdint.h>

enum { PLACES = 32 };

struct http_place {
    int fd;     /* -1: nobody has it */
    bool asked; /* its request's head is there */
    bool cut;
    uint64_t since_ns;
};

struct http_places {
    struct http_place at[PLACES];
    uint32_t taken;
    uint64_t time_ns;       /* what a connection has in all */
    uint64_t time_crowd_ns; /* the same when all places are taken */
    uint64_t taken_total, given_total, cut_total;
};

void places_init(struct http_places *p, uint64_t time_ns, uint64_t time_crowd_ns);
/* Returns a place; NULL: there is none. */
struct http_place *places_take(struct http_places *p, int fd, uint64_t now_ns);
void places_give(struct http_places *p, struct http_place *place);
/* Shuts the sockets of those whose time is over, and of clients that left in the middle of a
 * request (whose end comes with their last bytes, and is not told apart); the server closes them
 * then. */
void places_sweep(struct http_places *p, uint64_t now_ns);

#endif
