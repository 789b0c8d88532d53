/* spread_sort: sorts the contributions to a node, the largest first, and selects the lowest ids
 * among nodes beyond a bound. Both work by digits, so that no input makes them slow. */
#include "kernels/cpu/spread_inside.h"

#include <string.h>

enum { SMALL = 40, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

static uint32_t key_of(uint64_t contribution)
{
    return (uint32_t)(contribution >> 32);
}

static void sort_small(uint64_t *c, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++) {
        uint64_t moving = c[i], to = i;
        for (; to > 0 && c[to - 1] > moving; to--)
            c[to] = c[to - 1];
        c[to] = moving;
    }
}

/* Moves the keys of each digit to its range; ends[d]: where the range of digit d ends. */
static void distribute(const struct spread_run *r, uint64_t *c, uint64_t count, uint32_t shift,
                       uint64_t ends[DIGITS])
{
    uint64_t next[DIGITS] = {0}, first = 0, since = 0;
    for (uint64_t i = 0; i < count; i++) {
        spread_give_way_at(r, i + 1);
        next[key_of(c[i]) >> shift & (DIGITS - 1)]++;
    }
    for (uint32_t d = 0; d < DIGITS; d++) {
        uint64_t digits = next[d];
        next[d] = first;
        ends[d] = first += digits;
    }
    for (uint32_t d = 0; d < DIGITS; d++) {
        while (next[d] < ends[d]) {
            uint64_t moving = c[next[d]];
            spread_pace(r, &since, 1);
            uint32_t digit = key_of(moving) >> shift & (DIGITS - 1);
            while (digit != d) {
                uint64_t met = c[next[digit]];
                c[next[digit]++] = moving;
                moving = met;
                digit = key_of(moving) >> shift & (DIGITS - 1);
                since++;
            }
            c[next[d]++] = moving;
        }
    }
}

/* Returns above how many low bits all keys agree; 0: they are equal. */
static uint32_t differing_bits(const struct spread_run *r, const uint64_t *c, uint64_t count)
{
    uint32_t differ = 0, bits = 0;
    for (uint64_t i = 1; i < count; i++) {
        spread_give_way_at(r, i);
        differ |= key_of(c[i]) ^ key_of(c[0]);
    }
    while (bits < 32 && differ >> bits)
        bits++;
    return bits;
}

/* Recursion: each call sees at least DIGIT_BITS fewer bits, so four deep at most. */
// NOLINTNEXTLINE(misc-no-recursion)
static void sort_keys(const struct spread_run *r, uint64_t *c, uint64_t count)
{
    if (count <= SMALL) {
        sort_small(c, count);
        return;
    }
    uint32_t bits = differing_bits(r, c, count);
    if (bits == 0) return;
    uint32_t shift = bits > DIGIT_BITS ? bits - DIGIT_BITS : 0;
    uint64_t ends[DIGITS], first = 0;
    distribute(r, c, count, shift, ends);
    for (uint32_t d = 0; shift > 0 && d < DIGITS; first = ends[d++])
        if (ends[d] - first > 1) sort_keys(r, c + first, ends[d] - first);
}

void spread_sort(const struct spread_run *r, uint64_t *contributions, uint64_t count)
{
    sort_keys(r, contributions, count);
}

/* Moves the records without the bit to the front; returns how many these are. */
static uint32_t split(const struct spread_run *r, struct spread_record *records, uint32_t count,
                      uint64_t bit)
{
    const uint64_t *ids = r->graph->ids;
    uint32_t without = 0;
    for (uint32_t i = 0; i < count; i++) {
        spread_give_way_at(r, i);
        if (ids[records[i].node] & bit) continue;
        struct spread_record kept = records[i];
        records[i] = records[without];
        records[without++] = kept;
    }
    return without;
}

void spread_keep_lowest(const struct spread_run *r, struct spread_record *records, uint32_t count,
                        uint32_t keep)
{
    const uint64_t *ids = r->graph->ids;
    while (keep > 0 && keep < count) {
        uint64_t differ = 0;
        for (uint32_t i = 1; i < count; i++) {
            spread_give_way_at(r, i);
            differ |= ids[records[i].node] ^ ids[records[0].node];
        }
        if (differ == 0) return;
        uint64_t bit = UINT64_C(1) << (63 - __builtin_clzll(differ));
        uint32_t without = split(r, records, count, bit);
        if (keep <= without) {
            count = without;
        } else {
            records += without;
            count -= without;
            keep -= without;
        }
    }
}
