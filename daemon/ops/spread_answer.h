/* spread_answer: makes the reply from the records that a spread left, on either backend: the best
 * of each set in order, sums, paths.
 * Owner:  sets and arenas are the operation's.
 * Thread: spread_answer_set: one at a time for a set and its arenas; spread_answer_place: alone;
 *         spread_answer_write: on any threads at once, for different ranges.
 * Errors: spread_answer_set: false, and one of the arenas says why; spread_answer_place as
 *         operation_take_result. */
#ifndef ENGRAM_OPS_SPREAD_ANSWER_H
#define ENGRAM_OPS_SPREAD_ANSWER_H

#include "daemon/ops/arena.h"
#include "daemon/ops/spread_ask.h"

/* The result of one seed set. */
struct spread_set {
    const struct spread_record *records;
    const uint32_t *order; /* places of the kept records; NULL: 0, 1, 2 ... */
    uint64_t kept;
    uint64_t touched, cycles;
    uint32_t hops; /* the last that touched a node */
    bool truncated;
    bool undone; /* there was no memory to run it */
    float tier_sums[SPREAD_TIERS];
    /* with paths: where the path of each kept record ends in path_nodes */
    const uint64_t *path_ends;
    const uint32_t *path_nodes; /* seeds first */
    uint64_t first, path_first; /* where it and its paths begin in the reply */
};

/* Chooses the best records and sorts them. records: of distinct nodes of the graph, in any order.
 * copy: the kept ones are copied to `keep`; otherwise records must stay valid until the reply is
 * written. `work` may be cleared afterwards. Sets everything but cycles and truncated. */
bool spread_answer_set(const struct spread_ask *a, const struct spread_record *records,
                       uint64_t count, bool copy, struct arena *keep, struct arena *work,
                       struct spread_set *out);

/* Finds the paths of the kept records; records: all that were touched. A kept record whose node is
 * SPREAD_NO_NODE has itself as its path. False: there is no memory. */
bool spread_answer_paths(const struct spread_ask *a, const struct spread_record *records,
                         uint64_t count, struct arena *keep, struct arena *work,
                         struct spread_set *out);

/* Called when all sets are known: takes memory for the result and writes what there is one of for
 * each set. */
enum status spread_answer_place(struct job *j, const struct spread_ask *a, struct spread_set *sets);
/* Returns the entries of the reply, over all sets. */
uint64_t spread_answer_entries(const struct job *j);
void spread_answer_write(struct job *j, const struct spread_ask *a, const struct spread_set *sets,
                         uint64_t first, uint64_t end);

#endif
