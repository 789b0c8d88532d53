/* space_inside: the struct of the store, for the files of daemon/store only.
 * Owner:  the store.
 * Thread: the loop.
 * Errors: as each function says. */
#ifndef ENGRAM_STORE_SPACE_INSIDE_H
#define ENGRAM_STORE_SPACE_INSIDE_H

#include "daemon/heap/outside.h"
#include "daemon/store/space.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* A space and its place in the table of names. */
struct entry {
    struct space space; /* first, so that a space can be cast to its entry */
    UT_hash_handle hh;
    struct outside outside;
};

struct store {
    struct heap *heap;
    const struct vector_kernels *kernels;
    struct entry *by_name;
    struct space *spaces;
    uint32_t number_last;
    _Atomic uint64_t versions; /* how many versions residents have had, all together */
    uint64_t residents_named;  /* how many names residents ever got, all together */
    atomic_bool calm;
    uint64_t collections_max; /* of one space, graphs and attractors included */
    void (*forget)(void *owner, struct space *space);
    void *forget_owner;
    struct shadows *shadows; /* of all collections */
};

/* How many collections, graphs and attractors the space has. */
static inline uint64_t space_resident_count(const struct space *s)
{
    return s->collection_count + s->graph_count + s->attractor_count;
}

/* Whether the space may have one more collection, graph or attractor:
 * RESOURCE_EXHAUSTED/TOO_MANY_COLLECTIONS. */
enum status store_check_room(const struct store *s, const struct space *space, struct failure *f);

#endif
