/* memory_history: the daemon's pools of memory as they are, and as they were at the last looks.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. Kept are the last 4,096 pools: a look has one, and two for each card. */
#ifndef ENGRAM_REPORT_MEMORY_HISTORY_H
#define ENGRAM_REPORT_MEMORY_HISTORY_H

#include "daemon/report/sources.h"
#include "daemon/wire/encode.h"

enum { POOLS_KEPT = 4096, POOLS_A_LOOK_MAX = 1 + 2 * WIRE_GPUS_MAX };

struct memory_history {
    struct wire_pool kept[POOLS_KEPT]; /* number n of all at (n - 1) % POOLS_KEPT */
    uint64_t count, looks;
    uint64_t next_ns; /* when to look again */
};

/* Describes the pools as they are; returns how many there are. */
size_t memory_pools(const struct report_sources *from, struct wire_pool out[POOLS_A_LOOK_MAX]);

/* Looks; the next time is gap_ns later. */
void memory_history_keep(struct memory_history *h, const struct report_sources *from,
                         uint64_t gap_ns);
/* Writes a page of looks with number < before; 0: from now on. */
void memory_history_page(const struct memory_history *h, const struct report_sources *from,
                         uint64_t before, struct wire_pools *out);

#endif
