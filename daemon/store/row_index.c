#include "daemon/store/row_index.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"
#include "daemon/store/array.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/id_index.h"

enum { AHEAD = 16, YIELD_EVERY = 512 };

struct row_index {
    uint32_t *slots;   /* row + 1; 0: empty; atomic */
    size_t slot_count; /* a power of two */
    uint64_t filled;   /* slots; the writer's */
    struct row_index *next;
    struct outside outside;
};

static size_t home(const struct row_index *x, uint64_t id)
{
    return (size_t)id_index_hash(id) & (x->slot_count - 1);
}

static size_t next_slot(const struct row_index *x, size_t slot)
{
    return (slot + 1) & (x->slot_count - 1);
}

static uint32_t entry_at(const struct row_index *x, size_t slot)
{
    return __atomic_load_n(&x->slots[slot], __ATOMIC_RELAXED);
}

enum status row_index_make(struct heap *heap, uint32_t owner, uint64_t rows, struct row_index **out)
{
    struct row_index *x = fault_here("store: index") ? NULL : calloc(1, sizeof *x);
    if (!x) return STATUS_RESOURCE_EXHAUSTED;
    x->slot_count = id_index_slots(rows);
    x->outside = (struct outside){.heap = heap, .owner = owner};
    void *slots = NULL;
    enum status st =
        array_make_counted(&x->outside, x->slot_count * sizeof *x->slots, sizeof *x, &slots);
    if (st) {
        free(x);
        return st;
    }
    x->slots = slots;
    *out = x;
    return STATUS_OK;
}

void row_index_free(struct row_index *x)
{
    if (!x) return;
    array_free(x->slots, x->slot_count * sizeof *x->slots);
    outside_end(&x->outside);
    free(x);
}

void row_index_list(struct row_index *x, struct row_index **list)
{
    x->next = *list;
    *list = x;
}

void row_index_free_list(struct row_index *list)
{
    for (struct row_index *next; list; list = next) {
        next = list->next;
        row_index_free(list);
    }
}

uint64_t row_index_bytes(const struct row_index *x)
{
    return x ? x->slot_count * sizeof *x->slots : 0;
}

bool row_index_has_room(const struct row_index *x, uint64_t more)
{
    uint64_t most = x ? x->slot_count / 4 * 3 : 0;
    return x && x->filled <= most && more <= most - x->filled;
}

bool row_index_is_large(const struct row_index *x, uint64_t rows)
{
    return x && id_index_slots(rows * 2) * 2 < x->slot_count;
}

/* Searches from slot `slot`, the id's first choice, on. */
static uint32_t find_from(const struct edition *e, uint64_t rows, uint64_t id, size_t slot)
{
    const struct row_index *x = e->index;
    for (uint32_t entry; (entry = entry_at(x, slot)); slot = next_slot(x, slot))
        if (entry - 1 < rows && *id_at(e, entry - 1) == id) return entry - 1;
    return COLLECTION_NO_ROW;
}

uint32_t row_index_find(const struct edition *e, uint64_t rows, uint64_t id)
{
    return e->index ? find_from(e, rows, id, home(e->index, id)) : COLLECTION_NO_ROW;
}

/* Fetches what the entry in a slot leads to. */
static void fetch_ahead(const struct edition *e, size_t slot)
{
    uint32_t entry = entry_at(e->index, slot);
    if (entry && entry - 1 < rows_of(e)) __builtin_prefetch(id_at(e, entry - 1));
}

uint64_t row_index_find_many(const struct edition *e, const uint64_t *ids, size_t count,
                             uint32_t *rows)
{
    const struct row_index *x = e->index;
    uint64_t found = 0, all = rows_of(e);
    size_t homes[AHEAD];
    for (size_t first = 0; first < count; first += AHEAD) {
        size_t n = count - first < AHEAD ? count - first : AHEAD;
        for (size_t i = 0; i < n && x; i++) {
            homes[i] = home(x, ids[first + i]);
            __builtin_prefetch(&x->slots[homes[i]]);
        }
        for (size_t i = 0; i < n && x; i++)
            fetch_ahead(e, homes[i]);
        for (size_t i = 0; i < n; i++) {
            uint32_t row = x ? find_from(e, all, ids[first + i], homes[i]) : COLLECTION_NO_ROW;
            rows[first + i] = row;
            found += row != COLLECTION_NO_ROW;
        }
    }
    return found;
}

/* An entry of this row on the way from the id's first choice is found from there: it serves. */
static void add_at(struct row_index *x, size_t slot, uint32_t row)
{
    for (uint32_t entry; (entry = entry_at(x, slot)); slot = next_slot(x, slot))
        if (entry == row + 1) return;
    __atomic_store_n(&x->slots[slot], row + 1, __ATOMIC_RELAXED);
    x->filled++;
}

void row_index_add(struct row_index *x, uint64_t id, uint32_t row)
{
    add_at(x, home(x, id), row);
}

void row_index_add_rows(struct row_index *x, const struct edition *e, uint64_t first,
                        uint64_t count)
{
    size_t homes[AHEAD];
    for (uint64_t done = 0; done < count; done += AHEAD) {
        if (done % YIELD_EVERY == 0) yield_check();
        size_t n = count - done < AHEAD ? count - done : AHEAD;
        for (size_t i = 0; i < n; i++) {
            homes[i] = home(x, *id_at(e, first + done + i));
            __builtin_prefetch(&x->slots[homes[i]], 1);
        }
        for (size_t i = 0; i < n; i++)
            add_at(x, homes[i], (uint32_t)(first + done + i));
    }
}
