/* bench: what the four files of the bench command share.
 *   bench.c        options and the report
 *   bench_data.c   a collection, and the vectors and ids of requests
 *   bench_report.c a page about the machine
 *   bench_drive.c  many connections, many requests each, one poll loop
 * Owner:  bench_run's struct.
 * Thread: the main thread.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_COMMANDS_BENCH_H
#define ENGRAM_CLI_COMMANDS_BENCH_H

#include "client/cli/cli.h"
#include "client/cli/text/latency.h"
#include "client/cli/text/meta_total.h"

enum bench_operation { BENCH_PING, BENCH_KNN, BENCH_SCORE, BENCH_SIMILARITY };

struct bench_options {
    enum bench_operation operation;
    const char *collection; /* NULL: the command makes, fills and drops one */
    uint64_t connections, depth, rows, dimension, batch, k, candidates;
    double rate, seconds;
    bool report;
    const char *label; /* before a line of progress: "3 of 8, "; or NULL */
};

struct bench_result {
    struct latency latency;
    uint64_t sent, done, errors, errors_of[EA_UNAUTHENTICATED + 1];
    uint64_t unsent;     /* requests that were due before the end, but found every slot taken */
    uint64_t elapsed_ns; /* from the first intended send to the last reply */
    struct meta_total meta;
    char error[300]; /* of the first request that failed */
};

/* The vectors and ids of requests; request i takes them from a place of its own. */
struct bench_data {
    char name[65];
    bool made;
    uint32_t dimension;
    float *vectors; /* count x dimension */
    uint64_t *ids;  /* count of them, in the collection */
    uint64_t count;
    uint64_t *offsets; /* batch + 1 */
    uint64_t *candidates;
    uint64_t candidate_count;
};

extern const char *const bench_operation_names[]; /* by enum bench_operation; NULL ends it */

int bench_data_make(struct bench_data *d, struct cli *cli, const struct bench_options *o);
/* Drops the collection if the command made it. */
void bench_data_drop(struct bench_data *d, struct cli *cli);

/* Of the options, how long each figure takes. */
int bench_report(struct cli *cli, const struct bench_options *given);
/* Prints from how many rows on, up to given->rows, requests of now are faster on a card. */
int bench_break_evens(struct cli *cli, const struct bench_options *given);

/* Sends requests until the time is over or Ctrl-C. */
int bench_drive(const struct cli *cli, const struct bench_options *o, const struct bench_data *d,
                struct bench_result *out);

#endif
