/* process_host: what runs GPU processes: libuv and the system (process_host_system), or a test,
 * which plays the processes or steps them in the same thread.
 * Owner:  the engine, or a test; the table is const.
 * Thread: the loop.
 * Errors: start: a negative errno value, as libuv's.
 *
 * The supervision (process.h) calls the host; the host calls gpu_process_woken, _exited and
 * _timed, but never from inside one of its own slots. */
#ifndef ENGRAM_CARDS_PROCESS_HOST_H
#define ENGRAM_CARDS_PROCESS_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct gpu_process;
struct share;

/* The data of one process from its start until it is reaped; a host's own struct begins with it. */
struct process_life {
    struct gpu_process *owner;
    struct share *share;
    bool share_kept; /* the owner keeps the share and will unmap it */
    int orders_fd, completions_fd;
    int64_t process_id; /* for the log */
};

struct process_host {
    /* Makes a share, and starts a process with it. */
    int (*start)(struct gpu_process *p, struct process_life **out);
    /* Kills the process; gpu_process_exited follows when it has ended. */
    void (*kill)(struct process_life *l);
    /* Frees a life whose process has exited, or never will. */
    void (*end)(struct process_life *l);
    /* Sets p's one timer: gpu_process_timed is called after ms, then every repeat_ms (0: never
     * again). */
    void (*set_timer)(struct gpu_process *p, uint64_t ms, uint64_t repeat_ms);
    void (*stop_timer)(struct gpu_process *p);
    /* begin: a gpu_process was made. forget: it is being destroyed; frees it once nothing of the
     * host points to it. */
    void (*begin)(struct gpu_process *p);
    void (*forget)(struct gpu_process *p);
    /* Waits for an event and handles it. */
    void (*wait)(struct gpu_process *p);
};

extern const struct process_host process_host_system;

/* Called when the process wrote to its eventfd, or its state may have changed. */
void gpu_process_woken(struct process_life *l);
/* Called when the process was reaped: with its exit code, or the signal that ended it (0: none). */
void gpu_process_exited(struct process_life *l, int64_t code, int signal_number);
void gpu_process_timed(struct gpu_process *p);

#endif
