/* matches: (query, id, score) triples gathered by many workers without knowing how many will come,
 * then laid out by query, best first.
 * Owner:  the operation's scratch; the triples lie in heap blocks of their own.
 * Thread: matches_add on each worker for itself; the rest on one.
 * Errors: RESOURCE_EXHAUSTED: MEMORY, or REPLY_TOO_LARGE as soon as the matches cannot fit. */
#ifndef ENGRAM_OPS_MATCHES_H
#define ENGRAM_OPS_MATCHES_H

#include "daemon/ops/operation_inside.h"

struct matches {
    uint64_t count_max;
    _Atomic uint64_t count;
    _Atomic enum status refused; /* memory; OK: not */
    uint64_t lists;              /* scratch offset: one match_list a worker */
    uint64_t starts;
    uint64_t query_count;
};

/* Scratch for worker_count lists and query_count offsets. */
void matches_layout(struct matches *m, const struct job *j, uint64_t query_count, uint64_t *bytes);
/* In plan, so that finish can always be called. */
void matches_prepare(struct matches *m, struct job *j);

/* True while it makes sense to look for more. */
bool matches_welcome(const struct matches *m);

/* Adds scores[positions[i]] of ids[positions[i]], i < count, for a query. */
void matches_add(struct matches *m, struct job *j, uint32_t worker, uint64_t query,
                 const uint64_t *ids, const float *scores, const uint32_t *positions, size_t count);

/* Takes the result (ids, scores, offsets) and fills it; gives the lists back in any case. */
void matches_finish(struct matches *m, struct job *j, bool lower_is_better);

#endif
