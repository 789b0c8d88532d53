/* sched_hogs: processes that keep a real card or the processors busy, which pause and go on at
 * once: to start one on a busy card takes a second or more, which is no backend's fault.
 * Owner:  bench_routing's section slow.
 * Thread: one.
 * Errors: what cannot start ends the program, but for hogs of a card: see there. They end with the
 *         program, and by themselves after HOGS_S. */
#ifndef ENGRAM_TESTS_SCHED_HOGS_H
#define ENGRAM_TESTS_SCHED_HOGS_H

#include <stdbool.h>
#include <sys/types.h>

enum { HOGS_MAX = 160, HOGS_S = 110 };

/* Zeroed: none. */
struct sched_hogs {
    pid_t pids[HOGS_MAX];
    unsigned count;
};

/* Starts so many, paused. False: this build has no such program, or the card no memory. */
bool sched_hogs_start_gpu(struct sched_hogs *h, unsigned count);
void sched_hogs_start_cpu(struct sched_hogs *h, unsigned count);
/* The first `running` go on, the others pause. */
void sched_hogs_run(const struct sched_hogs *h, unsigned running);
/* Ends them all. */
void sched_hogs_stop(struct sched_hogs *h);

#endif
