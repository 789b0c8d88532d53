#include "daemon/store/node_index.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"
#include "daemon/store/array.h"
#include "daemon/store/id_index.h"

enum { AHEAD = 16, YIELD_EVERY = 512 };
#define NOBODY UINT64_MAX

struct node_index {
    uint32_t *slots;   /* node + 1; 0: empty; atomic */
    size_t slot_count; /* a power of two */
    uint64_t filled;   /* slots; the writer's */
    struct node_index *next;
    struct outside outside;
};

static size_t home(const struct node_index *x, uint64_t id)
{
    return (size_t)id_index_hash(id) & (x->slot_count - 1);
}

static size_t next_slot(const struct node_index *x, size_t slot)
{
    return (slot + 1) & (x->slot_count - 1);
}

static uint32_t entry_at(const struct node_index *x, size_t slot)
{
    return __atomic_load_n(&x->slots[slot], __ATOMIC_RELAXED);
}

enum status node_index_make(struct heap *heap, uint32_t owner, uint64_t nodes,
                            struct node_index **out)
{
    struct node_index *x = fault_here("store: index") ? NULL : calloc(1, sizeof *x);
    if (!x) return STATUS_RESOURCE_EXHAUSTED;
    x->slot_count = id_index_slots(nodes);
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

void node_index_free(struct node_index *x)
{
    if (!x) return;
    array_free(x->slots, x->slot_count * sizeof *x->slots);
    outside_end(&x->outside);
    free(x);
}

struct node_index *node_index_list(struct node_index *x, struct node_index *list)
{
    x->next = list;
    return x;
}

void node_index_free_list(struct node_index *list)
{
    for (struct node_index *next; list; list = next) {
        next = list->next;
        node_index_free(list);
    }
}

uint64_t node_index_bytes(const struct node_index *x)
{
    return x ? x->slot_count * sizeof *x->slots : 0;
}

bool node_index_has_room(const struct node_index *x, uint64_t more)
{
    uint64_t most = x ? x->slot_count / 4 * 3 : 0;
    return x && x->filled <= most && more <= most - x->filled;
}

bool node_index_is_large(const struct node_index *x, uint64_t nodes)
{
    return x && id_index_slots(nodes * 2) * 2 < x->slot_count;
}

/* Searches from slot `slot`, the id's first choice, on. */
static uint32_t find_from(const struct node_index *x, const uint64_t *ids, uint32_t numbers,
                          uint64_t id, size_t slot)
{
    for (uint32_t entry; (entry = entry_at(x, slot)); slot = next_slot(x, slot))
        if (entry - 1 < numbers && ids[entry - 1] == id)
            return id == NOBODY ? NODE_INDEX_NONE : entry - 1;
    return NODE_INDEX_NONE;
}

uint32_t node_index_find(const struct node_index *x, const uint64_t *ids, uint32_t numbers,
                         uint64_t id)
{
    return x ? find_from(x, ids, numbers, id, home(x, id)) : NODE_INDEX_NONE;
}

/* Fetches what the entry in a slot leads to. */
static void fetch_ahead(const struct node_index *x, const uint64_t *ids, uint32_t numbers,
                        size_t slot)
{
    uint32_t entry = entry_at(x, slot);
    if (entry && entry - 1 < numbers) __builtin_prefetch(&ids[entry - 1]);
}

uint64_t node_index_find_many(const struct node_index *x, const uint64_t *ids, uint32_t numbers,
                              const uint64_t *wanted, size_t count, uint32_t *nodes)
{
    uint64_t found = 0;
    size_t homes[AHEAD];
    for (size_t first = 0; first < count; first += AHEAD) {
        size_t n = count - first < AHEAD ? count - first : AHEAD;
        const uint64_t *some = wanted + first;
        for (size_t i = 0; i < n && x; i++) {
            homes[i] = home(x, some[i]);
            __builtin_prefetch(&x->slots[homes[i]]);
        }
        for (size_t i = 0; i < n && x; i++)
            fetch_ahead(x, ids, numbers, homes[i]);
        for (size_t i = 0; i < n; i++) {
            uint32_t node = x ? find_from(x, ids, numbers, some[i], homes[i]) : NODE_INDEX_NONE;
            nodes[first + i] = node;
            found += node != NODE_INDEX_NONE;
        }
    }
    return found;
}

/* An entry of this node on the way from the id's first choice is found from there: it serves. */
static void add_at(struct node_index *x, size_t slot, uint32_t node)
{
    for (uint32_t entry; (entry = entry_at(x, slot)); slot = next_slot(x, slot))
        if (entry == node + 1) return;
    __atomic_store_n(&x->slots[slot], node + 1, __ATOMIC_RELAXED);
    x->filled++;
}

void node_index_add(struct node_index *x, uint64_t id, uint32_t node)
{
    add_at(x, home(x, id), node);
}

void node_index_add_all(struct node_index *x, const uint64_t *ids, uint32_t numbers)
{
    size_t homes[AHEAD];
    for (uint32_t done = 0; done < numbers; done += AHEAD) {
        uint32_t n = numbers - done < AHEAD ? numbers - done : AHEAD;
        if (done % YIELD_EVERY == 0) yield_check();
        for (uint32_t i = 0; i < n; i++) {
            homes[i] = home(x, ids[done + i]);
            __builtin_prefetch(&x->slots[homes[i]], 1);
        }
        for (uint32_t i = 0; i < n; i++)
            if (ids[done + i] != NOBODY) add_at(x, homes[i], done + i);
    }
}

void node_index_renumber(struct node_index *x, const uint32_t *map, uint32_t numbers)
{
    for (size_t slot = 0; x && slot < x->slot_count; slot++) {
        uint32_t entry = x->slots[slot];
        if (slot % YIELD_EVERY == 0) yield_check();
        if (entry && entry - 1 < numbers) x->slots[slot] = map[entry - 1] + 1;
    }
}
