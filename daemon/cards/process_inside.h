/* process_inside: what supervises a GPU process: process.c (its life), restart.c (when it starts
 * again), heartbeat.c (whether it lives), process_describe.c (what is said of it) and
 * process_host_system.c (how the system runs it).
 * Owner:  cards/process.c.
 * Thread: the loop.
 * Errors: none that leave this folder. */
#ifndef ENGRAM_CARDS_PROCESS_INSIDE_H
#define ENGRAM_CARDS_PROCESS_INSIDE_H

#include "daemon/base/clock.h"
#include "daemon/cards/process.h"

enum { GPU_PROGRAM_BYTES = 4096, GPU_WHY_BYTES = SHARE_WHY + 64, GPU_TIME_BYTES = 32 };

struct gpu_process {
    struct gpu_process_options options;
    enum gpu_state state;
    struct gpu_life *life;           /* NULL: there is no process */
    struct ring orders, completions; /* of this life */
    struct share *share;             /* of the last life that was READY */
    struct share_device device;      /* what that one said, texts made harmless */
    char program[GPU_PROGRAM_BYTES];
    char why[GPU_WHY_BYTES]; /* it is DOWN, in BREAKER or ABSENT */

    /* Of the system's host. By turns it looks for READY, the next start, the end of patience. */
    uv_timer_t timer;
    bool begun, stopping;         /* gpu_process_start and gpu_process_stop were called */
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

/* It has been READY, in this life or an earlier one: what is missing now may come back. */
static inline bool gpu_process_has_worked(const struct gpu_process *p)
{
    return p->share != NULL;
}

/* Why it is down, or will be. */
void gpu_process_set_why(struct gpu_process *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gpu_process_set_timer(struct gpu_process *p, uint64_t ms, uint64_t repeat_ms);

/* ---- restart.c ---- */

/* A life begins, if it can be started. */
void restart_now(struct gpu_process *p, uint64_t now_ns);
/* It, whose why is known, is down until it is started again. what: the event, for the log. */
void restart_later(struct gpu_process *p, const char *what, uint64_t now_ns);
void restart_when_due(struct gpu_process *p, uint64_t now_ns);
/* It is ABSENT. */
void restart_never(struct gpu_process *p);

/* ---- heartbeat.c: each kills it, or says that it is stuck, when its time is up ---- */

void heartbeat_check_starting(struct gpu_process *p, uint64_t now_ns);
void heartbeat_check(struct gpu_process *p, uint64_t now_ns);
void heartbeat_check_lingering(struct gpu_process *p, uint64_t now_ns);

/* ---- process_describe.c ---- */

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
