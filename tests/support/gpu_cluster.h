/* gpu_cluster: clusterings for the GPU process's server, and their answers by the definition.
 * Owner:  tests. Thread: one. Errors: fail the test. */
#ifndef ENGRAM_TESTS_GPU_CLUSTER_H
#define ENGRAM_TESTS_GPU_CLUSTER_H

#include "tests/support/gpu_ask.h"

struct cluster_asked {
    bool average, timed;
    bool listed;  /* some rows of the replica, from the last to the first */
    bool brought; /* rows that come with the order */
    uint64_t few; /* at most so many of either; 0: as many as there are */
    float threshold, threshold_second;
};
struct order cluster_ask(struct gpu_peer *p, const struct ask_rows *r,
                         const struct cluster_asked *how);
/* What an answered one left in the heap is right: as many merges, and the same rows together. */
bool cluster_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r);

#endif
