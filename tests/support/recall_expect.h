/* recall_expect: a recall as a client asks for it, and whether what came back is right to the bit:
 * docs/recall.md word for word, slowly. The nearest rows are reference.h's, the spread's records
 * spread_reference.h's, and the best are chosen in the plainest way.
 * Owner:  the caller's arrays.
 * Thread: one.
 * Errors: texts; a failed allocation ends the process. */
#ifndef ENGRAM_TESTS_SUPPORT_RECALL_EXPECT_H
#define ENGRAM_TESTS_SUPPORT_RECALL_EXPECT_H

#include "tests/support/reference.h"
#include "tests/support/spread_expect.h"

/* As in RecallRequest, without defaults. */
struct recall_case {
    const struct graph *graph; /* any with the same nodes and edges */
    struct reference_rows rows;
    const float *cues;
    uint64_t cue_count, lists;
    const uint64_t *cue_offsets; /* NULL: each cue is a list */
    uint32_t results, k;
    float threshold, width, activation_min, boost;
    struct spread_case spread; /* how, table, within; its seeds are the cues' */
};

/* As in RecallReply. path_offsets NULL: none came. */
struct recall_reply {
    uint64_t lists, count;
    const uint64_t *offsets, *ids, *touched, *path_offsets, *path_ids;
    const float *activations, *scores;
    const uint8_t *marks, *truncated;
    const uint32_t *depths, *seeds, *hops;
};

/* NULL: r is right; else what is not, in a static text. */
const char *recall_reply_wrong(const struct recall_case *c, const struct recall_reply *r);

#endif
