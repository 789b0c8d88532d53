/* gpu_peer: plays the front to a GPU process's server over the simulated device, in a thread of the
 * test: a share, a memfd as the heap, the rings.
 * Owner:  the test; peer_open and peer_close pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_GPU_PEER_H
#define ENGRAM_TESTS_GPU_PEER_H

#include <pthread.h>
#include <stdbool.h>

#include "daemon/heap/share.h"

enum { PEER_HEAP_BYTES = 256 << 20 };

struct gpu_peer {
    struct share *share;
    char *heap;
    uint64_t used; /* of the heap */
    int fds[4];    /* share, heap, orders, completions */
    struct ring orders, completions;
    pthread_t thread;
    const char *sim;
    uint32_t streams;
    uint64_t memory_bytes_max;    /* may be set before peer_open, as these may */
    const struct device_ops *ops; /* NULL: device_sim */
    uint64_t sweep_after_ns;      /* 0: as the server does it */
    bool unwatched;               /* gpu.spin_us = 0 */
    struct gpu *gpu;              /* the server's thread's */
    int result;                   /* of server_open, or of server_run */
    uint64_t token;
};

/* sim: the simulated device's settings. Waits until it is ready or has ended. */
void peer_open(struct gpu_peer *p, const char *sim, uint32_t streams);
/* ORDER_STOP, unless it has ended; then lets go of everything. */
void peer_close(struct gpu_peer *p);

/* 64-byte aligned bytes of the heap. */
uint64_t peer_take(struct gpu_peer *p, uint64_t bytes);
static inline void *peer_at(struct gpu_peer *p, uint64_t place)
{
    return p->heap + place;
}

/* Gives the order; returns its token. */
uint64_t peer_order(struct gpu_peer *p, struct order o);
/* The next completion; fails the test after 20 s without one. */
struct completion peer_completion(struct gpu_peer *p);
/* The same; false: the server has ended, and there is none. */
bool peer_next(struct gpu_peer *p, struct completion *out);
/* The next one that is about an order, which must be this one. */
struct completion peer_done(struct gpu_peer *p, uint64_t token);

/* Rows as reference_fill(seed) gives them, with ids row * 7 + 3, as a fresh replica of this
 * version; the unpadded rows are malloc'ed. */
float *peer_upload(struct gpu_peer *p, uint32_t space, uint64_t replica, uint64_t version,
                   uint32_t dimension, uint64_t rows, uint64_t seed);

#endif
