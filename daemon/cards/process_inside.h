/* gpu_process_inside: what the gpu_process*.c files share: the struct, and the fallible half of a
 * start.
 * Owner:  exec/gpu_process.
 * Thread: the loop.
 * Errors: gpu_life_start: a negative errno value, as libuv's. */
#ifndef ENGRAM_CARDS_PROCESS_INSIDE_H
#define ENGRAM_CARDS_PROCESS_INSIDE_H

#include "daemon/cards/process.h"

enum { GPU_PROGRAM_BYTES = 4096, GPU_WHY_BYTES = SHARE_WHY + 64, GPU_TIME_BYTES = 32 };

/* What goes with one process, from its start until it is reaped. */
struct gpu_life {
    struct gpu_process *owner;
    uv_process_t process;
    uv_poll_t wake; /* of the completions' eventfd */
    struct share *share;
    bool share_kept; /* by the owner, who unmaps it */
    int orders_fd, completions_fd;
    int lifeline_fd; /* the write end: while it is open, we are here */
    uint32_t handles_open;
};

struct gpu_process {
    struct gpu_process_options options;
    enum gpu_state state;
    struct gpu_life *life;           /* NULL: there is no process */
    struct ring orders, completions; /* of this life */
    struct share *share;             /* of the last life that was READY */
    struct share_device device;      /* what that one said, texts made harmless */
    char program[GPU_PROGRAM_BYTES];
    char why[GPU_WHY_BYTES]; /* it is DOWN, in BREAKER or ABSENT */

    uv_timer_t timer;     /* by turns: looks for READY, the next start, the end of patience */
    bool begun, stopping; /* gpu_process_start and gpu_process_stop were called */
    bool ready, killed, given_up; /* this life: has been READY; has SIGKILL; is ABSENT's last */
    bool waiting;                 /* for next_start_ns */
    bool breaker_open;
    bool lingering;    /* it was said that it is still there though killed */
    uint32_t failures; /* in a row */
    uint64_t starts;
    uint64_t started_ns, ready_ns, killed_ns, next_start_ns;
    uint64_t beat;         /* the heartbeat when it was last seen to change ... */
    uint64_t beat_seen_ns; /* ... which was then */
    uint64_t checked_ns;
};

/* p->program, running, with a share of its own; the two callbacks get the life as handle->data. */
int gpu_life_start(struct gpu_process *p, uv_exit_cb on_exit, uv_poll_cb on_wake,
                   struct gpu_life **out);
/* Closes and, when the loop has turned once more, frees. No process is left, or none came about. */
void gpu_life_end(struct gpu_life *l);

/* "NVIDIA H200, compute capability 9.0, ..." */
void gpu_describe_device(const struct share_device *d, char *text, size_t bytes);
/* "312 ms", "3 s", "3 m 2 s", "5 h 1 m", "3 d 2 h". */
void gpu_describe_time(uint64_t ns, char text[GPU_TIME_BYTES]);
/* now - since; 0 when that lies ahead. */
static inline uint64_t gpu_elapsed(uint64_t now_ns, uint64_t since_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

#endif
