/* space_counts: what is counted by space for the operator: a bounded number of spaces, and all
 * others together. A space keeps its place when it is forgotten, so that no counter ever falls.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: space_counts_init: RESOURCE_EXHAUSTED. */
#ifndef ENGRAM_REPORT_SPACE_COUNTS_H
#define ENGRAM_REPORT_SPACE_COUNTS_H

#include "daemon/base/config.h"
#include "daemon/base/job.h"
#include "daemon/store/space.h"

enum { SPACES_COUNTED_MAX = 256 }; /* that may have places, as metrics.spaces says */

struct space_counts {
    char name[SPACE_NAME_MAX + 1];
    uint64_t requests, errors;
    uint64_t refused; /* of the requests: for want of room, with a hint to retry */
    uint64_t refused_connections;
    uint64_t queue_ns, run_ns;
    /* Requests that a GPU ran, alone or together with the CPU; that the CPU ran although a GPU was
     * to: for whatever reason, for want of VRAM, after an error. */
    uint64_t gpu_runs, fallbacks, gpu_no_memory, gpu_errors;
};

struct spaces_counted {
    struct space_counts *rows; /* [0]: all that have no place, "other" */
    uint32_t count, max;       /* with [0] */
};

/* The spaces that the settings name have the first places. One called other has none. */
enum status space_counts_init(struct spaces_counted *t, uint32_t places, const struct config *c);
void space_counts_finish(struct spaces_counted *t);

/* Returns where space is counted; it gets a place, if it has none and there is one. */
struct space_counts *space_counts_of(struct spaces_counted *t, struct space *space);

/* Counts a request that is answered now. */
void space_counts_add(struct spaces_counted *t, const struct job *j, uint64_t answered_ns);

#endif
