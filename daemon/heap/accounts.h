/* accounts: bytes by owner, and each owner's quota. Only owners with bytes or a quota are listed.
 * Owner:  the heap.
 * Thread: one at a time (the heap's lock).
 * Errors: account_make: NULL, no memory; nothing changes then. */
#ifndef ENGRAM_HEAP_ACCOUNTS_H
#define ENGRAM_HEAP_ACCOUNTS_H

#include <stdint.h>

struct account {
    uint32_t owner; /* 0: this place is empty */
    uint64_t bytes_used;
    uint64_t bytes_max;  /* 0: unlimited */
    uint64_t bytes_lent; /* that it may have beyond */
};

/* A table with open addressing, at most half full. All zero bytes are a valid, empty table. */
struct accounts {
    struct account *table;
    uint64_t places, count; /* places: a power of two, or 0 */
};

void accounts_finish(struct accounts *a);

/* Pointers stay valid until the next account_make or account_settle. owner: not 0. O(1). */
struct account *account_find(const struct accounts *a, uint32_t owner);
struct account *account_make(struct accounts *a, uint32_t owner);

/* Removes an account that has neither bytes nor a quota, and is lent nothing. */
void account_settle(struct accounts *a, struct account *account);

#endif
