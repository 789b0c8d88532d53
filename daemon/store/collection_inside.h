/* collection_inside: the struct of a collection, for the files of daemon/store only.
 * Owner:  the store.
 * Thread: as collection.h says.
 * Errors: none. */
#ifndef ENGRAM_STORE_COLLECTION_INSIDE_H
#define ENGRAM_STORE_COLLECTION_INSIDE_H

#include <stdatomic.h>

#include "daemon/store/collection.h"
#include "daemon/store/dirty.h"
#include "daemon/store/id_index.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct collection {
    /* first, so that a resident of this kind can be cast to its collection */
    struct resident resident;
    struct heap *heap;
    const struct vector_kernels *kernels;
    uint32_t dimension;
    enum metric metric;
    size_t stride;          /* floats from row to row */
    uint32_t segment_shift; /* log2 of rows per segment */

    /* These two are atomic because the loop may read them while a writer works. */
    _Atomic uint64_t rows;
    _Atomic uint64_t index_bytes;

    /* Segment i holds rows [i << shift, (i + 1) << shift). The block of the first segment may be
     * shorter while it is the only one. */
    struct heap_block *segments;
    size_t segment_count, segment_capacity;

    uint64_t *ids;
    float *norms;
    uint64_t id_capacity, norm_capacity;
    uint64_t id_bound; /* the largest id that was ever here, or a larger one */
    struct id_index index;

    struct dirty dirty; /* rows that changed since they were last copied to the replica */

    UT_hash_handle hh; /* in the space's table of collections */
};

enum status collection_create(struct heap *heap, const struct vector_kernels *kernels,
                              struct space *space, const char *name, uint32_t dimension,
                              enum metric metric, struct collection **out);

/* Makes memory for `rows` rows in all: segments, ids, norms and index. After a failure, some of it
 * may have been taken; collection_fit gives it back. */
enum status collection_reserve(struct collection *c, uint64_t rows);
/* Gives back memory that the present rows do not need. One spare segment may stay. */
void collection_fit(struct collection *c);

static inline uint64_t rows_of(const struct collection *c)
{
    return atomic_load_explicit(&c->rows, memory_order_relaxed);
}

static inline float *row_at(const struct collection *c, uint64_t row)
{
    float *segment = c->segments[row >> c->segment_shift].data;
    return segment + (row & ((UINT64_C(1) << c->segment_shift) - 1)) * c->stride;
}

/* Sets the row count and the other values that the loop reads; called after a change. */
static inline void collection_publish(struct collection *c, uint64_t rows)
{
    uint64_t before = rows_of(c);
    __atomic_add_fetch(&c->resident.space->row_count, rows - before, __ATOMIC_RELAXED);
    atomic_store_explicit(&c->rows, rows, memory_order_relaxed);
    resident_change(&c->resident);
}

#endif
