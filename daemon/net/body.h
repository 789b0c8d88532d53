/* body: reference-counted memory that request bytes were read into: a connection's receive buffer,
 * or one large body. Jobs hold it while they read from it, so nothing is copied.
 * Owner:  net's pool; everyone who holds a reference.
 * Thread: the loop.
 * Errors: as heap_take's. */
#ifndef ENGRAM_NET_BODY_H
#define ENGRAM_NET_BODY_H

#include "daemon/heap/heap.h"

struct body {
    struct heap_block block;
    uint32_t holds;
    struct body_pool *pool;
    struct body *next; /* the next in the pool's list of free structs */
};

struct body_pool {
    struct heap *heap;
    struct body *free;
    uint64_t live; /* bodies that have a block */
};

void body_pool_init(struct body_pool *p, struct heap *heap);
/* Every body must have been dropped before. */
void body_pool_finish(struct body_pool *p);

/* Takes a body of at least `bytes`, with one reference. */
enum status body_take(struct body_pool *p, uint64_t bytes, uint32_t owner, struct body **out);
/* As body_take, but past the owner's quota: so that a client at its quota can still be heard. */
enum status body_take_past_quota(struct body_pool *p, uint64_t bytes, uint32_t owner,
                                 struct body **out);
static inline struct body *body_hold(struct body *b)
{
    if (b) b->holds++;
    return b;
}
/* NULL is fine. */
void body_drop(struct body *b);

#endif
