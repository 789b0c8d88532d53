/* Compiled with -O3: half of a graph's bytes are edges, and copiers check all of them. */
#include "daemon/gpu/numbers.h"

#include <string.h>

#include "kernels/spread.h"

static bool positions_sound(const uint32_t *position, uint64_t count, uint64_t limit)
{
    uint32_t largest = 0;
    for (uint64_t i = 0; i < count; i++)
        if (position[i] > largest) largest = position[i];
    return count == 0 || largest < limit;
}

static bool offsets_sound(const uint64_t *offset, uint64_t count, uint64_t limit, uint64_t before)
{
    bool sound = true;
    for (uint64_t i = 0; i < count; before = offset[i++])
        sound &= offset[i] >= before && offset[i] <= limit;
    return sound;
}

static bool lists_sound(const struct spread_list *list, uint64_t count, uint64_t limit)
{
    bool sound = true;
    for (uint64_t i = 0; i < count; i++)
        sound &= list[i].first % 2 == 0 && list[i].first <= limit &&
                 list[i].count <= limit - list[i].first;
    return sound;
}

/* Compares an edge as one word with its node in the lower half: the sign shows a node beyond the
 * limit. */
static bool edges_sound(const struct spread_edge *edge, uint64_t count, uint64_t limit)
{
    uint64_t past = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, &edge[i], sizeof word);
        past |= limit - 1 - (word & UINT32_MAX);
    }
    return !(past >> 63);
}
_Static_assert(sizeof(struct spread_edge) == sizeof(uint64_t) &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "an edge is a word");

static bool seeds_sound(const struct spread_seed *seed, uint64_t count, uint64_t limit)
{
    bool sound = true;
    for (uint64_t i = 0; i < count; i++)
        sound &= seed[i].node < limit && seed[i].activation > 0.0f && seed[i].activation <= 1.0f;
    return sound;
}

bool numbers_sound(enum numbers numbers, uint64_t limit, const void *at, uint64_t bytes,
                   uint64_t before)
{
    switch (numbers) {
    case NUMBERS_ANY: return true;
    case NUMBERS_POSITIONS: return positions_sound(at, bytes / sizeof(uint32_t), limit);
    case NUMBERS_OFFSETS: return offsets_sound(at, bytes / sizeof(uint64_t), limit, before);
    case NUMBERS_LISTS: return lists_sound(at, bytes / sizeof(struct spread_list), limit);
    case NUMBERS_EDGES: return edges_sound(at, bytes / sizeof(struct spread_edge), limit);
    case NUMBERS_SEEDS: return seeds_sound(at, bytes / sizeof(struct spread_seed), limit);
    }
    return false;
}
