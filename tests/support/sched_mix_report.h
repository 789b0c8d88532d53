/* sched_mix_report: what the daemon decided in the mix, against what would have been best.
 * Owner:  bench_routing's sections mix and cold.
 * Thread: one.
 * Errors: a file that cannot be written ends the program. */
#ifndef ENGRAM_TESTS_SCHED_MIX_REPORT_H
#define ENGRAM_TESTS_SCHED_MIX_REPORT_H

#include "tests/support/sched_mix_judge.h"

/* Shares and sums over the requests from `first` on, with their targets; the measure's own noise;
 * and the worst ones. */
void mix_report(struct sched_bench *b, const struct mix_runs *r, unsigned first);

/* What the same request takes decided and forced; and how well an oracle does that knows one half
 * of the rounds and is judged by the other. */
void mix_print_noise(const struct mix_runs *r, unsigned first);

/* All of it, a line each, for whoever wants to fit a model of his own. The program's first dump
 * empties the file, later ones go behind it. */
void mix_dump(const char *path, const char *section, const struct mix_runs *r);

#endif
