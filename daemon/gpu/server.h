/* server: the loop of the GPU process: takes orders, advances tasks, writes the heartbeat, sleeps.
 * Owner:  main.
 * Thread: the one that calls it: the device thread.
 * Errors: server_open: INVALID_ARGUMENT and the like with f; share->state and why are set then. */
#ifndef ENGRAM_GPU_SERVER_H
#define ENGRAM_GPU_SERVER_H

#include "daemon/base/status.h"
#include "daemon/gpu/device.h"

struct gpu;

struct server_options {
    const struct device_ops *ops;
    const struct clock *clock; /* NULL: the real one; the device uses it, too */
    struct device_options device;
    struct share *share;
    /* exchange_fd 0: heap_fd is of the whole heap, and may be written */
    int heap_fd, exchange_fd;
    int orders_fd, completions_fd, lifeline_fd; /* lifeline_fd -1: none */
    uint32_t spin_us, spin_percent, copiers, streams;
    uint32_t memory_percent;
    uint64_t sweep_after_ns;   /* see sweep.h; 0: as it is by itself */
    uint64_t memory_bytes_max; /* 0: limited by percent only */
};

/* Opens the device and takes memory; share->state is READY afterwards. */
enum status server_open(const struct server_options *options, struct gpu **out, struct failure *f);
/* The result of one turn of the loop. */
enum server_turn {
    SERVER_IDLE,  /* there is nothing to do before the next order */
    SERVER_WAITS, /* nothing has moved, but the device or the copiers work */
    SERVER_MOVED,
    SERVER_STOPPED, /* ORDER_STOP came, or a ring holds nonsense */
    SERVER_BROKEN,  /* the device failed for good: share->state and why are set */
};
/* Takes orders, advances tasks as far as possible, writes the heartbeat; never waits. */
enum server_turn server_turn(struct gpu *g);
/* Turns until ORDER_STOP or the end of the front (OK), or the failure of the device
 * (UNAVAILABLE). */
enum status server_run(struct gpu *g);
void server_close(struct gpu *g);

#endif
