/* fair_memory: what memory a daemon and its GPU process take over time, and whether it grows.
 * Owner:  the caller; looks past MEMORY_LOOKS are not taken.
 * Thread: one.
 * Errors: a step that fails ends the program. */
#ifndef ENGRAM_TESTS_FAIR_MEMORY_H
#define ENGRAM_TESTS_FAIR_MEMORY_H

#include "tests/support/sched_bench.h"

/* MEMORY_GPU_PROCESS and what follows: 0 without a GPU. */
enum memory_kind { MEMORY_DAEMON, MEMORY_HEAP, MEMORY_GPU_PROCESS, MEMORY_VRAM, MEMORY_KINDS };
enum { MEMORY_LOOKS = 8192 };

struct memory_look {
    double at_s;
    uint64_t bytes[MEMORY_KINDS];
};

struct memory_watch {
    const struct sched_daemon *daemon;
    pid_t gpu; /* 0: there is none */
    double start_s;
    unsigned count;
    struct memory_look looks[MEMORY_LOOKS];
};

/* Of a line of least squares through all looks but those of the first tenth of the time. */
struct memory_trend {
    const char *name;
    double mean_mib, mib_per_minute;
    double growth_mib; /* over that time; at least 0 */
};

void memory_watch_init(struct memory_watch *m, const struct sched_daemon *d);
void memory_watch_look(struct memory_watch *m);
uint64_t memory_watch_now(const struct memory_watch *m, enum memory_kind kind);
struct memory_trend memory_watch_trend(const struct memory_watch *m, enum memory_kind kind);

#endif
