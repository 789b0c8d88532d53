/* server: the GPU process's turn: takes orders, moves tasks on, shows that it lives, sleeps.
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
    const struct clock *clock; /* NULL: the real one; its device's as well */
    struct device_options device;
    struct share *share;
    int heap_fd, orders_fd, completions_fd, lifeline_fd; /* lifeline_fd -1: none */
    uint32_t spin_us, copiers, streams;
    uint32_t memory_percent;
    uint64_t memory_bytes_max; /* 0: by percent alone */
};

/* Opens the device and takes memory; share->state is READY after it. */
enum status server_open(const struct server_options *options, struct gpu **out, struct failure *f);
/* What a turn came to. */
enum server_turn {
    SERVER_IDLE,  /* nothing to do before the next order */
    SERVER_WAITS, /* the device or the copiers work; nothing has moved */
    SERVER_MOVED,
    SERVER_STOPPED, /* ORDER_STOP, or a ring that holds nonsense */
    SERVER_BROKEN,  /* the device's end: share->state and why are set */
};
/* Takes orders, moves tasks on as far as they go, shows that it lives; never waits. */
enum server_turn server_turn(struct gpu *g);
/* Turns until ORDER_STOP (OK), the front's end (OK) or the device's (UNAVAILABLE). */
enum status server_run(struct gpu *g);
void server_close(struct gpu *g);

#endif
