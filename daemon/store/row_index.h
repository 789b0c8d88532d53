/* row_index: id -> row, for the editions of a collection together. Open addressing over u32 slots,
 * linear probing, at most three quarters full. Entries are only ever added: one is right for an
 * edition if the edition's row has that id, and is passed over otherwise, so readers of older
 * editions find their rows while a writer adds entries of its own. A deleted row's entry is left;
 * the index is made anew when entries have filled it.
 * Owner:  the editions that use it.
 * Thread: any number of readers and one writer at once.
 * Errors: row_index_make: RESOURCE_EXHAUSTED; PERMISSION_DENIED, the owner's quota. */
#ifndef ENGRAM_STORE_ROW_INDEX_H
#define ENGRAM_STORE_ROW_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/heap/outside.h"

struct edition;
struct row_index;

/* Makes an index for `rows` rows at least. */
enum status row_index_make(struct heap *heap, uint32_t owner, uint64_t rows,
                           struct row_index **out);
void row_index_free(struct row_index *x);
/* Puts x, which nobody uses any more, into a list of such; frees a list. */
void row_index_list(struct row_index *x, struct row_index **list);
void row_index_free_list(struct row_index *list);

uint64_t row_index_bytes(const struct row_index *x);
/* x: NULL has no room. */
bool row_index_has_room(const struct row_index *x, uint64_t more);
/* True if an index of so many rows should be made anew, much smaller. */
bool row_index_is_large(const struct row_index *x, uint64_t rows);

/* Looks among the edition's first `rows` rows: the row, or COLLECTION_NO_ROW. */
uint32_t row_index_find(const struct edition *e, uint64_t rows, uint64_t id);
/* Among all. Returns how many were found. */
uint64_t row_index_find_many(const struct edition *e, const uint64_t *ids, size_t count,
                             uint32_t *rows);

/* The writer adds a row of that id, or rows of an edition with the ids that they have there; there
 * must be room. */
void row_index_add(struct row_index *x, uint64_t id, uint32_t row);
void row_index_add_rows(struct row_index *x, const struct edition *e, uint64_t first,
                        uint64_t count);

#endif
