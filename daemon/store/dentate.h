/* dentate: the dentate matrices of a space, one for each dimension that an attractor of it has:
 * 10 d rows of d numbers (kernels/attractor.h), padded to vector_stride(d). They are made with the
 * first attractor and given back with the last.
 * Owner:  the space; attractors count as users.
 * Thread: the loop; rows are made once, in parts on any thread, and then only read.
 * Errors: dentate_take: RESOURCE_EXHAUSTED (MEMORY, QUOTA). */
#ifndef ENGRAM_STORE_DENTATE_H
#define ENGRAM_STORE_DENTATE_H

#include "daemon/store/space.h"
#include "kernels/attractor.h"

struct dentate {
    uint32_t dimension;
    uint32_t users;
    const struct job *maker; /* the loop: who makes it; NULL: nobody */
    bool made;               /* all rows are there */
    struct heap_block block;
    struct dentate *next;
};

/* Finds or takes the memory, and counts one more user. */
enum status dentate_take(struct heap *heap, struct space *space, uint32_t dimension,
                         struct failure *f, struct dentate **out);
/* NULL is fine. */
void dentate_give(struct heap *heap, struct space *space, struct dentate *d);

static inline uint64_t dentate_rows(const struct dentate *d)
{
    return (uint64_t)ATTRACTOR_SPREAD * d->dimension;
}
static inline uint64_t dentate_bytes(uint32_t dimension)
{
    return (uint64_t)ATTRACTOR_SPREAD * dimension * vector_stride(dimension) * sizeof(float);
}
/* Rows [first, first + count). */
void dentate_make(struct dentate *d, const struct attractor_kernels *k, uint64_t first,
                  uint64_t count);

#endif
