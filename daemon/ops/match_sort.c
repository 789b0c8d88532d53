#include "daemon/ops/match_sort.h"

#include <string.h>

#include "daemon/base/yield.h"

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Merges two sorted runs, [first, middle) and [middle, end), into the same places of `to`. */
static void merge(const struct topk_entry *from, struct topk_entry *to, uint64_t first,
                  uint64_t middle, uint64_t end)
{
    uint64_t left = first, right = middle;
    for (uint64_t at = first; at < end; at++) {
        if (at % MATCH_SORT_PIECE == 0) yield_check();
        bool from_left = left < middle && (right == end || !topk_before(from[right], from[left]));
        to[at] = from_left ? from[left++] : from[right++];
    }
}

struct topk_entry *match_sort(struct topk_entry *entries, struct topk_entry *room, uint64_t count)
{
    if (!room || count <= MATCH_SORT_PIECE) {
        yield_check();
        topk_sort(entries, (size_t)count);
        return entries;
    }
    for (uint64_t first = 0; first < count; first += MATCH_SORT_PIECE) {
        yield_check();
        topk_sort(entries + first, (size_t)lesser(MATCH_SORT_PIECE, count - first));
    }
    for (uint64_t run = MATCH_SORT_PIECE; run < count; run *= 2) {
        for (uint64_t first = 0; first < count; first += 2 * run) {
            uint64_t middle = lesser(first + run, count), end = lesser(first + 2 * run, count);
            merge(entries, room, first, middle, end);
        }
        struct topk_entry *merged = room;
        room = entries;
        entries = merged;
    }
    return entries;
}
