/* wake_timer: wakes the loop at a time that is given in nanoseconds; libuv's own timers have a
 * resolution of milliseconds.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: wake_timer_open: a negative error as libuv has them; wake_timer_close is called then,
 *         too. */
#ifndef ENGRAM_WAKE_TIMER_H
#define ENGRAM_WAKE_TIMER_H

#include <stdint.h>
#include <uv.h>

/* All zero: not open. */
struct wake_timer {
    uv_poll_t poll;
    int fd;      /* a timerfd */
    uint64_t ns; /* what it is set to; 0: nothing */
};

int wake_timer_open(struct wake_timer *t, uv_loop_t *loop);
/* ns of CLOCK_MONOTONIC; UINT64_MAX and 0: never. */
void wake_timer_set(struct wake_timer *t, uint64_t ns);
/* After the loop has closed its handles. */
void wake_timer_close(struct wake_timer *t);

#endif
