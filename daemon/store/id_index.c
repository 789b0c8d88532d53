#include "daemon/store/id_index.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/base/yield.h"
#include "daemon/store/array.h"

enum { SLOTS_MIN = 64, AHEAD = 16, YIELD_EVERY = 512 };

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

static void insert_at(struct id_index *x, size_t slot, uint32_t row)
{
    while (x->slots[slot])
        slot = next_slot(x, slot);
    x->slots[slot] = row + 1;
}

/* Rows [0, count). */
static void insert_many(struct id_index *x, const uint64_t *ids, uint64_t count)
{
    size_t homes[AHEAD];
    for (uint64_t done = 0; done < count; done += AHEAD) {
        if (done % YIELD_EVERY == 0) yield_check();
        size_t n = count - done < AHEAD ? count - done : AHEAD;
        for (size_t i = 0; i < n; i++) {
            homes[i] = home(x, ids[done + i]);
            __builtin_prefetch(&x->slots[homes[i]], 1);
        }
        for (size_t i = 0; i < n; i++)
            insert_at(x, homes[i], (uint32_t)(done + i));
    }
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
    insert_many(x, ids, present);
    return true;
}

void id_index_finish(struct id_index *x)
{
    if (!x->borrowed) array_free(x->slots, x->slot_count * sizeof *x->slots);
    *x = (struct id_index){0};
}

uint32_t id_index_find(const struct id_index *x, const uint64_t *ids, uint64_t id)
{
    if (!x->slot_count) return ID_INDEX_NONE;
    for (size_t slot = home(x, id); x->slots[slot]; slot = next_slot(x, slot)) {
        uint32_t row = x->slots[slot] - 1;
        if (ids[row] == id) return row;
    }
    return ID_INDEX_NONE;
}

void id_index_insert(struct id_index *x, const uint64_t *ids, uint32_t row)
{
    insert_at(x, home(x, ids[row]), row);
}
