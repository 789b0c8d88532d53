/* spread_bench: a graph to measure spreads over, and a second thread that shares the parts of a
 * step.
 * Owner:  the program; spread_bench_close.
 * Thread: one; the other is its own, and spins while it waits.
 * Errors: a failed step ends the program with a message. */
#ifndef ENGRAM_TESTS_SUPPORT_SPREAD_BENCH_H
#define ENGRAM_TESTS_SUPPORT_SPREAD_BENCH_H

#include "tests/support/spread_graphs.h"

#include <pthread.h>

enum spread_bench_work { SPREAD_BENCH_HOP, SPREAD_BENCH_SUMS, SPREAD_BENCH_STOP };

struct spread_bench {
    const char *name;
    struct spread_sample sample;
    uint32_t *numbers; /* by the user's own: the sample's */
    void *memory;      /* a workspace */
    void *more;        /* what a run may take beside it */
    uint64_t more_bytes;
    /* From start to stop: a run that has reached all nodes that it can. */
    struct spread_run run;
    struct spread_question question;
    struct spread_seed *seeds;
    float decay[SPREAD_HOPS_MAX + 1];
    float *sent, *received;
    uint32_t threads;
    pthread_t helper;
    enum spread_bench_work work;
    uint32_t parts;
    _Atomic(uint32_t) next_part, done;
    _Atomic(uint64_t) ticket; /* rises with each step */
};

/* "wordnet": synsets and what points from one to another; "uniform": 1,000,000 nodes of 8 edges;
 * "power": 1,000,000 nodes, 10,000,000 edges, degrees by a power law. False: it is not here. */
bool spread_bench_open(struct spread_bench *b, const char *name);
void spread_bench_close(struct spread_bench *b);

/* One thread or two. */
void spread_bench_start(struct spread_bench *b, const struct spread_kernels *kernels,
                        uint32_t threads);
void spread_bench_stop(struct spread_bench *b);
/* Seconds of one hop over all nodes: all that it does; the sums alone. */
double spread_bench_hop(struct spread_bench *b);
double spread_bench_pull(struct spread_bench *b);
/* Its in-lists as a CSR matrix, targets x sources, in the user's own numbers: FOLDER/offsets (u64),
 * columns (u32), weights. */
void spread_bench_write(const struct spread_bench *b, const char *folder);

/* Seconds of a spread from the nth of some nodes that have edges, alone; and how many it
 * touched. */
double spread_bench_from(struct spread_bench *b, enum spread_mode mode, uint32_t hops,
                         enum spread_hop how, uint32_t nth, double *touched);

#endif
