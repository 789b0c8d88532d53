/* sched_mix: 2,000 requests from a fixed seed, one at a time: what the daemon decides for each, how
 * long it takes, and how long it takes forced to either backend.
 * Owner:  bench_routing's sections mix and cold, which share what was measured forced.
 * Thread: one.
 * Errors: a request that fails ends the program; answers that differ are counted. */
#ifndef ENGRAM_TESTS_SCHED_MIX_H
#define ENGRAM_TESTS_SCHED_MIX_H

#include "tests/support/sched_bench.h"

enum { MIX_SETS_MAX = 20, MIX_OPERATIONS = 3 };
enum mix_operation { MIX_KNN, MIX_SIMILARITY, MIX_SCORE };

struct mix_request {
    enum mix_operation operation;
    uint64_t rows; /* of its collection */
    uint32_t queries, k;
    uint32_t listed; /* candidates of each query */
    uint32_t first;  /* where in the pools it starts */
};

struct mix_time {
    double us;                /* the client's; 0: not measured */
    double daemon_us;         /* of it, from the whole request to its reply */
    double least_us, most_us; /* the daemon's, of the rounds of a forced one */
    uint64_t bytes;           /* of the reply */
    ea_meta meta;
    uint64_t digest;
};

struct mix {
    unsigned count;
    struct mix_request *requests;
    struct mix_time *decided, *cpu, *gpu; /* gpu.us 0: it did not run there */
    uint64_t sets[MIX_SETS_MAX];
    unsigned set_count;
    uint32_t dimension;
    float *pool; /* of queries */
    uint64_t *random, *candidates, *offsets;
};

/* The requests of that seed; nothing is measured yet. */
void mix_init(struct mix *m, const struct sched_bench *b, uint64_t seed);
void mix_finish(struct mix *m);
/* All collections that it asks. */
void mix_load(const struct mix *m, const struct sched_daemon *d);
uint64_t mix_rows(const struct mix *m);

/* One pass as the daemon decides: m->decided. */
void mix_decide(struct mix *m, struct sched_daemon *d);
/* Every request on both backends in turn, medians of 3: m->cpu, m->gpu; what is not measured after
 * seconds_max stays 0. */
void mix_measure(struct mix *m, struct sched_daemon *d, unsigned seconds_max);

/* Shares and sums over the requests from `first` on, with their targets; and the worst ones. */
void mix_report(struct sched_bench *b, const struct mix *m, unsigned first);

#endif
