/* sched_mix: 2,000 requests from a fixed seed, and asking one of them.
 * Owner:  bench_routing's sections mix and cold.
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
    bool answered;
    uint64_t digest; /* of its first answer */
};

struct mix_time {
    double us;        /* the client's; 0: not measured */
    double daemon_us; /* of it, from the whole request to its reply */
    double ran_us;    /* of that, working */
};

struct mix_answer {
    struct mix_time time;
    ea_meta meta;
};

struct mix {
    unsigned count;
    struct mix_request *requests;
    unsigned other_bits; /* answers that differ from the first of the same request */
    uint64_t sets[MIX_SETS_MAX];
    unsigned set_count;
    uint32_t dimension;
    float *pool; /* of queries */
    uint64_t *random, *candidates, *offsets;
};

/* The requests of that seed; it lives as long as the program. */
void mix_init(struct mix *m, const struct sched_bench *b, uint64_t seed);
/* All collections that it asks. */
void mix_load(const struct mix *m, const struct sched_daemon *d);
/* Replicas of all of them. */
void mix_warm(const struct mix *m, struct sched_daemon *d);
uint64_t mix_rows(const struct mix *m);
/* Request i; its answer's bits are compared. */
struct mix_answer mix_ask(struct mix *m, ea_client *c, unsigned i);
const char *mix_operation_name(enum mix_operation o);

#endif
