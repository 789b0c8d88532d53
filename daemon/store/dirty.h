/* dirty: which rows changed since a copy of them was last told, by blocks of about 256 KiB.
 * Owner:  a collection.
 * Thread: dirty_mark whoever writes its rows; the rest the loop, while nobody does.
 * Errors: dirty_track: false when memory is out.
 *
 * Whatever the bitmap does not reach is dirty: without one everything is, and marking costs
 * nothing, so that collections that nobody copies pay nothing. Writers never take memory. */
#ifndef ENGRAM_STORE_DIRTY_H
#define ENGRAM_STORE_DIRTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dirty {
    uint64_t *words; /* bit b: block b is dirty */
    uint64_t word_count;
    uint32_t shift; /* log2 of rows in a block, 6 at least */
};

void dirty_init(struct dirty *d, size_t row_bytes);
/* Everything is dirty; no memory is held any more. */
void dirty_forget(struct dirty *d);

/* Makes the bitmap reach `rows` rows. */
bool dirty_track(struct dirty *d, uint64_t rows);

void dirty_mark(struct dirty *d, uint64_t first, uint64_t count);

/* The first run of dirty rows below `rows` that begins at or after `from`, which is 0 or the end of
 * a run. False: there is none. */
bool dirty_next(const struct dirty *d, uint64_t from, uint64_t rows, uint64_t *first,
                uint64_t *count);
/* A run of dirty_next, or what of it ends with a block, is clean now. */
void dirty_clean(struct dirty *d, uint64_t first, uint64_t count);

/* How many of `rows` rows are dirty. */
uint64_t dirty_rows(const struct dirty *d, uint64_t rows);

#endif
