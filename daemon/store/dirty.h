/* dirty: which rows changed since they were last copied, by blocks of about 256 KiB.
 * Owner:  a collection or graph.
 * Thread: dirty_mark: whoever writes the rows; the rest: the loop, while nobody writes.
 * Errors: dirty_track: false when memory runs out.
 *
 * Rows beyond the end of the bitmap are dirty. Without a bitmap every row is, and marking costs
 * nothing, so collections without a replica pay nothing. Writers never take memory. */
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
/* Makes every row dirty and frees the bitmap. */
void dirty_forget(struct dirty *d);

/* Grows the bitmap so that it covers `rows` rows. */
bool dirty_track(struct dirty *d, uint64_t rows);

/* Grows a bitmap that says which rows changed, and not which are left: new blocks are clean. */
bool dirty_cover(struct dirty *d, uint64_t rows);
/* Marks what is dirty in `more`, whose blocks are as large. */
void dirty_merge(struct dirty *d, const struct dirty *more);

void dirty_mark(struct dirty *d, uint64_t first, uint64_t count);

/* Finds the first run of dirty rows below `rows` that begins at or after `from`, which is 0 or the
 * end of a run. False: no row from there on is dirty. */
bool dirty_next(const struct dirty *d, uint64_t from, uint64_t rows, uint64_t *first,
                uint64_t *count);
/* Marks a run that dirty_next gave as clean, or a beginning of it that ends with a block. */
void dirty_clean(struct dirty *d, uint64_t first, uint64_t count);

/* Returns how many of the first `rows` rows are dirty. */
uint64_t dirty_rows(const struct dirty *d, uint64_t rows);

#endif
