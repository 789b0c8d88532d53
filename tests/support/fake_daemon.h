/* fake_daemon: a scripted daemon on a Unix socket, in a thread, for the client's tests.
 * Owner:  the test that starts it.
 * Thread: the script runs in the daemon's own thread, one connection after the other.
 * Errors: aborts; a test cannot go on without it. */
#ifndef ENGRAM_TESTS_FAKE_DAEMON_H
#define ENGRAM_TESTS_FAKE_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/wire/decode.h"
#include "daemon/wire/encode.h"

struct fake_daemon {
    char path[108];
    int listener;
    pthread_t thread;
    atomic_bool stopping;
    atomic_uint connections;
    uint64_t instance;
    uint64_t body_bytes_max;
    uint32_t in_flight_max;
    uint64_t features;
    /* Runs after accept; fd is closed when it returns. */
    void (*script)(struct fake_daemon *d, int fd);
    unsigned argument; /* the script's own */
};

/* One request as it came in. */
struct fake_request {
    struct frame_header header;
    uint8_t message[FRAME_MESSAGE_BYTES_MAX + 64];
    void *body; /* freed by the next fake_read */
};

/* Fields but script may be 0: instance 1, bodies up to 64 MiB, 1024 in flight. */
void fake_start(struct fake_daemon *d, void (*script)(struct fake_daemon *d, int fd));
/* Starts anew on the same path, as after a restart. */
void fake_restart(struct fake_daemon *d);
void fake_stop(struct fake_daemon *d);

/* False when the client is gone. */
bool fake_read(int fd, struct fake_request *r);
bool fake_write(int fd, const void *bytes, size_t count);
/* Reads Hello and answers it. */
bool fake_hello(struct fake_daemon *d, int fd);
/* A right answer to any request but Hello: frame and body, at most size bytes. Returns its length.
 * Hits get ids 0, 1, ... and score 0.5; m is at most 3. */
size_t fake_answer(const struct fake_request *r, uint8_t *frame, size_t size);
/* Answers everything as it comes. */
void fake_serve(struct fake_daemon *d, int fd);
/* Answers three requests, the last one first, and nothing after that. */
void fake_serve_backwards(struct fake_daemon *d, int fd);
/* Writes every answer in two pieces, cut one byte further each time. */
void fake_serve_split(struct fake_daemon *d, int fd);

#endif
