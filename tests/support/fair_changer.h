/* fair_changer: one connection that adds, replaces and deletes rows of its own collection without
 * end, and compares what kNN and a weighted average of it give after each change.
 * Owner:  bench_fair's soak; the client becomes the changer's.
 * Thread: the caller's; each has a thread of its own between start and stop.
 * Errors: requests that fail and wrong answers are counted in the crowd. */
#ifndef ENGRAM_TESTS_FAIR_CHANGER_H
#define ENGRAM_TESTS_FAIR_CHANGER_H

#include "tests/support/fair_crowd.h"

struct changer;

/* Makes its collection and learns all answers: the daemon is forced to the CPU meanwhile. */
struct changer *changer_create(ea_client *c, struct crowd *w, const float *pool,
                               uint32_t dimension);
void changer_destroy(struct changer *h);
void changer_start(struct changer *h);
void changer_stop(struct changer *h);
/* Right ones so far, changes included. */
uint64_t changer_answers(const struct changer *h);

#endif
