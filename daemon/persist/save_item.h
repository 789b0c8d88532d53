/* save_item: an object that is saved, as one of its editions has it.
 * Owner:  the caller. Thread: any; no state. Errors: none. */
#ifndef ENGRAM_PERSIST_SAVE_ITEM_H
#define ENGRAM_PERSIST_SAVE_ITEM_H

#include "daemon/persist/manifest.h"

struct save_item {
    struct snapshot_object object;
    const struct edition *collection; /* one of the three */
    const struct graph_edition *graph;
    const struct attractor_edition *attractor;
};

#endif
