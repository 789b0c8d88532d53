/* restore: what a snapshot must know and set beside contents, so that what was saved answers as
 * before: versions, and the bounds of a graph by which its sums are cut (kernels/spread.h).
 * Owner:  the store.
 * Thread: the only user of the resident; store_restore_version: the only user of the store.
 * Errors: none. */
#ifndef ENGRAM_STORE_RESTORE_H
#define ENGRAM_STORE_RESTORE_H

#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

void collection_restore(struct collection *c, uint64_t version);

struct graph_bounds graph_bounds_of(const struct graph_edition *e);
/* Bounds that are lower than the contents need stay as they are. */
void graph_restore(struct graph *g, uint64_t version, const struct graph_bounds *bounds);

/* True if e is as it was made: nobody has learned or set anything, and its weights may not be there
 * yet. */
bool attractor_is_first(const struct attractor_edition *e);
/* Makes the first weights, and the dentate matrix if there is none, on the spot. */
void attractor_make_all(struct attractor *a, const struct attractor_kernels *k);
void attractor_restore(struct attractor *a, uint64_t version, uint64_t patterns);

/* Destroys all collections, graphs and attractors of a space, which may be forgotten then. */
void store_space_empty(struct store *s, struct space *space);

/* The least `since` of all that has a hidden name; UINT64_MAX: nothing has. */
uint64_t store_hidden_since(const struct store *s);

uint64_t store_last_version(const struct store *s);
void store_restore_version(struct store *s, uint64_t version);
/* Residents of the space take their versions from there, while what they are given has others than
 * these; NULL: from the store again. Nobody writes to the space meanwhile. */
void store_count_versions(struct store *s, struct space *space, _Atomic uint64_t *versions);

#endif
