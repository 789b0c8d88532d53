/* attractor_inside: the structs of an attractor, for the files of daemon/store only.
 * Owner:  its space.
 * Thread: as attractor.h says.
 * Errors: none. */
#ifndef ENGRAM_STORE_ATTRACTOR_INSIDE_H
#define ENGRAM_STORE_ATTRACTOR_INSIDE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "daemon/heap/outside.h"
#include "daemon/store/attractor.h"
#include "daemon/store/dentate.h"
#include "daemon/store/gate.h"

struct attractor_edition {
    struct attractor *of;
    struct gate gate;
    _Atomic uint64_t version; /* the loop may renumber it while it is read */
    uint64_t patterns;
    bool first; /* as it was made */
    struct heap_block block;
    struct attractor_edition *next; /* in a list of those that are gone */
};

struct attractor {
    struct resident resident; /* first, so that a resident can be cast to its attractor */
    UT_hash_handle hh;
    struct heap *heap;
    uint32_t dimension;
    float sparsity, rate;
    bool weights_dirty, dentate_dirty; /* to a copy of it elsewhere */
    bool open;
    struct dentate *dentate;
    struct attractor_edition *now;
    struct attractor_edition *written; /* by the writer that is in; NULL: nothing yet */
    struct attractor_edition *gone;
    struct outside outside; /* this struct, and what belongs to an empty one */
};

static inline uint64_t attractor_block_bytes(uint32_t dimension)
{
    return (uint64_t)dimension * vector_stride(dimension) * sizeof(float);
}

/* weights: a block that is there already, the attractor's if all goes well (store/adopt.h); NULL: a
 * new one. RESOURCE_EXHAUSTED (MEMORY, QUOTA), with a retry hint if readers of old editions hold
 * some. */
enum status attractor_edition_create(struct attractor *a, const struct heap_block *weights,
                                     struct failure *f, struct attractor_edition **out);
void attractor_edition_destroy(struct heap *heap, struct attractor_edition *e);
enum status attractor_create(struct heap *heap, struct space *space, const char *name,
                             const struct attractor_shape *shape, const struct heap_block *weights,
                             struct failure *f, struct attractor **out);
/* As store_attractor_create, with such weights. */
enum status store_attractor_make(struct store *s, struct space *space, const char *name,
                                 const struct attractor_shape *shape,
                                 const struct heap_block *weights, struct failure *f,
                                 struct attractor **out);

#endif
