/* sched_stream: one request again and again: what it takes on either backend by the daemon's own
 * time (queued + running), and where the daemon sends it.
 * Owner:  bench_routing's section slow.
 * Thread: one.
 * Errors: a request that fails ends the program; other bits than the first answer's are counted. */
#ifndef ENGRAM_TESTS_SCHED_STREAM_H
#define ENGRAM_TESTS_SCHED_STREAM_H

#include "tests/support/sched_bench.h"

enum { STREAM_MAX = 1000, STREAM_AHEAD = 20, STREAM_ROWS_MAX = 16384, STREAM_QUERIES_MAX = 64 };

enum stream_operation {
    STREAM_KNN,
    STREAM_SIMILARITY,
    STREAM_INLINE /* similarity to rows sent along: at most STREAM_ROWS_MAX */
};

struct stream_question {
    enum stream_operation operation;
    uint64_t rows;
    uint32_t queries, dimension;
    double cpu_us, gpu_us; /* forced, medians; 0: it did not run there */
    uint64_t digest;
};

/* Where the floats of queries and rows sent along come from: STREAM_ROWS_MAX of the largest
 * dimension. */
void stream_pool(const float *values);

void stream_print(const struct stream_question *q);
/* Forced to that backend: the median of a few, in us, of fewer where they take long; 0: it did not
 * run there. */
double stream_forced(struct sched_daemon *d, struct stream_question *q, ea_backend where);
/* cpu_us, gpu_us and the digest of all of them; of those that come after end_s, of none. */
void stream_measure(struct sched_daemon *d, struct stream_question *all, unsigned count,
                    double end_s);

struct stream {
    unsigned count;
    bool there[STREAM_MAX];        /* on the backend that is asked about */
    double there_us, elsewhere_us; /* p50; 0: none */
};

/* Up to count of them, as the daemon decides, for at most `seconds`. */
void stream_run(struct sched_bench *b, struct sched_daemon *d, const struct stream_question *q,
                ea_backend where, unsigned count, double seconds, struct stream *out);
/* The first request from which on 95 % of the next STREAM_AHEAD are there; STREAM_MAX:
 * none is, as far as it went. */
unsigned stream_settled(const struct stream *s);
/* One line; where: the backend that was asked about. */
void stream_report(const struct stream *s, const char *when, ea_backend where);

#endif
