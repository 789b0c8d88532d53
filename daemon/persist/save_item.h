/* save_item: an object that is saved, as one of its editions has it, and how far a save is.
 * Owner:  the caller. Thread: any; no state, but the meter's, which is atomic. Errors: none. */
#ifndef ENGRAM_PERSIST_SAVE_ITEM_H
#define ENGRAM_PERSIST_SAVE_ITEM_H

#include <stdatomic.h>

#include "daemon/persist/manifest.h"

struct save_item {
    struct snapshot_object object;
    struct resident *resident;        /* for the loop, which alone follows it */
    const struct edition *collection; /* one of the three */
    const struct graph_edition *graph;
    const struct attractor_edition *attractor;
    bool linked;            /* its files are those of the last snapshot */
    uint32_t files_written; /* of the others */
};

struct save_meter {
    atomic_ullong done_bytes, all_bytes, linked_bytes;
    atomic_ullong objects;  /* the first ones, which no writer looks at any more */
    atomic_bool stop;       /* nobody wants it any more: it ends as CANCELLED */
    atomic_bool failed;     /* one of its threads has failed: the others end */
    atomic_ullong rate;     /* bytes a second at most; 0: unlimited */
    atomic_ullong paced_ns; /* the writers': when what was written so far should be */
};

#endif
