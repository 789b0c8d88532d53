/* id_index: id -> row, for rows whose ids lie in an array beside it. Open addressing over u32
 * slots, linear probing, at most three quarters full; nothing is ever removed. The array of ids is
 * authoritative and is passed to every call.
 * Owner:  the caller, for a set of ids.
 * Thread: one writer or many readers.
 * Errors: only id_index_reserve can fail; the index then still answers as before.
 *
 * The hash is XXH3 with a seed drawn at start, so that nobody can choose ids that collide. */
#ifndef ENGRAM_STORE_ID_INDEX_H
#define ENGRAM_STORE_ID_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ID_INDEX_NONE UINT32_MAX

struct id_index {
    uint32_t *slots;   /* row + 1; 0: empty */
    size_t slot_count; /* a power of two, or 0 */
    bool borrowed;     /* the slots are the caller's memory */
};

/* The hash of an id: of every index here. */
uint64_t id_index_hash(uint64_t id);

/* Returns how many slots an index of count rows needs. */
size_t id_index_slots(uint64_t count);

/* Makes an index in memory of the caller (slot_count from id_index_slots, cleared here); it never
 * grows. */
void id_index_borrow(struct id_index *x, uint32_t *slots, size_t slot_count);

/* Makes room for `future` rows in use; rows [0, present) are indexed already. Grows in place,
 * without a second table beside the old one. */
bool id_index_reserve(struct id_index *x, const uint64_t *ids, uint64_t present, uint64_t future);
void id_index_finish(struct id_index *x);

uint32_t id_index_find(const struct id_index *x, const uint64_t *ids, uint64_t id);
/* ids[row] must not be indexed yet, and room for it must be reserved. */
void id_index_insert(struct id_index *x, const uint64_t *ids, uint32_t row);

#endif
