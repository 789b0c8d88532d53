/* radix: sorts items by a 64-bit key, stable, in time that depends only on their number.
 * Owner:  the caller's arrays.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_OPS_RADIX_H
#define ENGRAM_OPS_RADIX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct radix_item {
    uint64_t key;
    uint32_t value;
};

/* Returns which of the two arrays, of count items each, holds the sorted items. */
struct radix_item *radix_sort(struct radix_item *items, struct radix_item *room, uint64_t count);
/* The same, of many items: once *stop is true, they come back in some order. */
struct radix_item *radix_sort_until(struct radix_item *items, struct radix_item *room,
                                    uint64_t count, const atomic_bool *stop);

#endif
