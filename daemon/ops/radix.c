#include "daemon/ops/radix.h"

#include <string.h>

#include "daemon/base/yield.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, INSERTION_MAX = 48, YIELD_EVERY = 1 << 13 };
/* Items that are moved may each come to lie on a page that is new. */
enum { YIELD_MOVED = 1 << 8 };

static void insertion_sort(struct radix_item *items, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++) {
        struct radix_item item = items[i];
        uint64_t at = i;
        for (; at && items[at - 1].key > item.key; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static bool stops(const atomic_bool *stop)
{
    return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

/* False: it was stopped, and `to` is not filled. */
static bool one_digit(const struct radix_item *from, struct radix_item *to, uint64_t count,
                      uint32_t shift, const atomic_bool *stop)
{
    uint64_t places[DIGITS];
    memset(places, 0, sizeof places);
    for (uint64_t i = 0; i < count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        places[from[i].key >> shift & (DIGITS - 1)]++;
    }
    uint64_t sum = 0;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint64_t here = places[digit];
        places[digit] = sum;
        sum += here;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (i % YIELD_MOVED == 0) {
            yield_check();
            if (stops(stop)) return false;
        }
        to[places[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
    }
    return true;
}

struct radix_item *radix_sort(struct radix_item *items, struct radix_item *room, uint64_t count)
{
    return radix_sort_until(items, room, count, NULL);
}

struct radix_item *radix_sort_until(struct radix_item *items, struct radix_item *room,
                                    uint64_t count, const atomic_bool *stop)
{
    if (count <= INSERTION_MAX) {
        insertion_sort(items, count);
        return items;
    }
    uint64_t differ = 0, falls = 0;
    for (uint64_t i = 1; i < count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        differ |= items[i].key ^ items[0].key;
        falls |= items[i].key < items[i - 1].key;
    }
    for (uint32_t shift = 0; falls && shift < 64; shift += DIGIT_BITS) {
        if (!(differ >> shift & (DIGITS - 1))) continue;
        if (!one_digit(items, room, count, shift, stop)) break;
        struct radix_item *sorted = room;
        room = items;
        items = sorted;
    }
    return items;
}
