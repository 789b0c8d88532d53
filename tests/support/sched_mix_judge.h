/* sched_mix_judge: one decision of the mix against what was measured forced, by medians of rounds.
 * Owner:  bench_routing's sections mix and cold.
 * Thread: any; pure.
 * Errors: none. */
#ifndef ENGRAM_TESTS_SCHED_MIX_JUDGE_H
#define ENGRAM_TESTS_SCHED_MIX_JUDGE_H

#include "tests/support/sched_mix_pass.h"

enum { MIX_NOISE_PERCENT = 3 };

/* The daemon's (Meta.total_ns, from the whole request to its reply being queued) is the rule: what
 * is before and after is the socket's and the client's, the same wherever it ran. */
enum mix_clock { MIX_BY_DAEMON, MIX_BY_CLIENT };

double mix_time_us(const struct mix_time *t, enum mix_clock by);
/* Of the runs first, first + step ...; 0: there is none. */
double mix_median_us(const struct mix_series *s, enum mix_clock by, unsigned first, unsigned step);

/* Whether request i was asked for on both backends: else it cannot be judged. */
bool mix_is_measured(const struct mix_runs *r, unsigned i);
/* The median of its judged passes, those that the daemon sent to `where` alone, or all of them if
 * that is 0; 0: there is none. */
double mix_decided_us(const struct mix_runs *r, unsigned i, enum mix_clock by, ea_backend where);

struct mix_judged {
    double best_us;     /* of the two medians */
    double chosen_us;   /* the median of the backend that was chosen */
    bool gpu_is_faster; /* by medians */
    bool right, nearly; /* nearly: or within MIX_NOISE_PERCENT */
    /* Runs of one request differ by more than its backends do, near the crossover: by the daemon's
     * clock the other one was faster in every round, so that there is no doubt. */
    bool clearly_wrong;
};

/* Pass p of request i, which is measured and was decided in that pass. */
struct mix_judged mix_judge(const struct mix_runs *r, unsigned i, unsigned p, enum mix_clock by);

#endif
