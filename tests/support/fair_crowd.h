/* fair_crowd: connections that each keep so many requests in flight, drawn from questions whose
 * answers the CPU gave before, and what came of them.
 * Owner:  bench_fair's sections. Questions, their collections and clients outlive the crowd's runs.
 * Thread: the caller's for all functions; the crowd has threads of its own between start and stop.
 *         Counters may be read at any time; an asker's histograms only after stop.
 * Errors: a step that fails ends the program; requests that fail and wrong answers are counted. */
#ifndef ENGRAM_TESTS_FAIR_CROWD_H
#define ENGRAM_TESTS_FAIR_CROWD_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/base/histogram.h"
#include "tests/support/sched_bench.h"

enum { CROWD_ASKERS = 32, CROWD_DEPTH = 256, CROWD_HABITS = 3, CROWD_THREADS = 4 };

enum crowd_operation { CROWD_KNN, CROWD_SIMILARITY, CROWD_SCORE };

struct crowd_question {
    enum crowd_operation operation;
    char collection[SCHED_ROWS_NAME];
    uint32_t dimension, queries, k;
    const float *from;    /* queries x dimension */
    uint64_t *candidates; /* CROWD_SCORE: listed of each query, malloc'ed */
    uint64_t *offsets;    /* queries + 1 */
    uint32_t listed;
    uint64_t digest; /* of the CPU's answer, once crowd_learn was there */
};

/* What an asker does in one mode of its crowd: questions first .. first + count - 1. */
struct crowd_habit {
    unsigned first, count, depth;
};

struct crowd_slot {
    struct crowd_asker *asker;
    struct crowd_question *question;
    uint64_t sent_ns;
    unsigned mode; /* then */
    struct crowd_slot *next_free;
};

struct crowd_asker {
    struct crowd *crowd;
    ea_client *client;
    struct crowd_question *questions;
    unsigned question_count;
    struct crowd_habit habits[CROWD_HABITS];

    unsigned in_flight, next_to_learn;
    uint64_t seed;
    struct crowd_slot slots[CROWD_DEPTH], *free;
    struct histogram took[CROWD_HABITS]; /* ns, of what was counted, by mode when sent */
};

struct crowd {
    struct crowd_asker askers[CROWD_ASKERS];
    unsigned asker_count, thread_count;
    pthread_t threads[CROWD_THREADS];
    bool learning;
    _Atomic bool stop, counting;
    _Atomic unsigned mode;
    _Atomic uint64_t answers, on_gpu, together; /* counted: right ones; sum of their batches */
    _Atomic uint64_t wrong, failed;             /* ever */
};

/* queries x dimension at `from`, which stays the caller's. listed: random ids below rows for each
 * query, with CROWD_SCORE; else 0. */
struct crowd_question crowd_question(enum crowd_operation operation, const char *collection,
                                     const float *from, uint32_t queries, uint32_t dimension,
                                     uint32_t k, uint32_t listed, uint64_t rows);
void crowd_questions_free(struct crowd_question *questions, unsigned count);
/* Asked alone, and waited for. Returns the digest of the answer; *meta may be NULL. */
uint64_t crowd_ask(ea_client *c, const struct crowd_question *q, ea_meta *meta);

/* *w: zeroed before. The client is the asker's while the crowd runs, the caller's to close. */
struct crowd_asker *crowd_join(struct crowd *w, ea_client *c, struct crowd_question *questions,
                               unsigned count);
/* Asks every question once and keeps the digests: the daemon is forced to the CPU meanwhile. */
void crowd_learn(struct crowd *w);
/* Mode 0, counting nothing. */
void crowd_start(struct crowd *w);
/* Returns after the last answer. */
void crowd_stop(struct crowd *w);
/* Counts for so long; what was counted before is forgotten. Between start and stop. */
void crowd_count(struct crowd *w, double seconds);
/* Of all askers from..until - 1, in that mode. */
double crowd_percentile_us(const struct crowd *w, unsigned from, unsigned until, unsigned mode,
                           double percent);
/* Says how many were wrong and failed, and has b count them. */
void crowd_settle(struct sched_bench *b, const struct crowd *w);

#endif
