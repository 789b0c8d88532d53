#include "daemon/store/id_index.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/base/yield.h"
#include "daemon/store/array.h"

enum { SLOTS_MIN = 64, AHEAD = 16, YIELD_EVERY = 4096 };

static uint64_t seed;
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void draw_seed(void)
{
    if (getrandom(&seed, sizeof seed, 0) == sizeof seed) return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    seed = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uintptr_t)&now;
}

uint64_t id_index_hash(uint64_t id)
{
    pthread_once(&seed_once, draw_seed);
    return XXH3_64bits_withSeed(&id, sizeof id, seed);
}

static size_t home(const struct id_index *x, uint64_t id)
{
    return (size_t)XXH3_64bits_withSeed(&id, sizeof id, seed) & (x->slot_count - 1);
}

static size_t next_slot(const struct id_index *x, size_t slot)
{
    return (slot + 1) & (x->slot_count - 1);
}

size_t id_index_slots(uint64_t count)
{
    size_t slots = SLOTS_MIN;
    while (slots / 4 * 3 < count)
        slots *= 2;
    return slots;
}

void id_index_borrow(struct id_index *x, uint32_t *slots, size_t slot_count)
{
    pthread_once(&seed_once, draw_seed);
    *x = (struct id_index){.slots = slots, .slot_count = slot_count, .borrowed = true};
    yield_clear(slots, slot_count * sizeof *slots);
}

static void rebuild(struct id_index *x, const uint64_t *ids, uint64_t present)
{
    yield_clear(x->slots, x->slot_count * sizeof *x->slots);
    id_index_insert_many(x, ids, 0, present);
}

bool id_index_reserve(struct id_index *x, const uint64_t *ids, uint64_t present, uint64_t future)
{
    size_t want = id_index_slots(future);
    if (want <= x->slot_count) return true;
    if (x->borrowed) return false;
    pthread_once(&seed_once, draw_seed);
    uint32_t *slots = array_resize(x->slots, x->slot_count * sizeof *slots, want * sizeof *slots);
    if (!slots) return false;
    /* The added part is zero already; clearing it again would only touch its pages. */
    yield_clear(slots, x->slot_count * sizeof *slots);
    x->slots = slots;
    x->slot_count = want;
    id_index_insert_many(x, ids, 0, present);
    return true;
}

void id_index_shrink(struct id_index *x, const uint64_t *ids, uint64_t present)
{
    size_t want = id_index_slots(present * 2);
    if (present == 0) {
        id_index_finish(x);
    } else if (want * 2 < x->slot_count) {
        uint32_t *slots =
            array_resize(x->slots, x->slot_count * sizeof *slots, want * sizeof *slots);
        if (!slots) return;
        x->slots = slots;
        x->slot_count = want;
        rebuild(x, ids, present);
    }
}

void id_index_finish(struct id_index *x)
{
    if (!x->borrowed) array_free(x->slots, x->slot_count * sizeof *x->slots);
    *x = (struct id_index){0};
}

/* Searches from slot `slot`, the id's first choice, on. */
static uint32_t find_from(const struct id_index *x, const uint64_t *ids, uint64_t id, size_t slot)
{
    for (; x->slots[slot]; slot = next_slot(x, slot)) {
        uint32_t row = x->slots[slot] - 1;
        if (ids[row] == id) return row;
    }
    return ID_INDEX_NONE;
}

uint32_t id_index_find(const struct id_index *x, const uint64_t *ids, uint64_t id)
{
    return x->slot_count ? find_from(x, ids, id, home(x, id)) : ID_INDEX_NONE;
}

uint64_t id_index_find_many(const struct id_index *x, const uint64_t *ids, const uint64_t *wanted,
                            size_t count, uint32_t *rows)
{
    uint64_t found = 0;
    size_t homes[AHEAD];
    for (size_t first = 0; first < count; first += AHEAD) {
        if (first % YIELD_EVERY == 0) yield_check();
        size_t n = count - first < AHEAD ? count - first : AHEAD;
        const uint64_t *some = wanted + first;
        for (size_t i = 0; i < n && x->slot_count; i++) {
            homes[i] = home(x, some[i]);
            __builtin_prefetch(&x->slots[homes[i]]);
        }
        for (size_t i = 0; i < n && x->slot_count; i++)
            if (x->slots[homes[i]]) __builtin_prefetch(&ids[x->slots[homes[i]] - 1]);
        for (size_t i = 0; i < n; i++) {
            uint32_t row = x->slot_count ? find_from(x, ids, some[i], homes[i]) : ID_INDEX_NONE;
            rows[first + i] = row;
            found += row != ID_INDEX_NONE;
        }
    }
    return found;
}

static void insert_at(struct id_index *x, size_t slot, uint32_t row)
{
    while (x->slots[slot])
        slot = next_slot(x, slot);
    x->slots[slot] = row + 1;
}

void id_index_insert(struct id_index *x, const uint64_t *ids, uint32_t row)
{
    insert_at(x, home(x, ids[row]), row);
}

void id_index_insert_many(struct id_index *x, const uint64_t *ids, uint32_t first, uint64_t count)
{
    size_t homes[AHEAD];
    for (uint64_t done = 0; done < count; done += AHEAD) {
        if (done % YIELD_EVERY == 0) yield_check();
        size_t n = count - done < AHEAD ? count - done : AHEAD;
        for (size_t i = 0; i < n; i++) {
            homes[i] = home(x, ids[first + done + i]);
            __builtin_prefetch(&x->slots[homes[i]], 1);
        }
        for (size_t i = 0; i < n; i++) {
            if (x->sparse && ids[first + done + i] == UINT64_MAX) continue;
            insert_at(x, homes[i], first + (uint32_t)(done + i));
        }
    }
}

static size_t slot_of(const struct id_index *x, const uint64_t *ids, uint32_t row)
{
    size_t slot = home(x, ids[row]);
    while (x->slots[slot] != row + 1)
        slot = next_slot(x, slot);
    return slot;
}

void id_index_remove(struct id_index *x, const uint64_t *ids, uint32_t row)
{
    size_t hole = slot_of(x, ids, row);
    /* Closes the gap: an entry moves back into it unless its first choice lies after the gap. */
    for (size_t slot = next_slot(x, hole); x->slots[slot]; slot = next_slot(x, slot)) {
        size_t at = home(x, ids[x->slots[slot] - 1]);
        size_t mask = x->slot_count - 1;
        if (((slot - at) & mask) < ((slot - hole) & mask)) continue;
        x->slots[hole] = x->slots[slot];
        hole = slot;
    }
    x->slots[hole] = 0;
}

void id_index_move(struct id_index *x, const uint64_t *ids, uint32_t row, uint32_t to)
{
    x->slots[slot_of(x, ids, row)] = to + 1;
}

void id_index_renumber(struct id_index *x, const uint32_t *map)
{
    for (size_t slot = 0; slot < x->slot_count; slot++) {
        if (slot % YIELD_EVERY == 0) yield_check();
        if (x->slots[slot]) x->slots[slot] = map[x->slots[slot] - 1] + 1;
    }
}
