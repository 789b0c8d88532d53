/* listen_address: where to listen, as a setting says it: a loopback address with a port, or the
 * path of a Unix socket.
 * Owner:  the caller.
 * Thread: any.
 * Errors: listen_address_parse: false, nothing is written. */
#ifndef ENGRAM_BASE_LISTEN_ADDRESS_H
#define ENGRAM_BASE_LISTEN_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

struct listen_address {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/* True for 127.0.0.0/8 and ::1, numeric. */
bool listen_address_is_loopback(const char *host);

/* Reads "127.0.0.1:7424", "[::1]:7424" (port 0: the system chooses) or a path that begins with a
 * slash. out may be NULL. */
bool listen_address_parse(const char *text, struct listen_address *out);

#endif
