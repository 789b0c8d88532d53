/* sched_bench: what bench_routing's sections stand on: a daemon whose live settings change under
 * way, collections of random rows, lines that say target and verdict; and the sections.
 * Owner:  bench_routing.
 * Thread: one, unless it says else.
 * Errors: a step that fails ends the program with a message, exit 1. */
#ifndef ENGRAM_TESTS_SCHED_BENCH_H
#define ENGRAM_TESTS_SCHED_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "client/engram_accel.h"
#include "tests/support/daemon_process.h"

enum { SCHED_SETTINGS_MAX = 16, SCHED_ROWS_NAME = 24 };

/* One run of bench_routing: what was asked for, and how it went. */
struct sched_bench {
    bool simulated, quick;
    bool has_gpu;      /* one became ready when we looked */
    uint64_t rows_max; /* of the largest collection */
    uint32_t dimension;
    unsigned requests;                        /* of the mix */
    unsigned rounds;                          /* of it, forced to each backend */
    unsigned pause_us;                        /* before each of its requests */
    unsigned hogs;                            /* processes that crowd a real card */
    const char *settings[SCHED_SETTINGS_MAX]; /* of every daemon, "key=value" */
    unsigned setting_count;
    const char *dump; /* a file for every request of the mix, a line each; or NULL */

    unsigned met, missed;
    unsigned wrong; /* answers that differ, requests that failed */
};

/* ---- a daemon ---- */

/* What is in its file, and changes while it runs. */
struct sched_live {
    const char *force;      /* gpu.force: none, cpu, gpu */
    uint32_t batch_queries; /* batch.queries */
};

struct sched_daemon {
    struct daemon_process process;
    char directory[64], config_path[96];
    struct sched_live live;
    ea_client *client;
    uint32_t dimension;
};

/* rows: what its memory must hold. settings: NULL-ended, may be NULL; the run's own go over them.
 * With a GPU in the run, it is ready when this returns. */
void sched_daemon_start(struct sched_daemon *d, const struct sched_bench *b, uint64_t rows,
                        const char *const *settings);
void sched_daemon_stop(struct sched_daemon *d);
ea_client *sched_daemon_client(const struct sched_daemon *d);
/* Returns once they are in force. */
void sched_daemon_set(struct sched_daemon *d, struct sched_live live);
void sched_daemon_force(struct sched_daemon *d, const char *force);
/* Waits until it has measured its backends; says so if that takes too long. */
void sched_daemon_calibrated(const struct sched_daemon *d, const struct sched_bench *b);
/* Whether its first GPU becomes ready. */
bool sched_daemon_gpu_ready(const struct sched_daemon *d);

/* A collection of random rows with ids 0, 1, ...; its name is "r" and their number. */
void sched_load(const struct sched_daemon *d, uint64_t rows);
void sched_name(uint64_t rows, char out[SCHED_ROWS_NAME]);
/* Forces a question over it to the GPU until it is answered there, so that a replica is there; then
 * lets the daemon decide. False: not within 30 s. */
bool sched_warm_replica(struct sched_daemon *d, uint64_t rows);

/* ---- figures ---- */

void sched_check(ea_status st, ea_client *c, const char *what);
/* malloc'ed; uniform in [-1, 1). */
float *sched_random_floats(uint64_t count, uint64_t seed);
/* Over scores, ids and counts. */
uint64_t sched_digest(const ea_result *r);
/* What deciding took; zeros: nothing was decided. */
struct sched_deciding {
    double p50_us, p99_us;
};
/* What the daemon's scheduler counted. */
struct sched_deciding sched_print_scheduler(const struct sched_daemon *d);
/* What a section does, and for how long at most. */
void sched_title(const char *name, const char *what, unsigned seconds_max);
/* One line: what, the figures, the ratio to the target, PASS or miss, which is counted. */
void sched_verdict(struct sched_bench *b, const char *what, double value, const char *unit,
                   bool at_least, double target);

/* 64 connections that ask one query each, all the time, over a collection whose replica is there;
 * prints a line. Returns how many were answered in a second. */
double sched_crowd(struct sched_daemon *d, uint64_t rows, const char *force, double seconds);

/* ---- sections ---- */

void sched_mix(struct sched_bench *b);
void sched_cold(struct sched_bench *b);
void sched_slow(struct sched_bench *b);
void sched_batch(struct sched_bench *b);
void sched_alone(struct sched_bench *b);
void sched_decide(struct sched_bench *b);

#endif
