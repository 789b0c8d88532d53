/* body: counted memory that request bytes were read into: a connection's receive buffer, or one
 * large body. Jobs hold it while they read from it, so nothing is copied.
 * Owner:  net's pool; whoever holds a count.
 * Thread: the loop.
 * Errors: as heap_take's. */
#ifndef ENGRAM_NET_BODY_H
#define ENGRAM_NET_BODY_H

#include "daemon/heap/heap.h"

struct body {
    struct heap_block block;
    uint32_t holds;
    struct body_pool *pool;
    struct body *next; /* in the pool's list of free descriptors */
};

struct body_pool {
    struct heap *heap;
    struct body *free;
    uint64_t live; /* bodies with a block */
};

void body_pool_init(struct body_pool *p, struct heap *heap);
/* Every body must have been dropped. */
void body_pool_finish(struct body_pool *p);

/* A body of at least bytes, held once. */
enum status body_take(struct body_pool *p, uint64_t bytes, uint32_t owner, struct body **out);
/* The same, whatever the owner's quota: for a client that could not be heard otherwise. */
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
