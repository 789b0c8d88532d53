#include "daemon/heap/accounts.h"

#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/fault.h"

enum { PLACES_MIN = 64 };

void accounts_finish(struct accounts *a)
{
    free(a->table);
    *a = (struct accounts){0};
}

/* Owners are numbered consecutively; multiplying by the golden ratio spreads them over the
 * table. */
static uint64_t place_of(const struct accounts *a, uint32_t owner)
{
    return (owner * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (a->places - 1);
}

/* Returns the place of the owner's account, or the empty place where it would go; one always
 * exists. */
static struct account *place(const struct accounts *a, uint32_t owner)
{
    uint64_t i = place_of(a, owner);
    while (a->table[i].owner && a->table[i].owner != owner)
        i = (i + 1) & (a->places - 1);
    return &a->table[i];
}

struct account *account_find(const struct accounts *a, uint32_t owner)
{
    if (!a->places) return NULL;
    struct account *found = place(a, owner);
    return found->owner ? found : NULL;
}

static bool grow(struct accounts *a)
{
    struct accounts larger = {.places = a->places ? a->places * 2 : PLACES_MIN, .count = a->count};
    larger.table =
        fault_here("heap: accounts") ? NULL : calloc(larger.places, sizeof *larger.table);
    if (!larger.table) return false;
    for (uint64_t i = 0; i < a->places; i++)
        if (a->table[i].owner) *place(&larger, a->table[i].owner) = a->table[i];
    free(a->table);
    *a = larger;
    return true;
}

struct account *account_make(struct accounts *a, uint32_t owner)
{
    struct account *found = account_find(a, owner);
    if (found) return found;
    if ((a->count + 1) * 2 > a->places && !grow(a)) return NULL;
    found = place(a, owner);
    found->owner = owner;
    a->count++;
    return found;
}

void account_settle(struct accounts *a, struct account *account)
{
    if (account->bytes_used || account->bytes_max || account->bytes_lent) return;
    uint64_t mask = a->places - 1, hole = (uint64_t)(account - a->table);
    /* Moves up the accounts behind the hole that a search could no longer reach. */
    for (uint64_t i = (hole + 1) & mask; a->table[i].owner; i = (i + 1) & mask) {
        uint64_t home = place_of(a, a->table[i].owner);
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        a->table[hole] = a->table[i];
        hole = i;
    }
    a->table[hole] = (struct account){0};
    a->count--;
}
