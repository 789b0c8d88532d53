/* spread_answer: from the records that a spread left, of whichever backend, to the reply: the best of
 * each set in their order, sums, paths.
 * Owner:  sets and arenas are the operation's.
 * Thread: spread_answer_set one at a time on a set and its arenas; spread_answer_place alone;
 *         spread_answer_write at once on any thread, for ranges that differ.
 * Errors: spread_answer_set: false, and one of the arenas says why; spread_answer_place as
 *         operation_take_result. */
#ifndef ENGRAM_OPS_SPREAD_ANSWER_H
#define ENGRAM_OPS_SPREAD_ANSWER_H

#include "daemon/ops/arena.h"
#include "daemon/ops/spread_ask.h"

/* What came of one seed set. */
struct spread_set {
    const struct spread_record *records;
    const uint32_t *order; /* of the kept, their places in records; NULL: 0, 1, 2 ... */
    uint64_t kept;
    uint64_t touched, cycles;
    bool truncated;
    bool undone; /* nobody had memory for it */
    float tier_sums[SPREAD_TIERS];
    const uint64_t *path_ends;  /* with paths: of each kept, where its path ends in path_nodes */
    const uint32_t *path_nodes; /* seeds first */
    uint64_t path_first;        /* where its paths begin in the reply */
};

/* Chooses and sorts. records: of distinct nodes of the graph, in any order. copy: the kept ones are copied to `keep`, otherwise records must stay until
 * the reply is written. `work` is free afterwards. Sets everything but cycles and truncated. */
bool spread_answer_set(const struct spread_ask *a, const struct spread_record *records,
                       uint64_t count, bool copy, struct arena *keep, struct arena *work,
                       struct spread_set *out);

/* All sets are known: takes the result and writes what there is of each set. */
enum status spread_answer_place(struct job *j, const struct spread_ask *a, struct spread_set *sets);
/* Entries of the reply, counted through all sets. */
uint64_t spread_answer_entries(const struct job *j);
void spread_answer_write(struct job *j, const struct spread_ask *a, const struct spread_set *sets,
                         uint64_t first, uint64_t end);

#endif
