/* shared_block: a block whose pieces belong to several: the body of a request, parts of which
 * become rows of a collection where they lie. Pages of a piece that is given up go back to the
 * system, and the block with whoever holds it last.
 * Owner:  everyone who holds it; at first whoever made it, until shared_block_end.
 * Thread: any; shared_block_lend and _end: the first holder's.
 * Errors: shared_block_make: NULL, no memory. */
#ifndef ENGRAM_HEAP_SHARED_BLOCK_H
#define ENGRAM_HEAP_SHARED_BLOCK_H

#include "daemon/heap/heap.h"

struct heap_told;
struct shared_block;

/* Makes b, a block in use, one that can be shared. The caller holds it and goes on using *b. */
struct shared_block *shared_block_make(struct heap *h, const struct heap_block *b);

/* Says that pieces of it shall be held. False: shared blocks take up so many addresses already that
 * no further one may: a block has the addresses of all its pieces while one is held. */
bool shared_block_lend(struct shared_block *s);
/* Holds a piece, until shared_block_give. */
void shared_block_hold(struct shared_block *s);

/* Whoever made it does not need it any more; *b is the block as it is now, and is cleared. */
void shared_block_end(struct shared_block *s, struct heap_block *b);

/* Its block, for another process. */
void shared_block_tell(const struct shared_block *s, struct heap_told *out);

/* Says that a piece is about to be given up: what is said of all pieces before the first is given
 * up is given back as one block, which can be used again. */
void shared_block_expect(struct shared_block *s);
/* True if that was said of all pieces: to give them up takes no time. */
bool shared_block_is_expected(const struct shared_block *s);
/* Gives up a piece of which that was said. Its pages are gone at once if others still hold some and
 * whoever made the block has ended. */
void shared_block_give(struct shared_block *s, void *data, uint64_t bytes);

#endif
