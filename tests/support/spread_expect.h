/* spread_expect: a spread as a client asks for it, and whether what came back is right to the bit:
 * what the slow reference (spread_reference.h) leaves of each set, ordered and summed up in the
 * plainest way.
 * Owner:  the caller's arrays.
 * Thread: one.
 * Errors: texts. */
#ifndef ENGRAM_TESTS_SUPPORT_SPREAD_EXPECT_H
#define ENGRAM_TESTS_SUPPORT_SPREAD_EXPECT_H

#include "daemon/base/job.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "tests/support/spread_reference.h"

/* As in SpreadRequest; offsets NULL: one set; activations NULL: all 1; within NULL: all nodes. */
struct spread_case {
    struct job_spread how;
    const float *table;
    uint32_t k;
    uint64_t sets, seed_count, within_count;
    const uint64_t *offsets, *seeds, *within;
    const float *activations;
    struct edition *embeddings; /* of the collection that the request names; NULL: none */
};

/* As in SpreadReply. path_offsets NULL: none came. */
struct spread_reply {
    uint64_t sets, count;
    const uint64_t *offsets, *ids, *touched, *cycles, *path_offsets, *path_ids;
    const float *activations, *confidences, *tier_sums;
    const uint32_t *visits, *depths;
    const uint8_t *truncated;
};

/* What the slow reference leaves of one of the sets; for spread_answer_free. g: as below. */
struct spread_answer spread_wanted(const struct graph *g, const struct spread_case *c,
                                   uint64_t set);

/* g: any graph with the same nodes and edges. NULL: r is right; else what is not, in a static
 * text. */
const char *spread_reply_wrong(const struct graph *g, const struct spread_case *c,
                               const struct spread_reply *r);

#endif
