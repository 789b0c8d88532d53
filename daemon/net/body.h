/* body: reference-counted memory that request bytes were read into: a connection's receive buffer,
 * or one large body. Jobs hold it while they read from it, so nothing is copied.
 * Owner:  net's pool; everyone who holds a reference.
 * Thread: the loop.
 * Errors: as heap_take's. */
#ifndef ENGRAM_NET_BODY_H
#define ENGRAM_NET_BODY_H

#include "daemon/heap/heap.h"
#include "daemon/net/peer.h"

struct body {
    struct heap_block block;
    /* of one large body, whose pieces may become others' (heap/shared_block.h); NULL: none may */
    struct shared_block *shared;
    uint32_t holds;
    struct body_pool *pool;
    struct peer *peer; /* in whose bytes it counts; NULL: in nobody's */
    uint64_t counted;  /* bytes that may be used, of a body that has begun */
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
/* Takes one large body, of which `begun` bytes may be used until body_grow takes more. */
enum status body_begin(struct body_pool *p, uint64_t bytes, uint64_t begun, uint32_t owner,
                       struct body **out);
enum status body_grow(struct body *b, uint64_t bytes);
/* Notes that so many bytes of b may be used, and counts them in a peer. */
void body_count(struct body *b, struct peer *peer, uint64_t bytes);
static inline struct body *body_hold(struct body *b)
{
    if (b) b->holds++;
    return b;
}
/* NULL is fine. */
void body_drop(struct body *b);

#endif
