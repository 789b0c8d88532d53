/* process_host: what GPU processes live on: libuv and the system (process_host_system), or what tests
 * give: processes that are played, or that are stepped in the same thread.
 * Owner:  the engine, or a test; the table is const.
 * Thread: the loop.
 * Errors: start: a negative errno value, as libuv's.
 *
 * The supervision (process.h) calls the host; the host calls gpu_process_woken, _exited and _timed,
 * never from inside one of its own slots. */
#ifndef ENGRAM_CARDS_PROCESS_HOST_H
#define ENGRAM_CARDS_PROCESS_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct gpu_process;
struct share;

/* What goes with one process, from its start until it is reaped; a host's own begins with it. */
struct gpu_life {
    struct gpu_process *owner;
    struct share *share;
    bool share_kept; /* by the owner, who unmaps it */
    int orders_fd, completions_fd;
    int64_t process_id; /* for the log */
};

struct process_host {
    /* Makes and starts a process with a share of its own. */
    int (*start)(struct gpu_process *p, struct gpu_life **out);
    /* It is to end at once; gpu_process_exited follows when it has. */
    void (*kill)(struct gpu_life *l);
    /* Lets go of a life that has exited, or never will. */
    void (*end)(struct gpu_life *l);
    /* p has one timer: gpu_process_timed after ms, then every repeat_ms (0: never again). */
    void (*set_timer)(struct gpu_process *p, uint64_t ms, uint64_t repeat_ms);
    void (*stop_timer)(struct gpu_process *p);
    /* A gpu_process begins, and is no more: forget frees it, once nothing of the host's points at
     * it. */
    void (*begin)(struct gpu_process *p);
    void (*forget)(struct gpu_process *p);
    /* Waits for something to happen, and lets it. */
    void (*wait)(struct gpu_process *p);
};

extern const struct process_host process_host_system;

/* Its eventfd was written, or what it says may have changed. */
void gpu_process_woken(struct gpu_life *l);
/* It is reaped: it left that code, or that signal ended it (0: none did). */
void gpu_process_exited(struct gpu_life *l, int64_t code, int signal_number);
void gpu_process_timed(struct gpu_process *p);

#endif
