/* spread_reference: docs/spreading.md word for word, slowly: every node looked at in every hop,
 * every contribution sorted. Shares no code with the engine.
 * Owner:  the caller; spread_answer_free.
 * Thread: any.
 * Errors: a failed allocation ends the process. Deadlines are not kept. */
#ifndef ENGRAM_TESTS_SUPPORT_SPREAD_REFERENCE_H
#define ENGRAM_TESTS_SUPPORT_SPREAD_REFERENCE_H

#include "kernels/spread.h"

/* What a spread left, by rising node number. */
struct spread_answer {
    struct spread_record *records;
    uint64_t count, cycles;
    uint32_t hops_done;
    bool truncated;
    /* Mode linear, the reference alone: of all sums, the largest distance from the sum in long
     * double, as a part of the sum of magnitudes; and the same after what the grid may lose is
     * taken off. */
    double error_max, excess_max;
};

struct spread_answer spread_reference(const struct spread_graph *g,
                                      const struct spread_question *q);
void spread_answer_free(struct spread_answer *a);
void spread_answer_sort(struct spread_answer *a);
/* NULL: to the last bit the same; else what differs, in a static text. */
const char *spread_answers_differ(const struct spread_answer *a, const struct spread_answer *b);

#endif
