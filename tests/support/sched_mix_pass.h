/* sched_mix_pass: the mix as a whole, one request after the other: as the daemon decides, in the
 * order of the mix, and forced to either backend in turn, each time in another order. What is
 * forced is told once a pass, so that threads and caches are as in steady work, whoever answers.
 * Owner:  bench_routing's sections mix and cold.
 * Thread: one.
 * Errors: as sched_mix; what there was no time for is not measured. */
#ifndef ENGRAM_TESTS_SCHED_MIX_PASS_H
#define ENGRAM_TESTS_SCHED_MIX_PASS_H

#include "tests/support/sched_mix.h"

enum { MIX_ROUNDS_MAX = 15, MIX_PASSES_MAX = 4 };

/* One request forced to one backend, round by round. */
struct mix_series {
    unsigned count;     /* runs there */
    unsigned elsewhere; /* runs that were not there after all, and are not kept */
    double first_us;    /* the client's, of the first of both */
    struct mix_time runs[MIX_ROUNDS_MAX];
};

struct mix_runs {
    struct mix *mix;
    unsigned rounds, pause_us;
    struct mix_series *cpu, *gpu;               /* one a request */
    struct mix_answer *decided[MIX_PASSES_MAX]; /* one a request; time.us 0: not asked */
    unsigned passes;                            /* as the daemon decides */
    unsigned warm;                              /* the first of them, which are not judged */
};

/* m has been drawn. Nothing is measured yet; it lives as long as the program. */
void mix_runs_init(struct mix_runs *r, struct mix *m, const struct sched_bench *b);
/* Another daemon decides; what was measured forced stays. */
void mix_forget_decided(struct mix_runs *r);

/* One more pass as the daemon decides, cut after seconds_max. */
void mix_decide(struct mix_runs *r, struct sched_daemon *d, unsigned seconds_max);
/* All rounds on both backends; what takes long, in fewer. Cut after seconds_max together. */
void mix_force(struct mix_runs *r, struct sched_daemon *d, unsigned seconds_max);

#endif
