/* process_inside: the struct of a supervised GPU process, for process.c (its life), restart.c
 * (when it is started again), heartbeat.c (whether it is alive), process_describe.c (its
 * description) and process_host_system.c (how the system runs it).
 * Owner:  cards/process.c.
 * Thread: the loop.
 * Errors: none that leave daemon/cards. */
#ifndef ENGRAM_CARDS_PROCESS_INSIDE_H
#define ENGRAM_CARDS_PROCESS_INSIDE_H

#include "daemon/base/clock.h"
#include "daemon/cards/process.h"

enum { GPU_PROGRAM_BYTES = 4096, GPU_WHY_BYTES = SHARE_WHY + 64, GPU_TIME_BYTES = 32 };

struct gpu_process {
    struct gpu_process_options options;
    enum gpu_state state;
    struct process_life *life;       /* NULL: there is no process */
    struct ring orders, completions; /* of this life */
    struct share *share;             /* of the last life that was READY */
    struct card_totals totals;       /* of all its lives */
    struct share_device device;      /* what it said about itself, with texts made printable */
    char program[GPU_PROGRAM_BYTES];
    char why[GPU_WHY_BYTES]; /* why it is DOWN, in BREAKER or ABSENT */

    /* For the system's host. The timer stands for READY, for the next start, or for the end of a
     * kill. */
    uv_timer_t timer;
    bool begun, stopping; /* gpu_process_start and gpu_process_stop have been called */
    /* in this life: it has been READY; was sent SIGKILL; has ended as ABSENT */
    bool ready, killed, given_up;
    bool waiting; /* for next_start_ns */
    bool breaker_open;
    bool lingering;    /* its owner was told that it still exists after SIGKILL */
    uint32_t failures; /* in a row */
    uint64_t starts;
    uint64_t started_ns, ready_ns, killed_ns, next_start_ns;
    uint64_t beat;         /* the heartbeat's last value ... */
    uint64_t beat_seen_ns; /* ... and when it changed to that */
    uint64_t checked_ns;
    uint64_t shadows_differed; /* as its process last said */
};

/* True if it has been READY, in this life or an earlier one: what is missing now may come back. */
static inline bool gpu_process_has_worked(const struct gpu_process *p)
{
    return p->share != NULL;
}

/* Sets the reason why it is down, or will be. */
void gpu_process_set_why(struct gpu_process *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gpu_process_set_timer(struct gpu_process *p, uint64_t ms, uint64_t repeat_ms);

/* ---- restart.c ---- */

/* Begins a life, if the process can be started. */
void restart_now(struct gpu_process *p, uint64_t now_ns);
/* Puts the process, whose why is set, down until its next start. what: the event, for the log. */
void restart_later(struct gpu_process *p, const char *what, uint64_t now_ns);
void restart_when_due(struct gpu_process *p, uint64_t now_ns);
/* Makes it ABSENT. */
void restart_never(struct gpu_process *p);

/* ---- heartbeat.c: each kills it, or says that it is stuck, when its time is up ---- */

void heartbeat_check_starting(struct gpu_process *p, uint64_t now_ns);
void heartbeat_check(struct gpu_process *p, uint64_t now_ns);
void heartbeat_check_lingering(struct gpu_process *p, uint64_t now_ns);

/* ---- process_describe.c ---- */

/* "NVIDIA H200, compute capability 9.0, ..." */
void process_describe_device(const struct share_device *d, char *text, size_t bytes);
/* "312 ms", "3 s", "3 m 2 s", "5 h 1 m", "3 d 2 h". */
void process_describe_time(uint64_t ns, char text[GPU_TIME_BYTES]);
/* Returns now - since; 0 if since is later. */
static inline uint64_t process_elapsed_ns(uint64_t now_ns, uint64_t since_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

#endif
