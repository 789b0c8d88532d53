/* matches: (query, id, score) triples that many workers collect, in unknown number, and that are
 * then laid out by query, best first.
 * Owner:  the operation's scratch; the triples are in heap blocks of their own.
 * Thread: matches_add on each worker for itself; the rest on one.
 * Errors: RESOURCE_EXHAUSTED: MEMORY, or REPLY_TOO_LARGE as soon as the matches cannot fit. */
#ifndef ENGRAM_OPS_MATCHES_H
#define ENGRAM_OPS_MATCHES_H

#include "daemon/ops/operation_inside.h"

struct matches {
    uint64_t count_max;
    _Atomic uint64_t count;
    _Atomic enum status refused; /* why memory was refused; OK: it was not */
    uint64_t lists;              /* scratch offset: one match_list for each worker */
    uint64_t starts;
    uint64_t query_count;
};

/* Lays out scratch for worker_count lists and query_count offsets. */
void matches_layout(struct matches *m, const struct job *j, uint64_t query_count, uint64_t *bytes);
/* Called in plan, so that finish can always be called. */
void matches_prepare(struct matches *m, struct job *j);

/* False once collecting more matches is useless. */
bool matches_welcome(const struct matches *m);

/* Adds scores[positions[i]] of ids[positions[i]], i < count, as matches of a query. */
void matches_add(struct matches *m, struct job *j, uint32_t worker, uint64_t query,
                 const uint64_t *ids, const float *scores, const uint32_t *positions, size_t count);

/* Takes memory for the result (ids, scores, offsets) and fills it; frees the lists in any case. */
void matches_finish(struct matches *m, struct job *j, bool lower_is_better);

#endif
