/* fair_bench: bench_fair's sections, and what several of them stand on: spaces with collections of
 * random rows in one daemon.
 * Owner:  bench_fair.
 * Thread: one, unless it says else.
 * Errors: a step that fails ends the program with a message, exit 1. */
#ifndef ENGRAM_TESTS_FAIR_BENCH_H
#define ENGRAM_TESTS_FAIR_BENCH_H

#include "tests/support/fair_crowd.h"

enum { FAIR_SPACES = 16, FAIR_POOL_ROWS = 4096 };

struct fair_bench {
    struct sched_bench run; /* its rows_max: of each collection */
    unsigned seconds;       /* of soak, and of vram where less; 0: each its own */
    uint32_t batch_queries; /* of every fourth request in soak's batch phases, else 1 */
    const float *pool;      /* FAIR_POOL_ROWS random queries */
};

/* As sched_daemon_start, and returns once it has measured its backends. */
void fair_daemon_start(struct sched_daemon *d, const struct fair_bench *b, uint64_t rows,
                       const char *const *settings);
/* A connection for space number `space`: "space0", "space1" ... */
ea_client *fair_client(const struct sched_daemon *d, unsigned space);
struct fair_rows {
    char name[SCHED_ROWS_NAME];
    uint64_t rows;
};
/* These collections for each client's space, of random rows with ids 0, 1, ..., each its own; says
 * how long that took. By several threads, a client at a time. */
void fair_load(ea_client *const *clients, unsigned count, const struct fair_rows *each,
               unsigned each_count, uint32_t dimension);
/* With the daemon forced to the GPU: until it answers this. False: not within 30 s. */
bool fair_warm(ea_client *c, const struct crowd_question *q);
/* What the space had of both backends, ns. */
uint64_t fair_busy_ns(ea_client *c);
/* "gpu": what stats count for VRAM pressure, in a line. Returns the evictions. */
uint64_t fair_print_pressure(ea_client *c);
/* A real device or the simulated one, else says SKIP. */
bool fair_needs_gpu(const struct fair_bench *b);

/* ---- sections ---- */

void fair_fair(struct fair_bench *b);
void fair_weights(struct fair_bench *b);
void fair_vram(struct fair_bench *b);
void fair_grab(struct fair_bench *b);
void fair_larger(struct fair_bench *b);
void fair_soak(struct fair_bench *b);

#endif
