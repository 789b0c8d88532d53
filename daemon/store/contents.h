/* contents: what a space holds: each collection, graph and attractor with what it needs of the
 * host's memory and what it takes, in the order in which they got their names.
 * Owner:  the store.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_STORE_CONTENTS_H
#define ENGRAM_STORE_CONTENTS_H

#include "daemon/store/resident.h"

struct content {
    const struct resident *resident;
    /* needed: rows with their ids and norms, nodes and edges, weights; and indexes as they are.
     * taken: with padding, room for more, spare places, holes and whole pages. What only readers of
     * older versions still see is in neither. */
    uint64_t needed_bytes, taken_bytes;
    uint64_t shared_bytes; /* besides, of the matrix that attractors of a dimension share */
};

/* Writes those with number > after, at most max; returns how many. *more: others follow. */
size_t store_contents(const struct space *space, uint64_t after, struct content *out, size_t max,
                      bool *more);

#endif
