#include <string.h>

#include "daemon/store/graph_inside.h"

/* A radix sort, byte by byte from the lowest; bytes that are equal in all keys are skipped. */
enum { DIGITS = 8, VALUES = 256, FEW = 24 };

static uint64_t key_of(const struct graph_half *h)
{
    return (uint64_t)h->node << 32 | h->other;
}

static void sort_few(struct graph_half *halves, uint64_t n, uint64_t mask)
{
    for (uint64_t i = 1; i < n; i++) {
        struct graph_half h = halves[i];
        uint64_t at = i;
        for (; at && (key_of(&halves[at - 1]) & mask) > (key_of(&h) & mask); at--)
            halves[at] = halves[at - 1];
        halves[at] = h;
    }
}

struct graph_half *halves_sort(struct graph_half *halves, struct graph_half *spare, uint64_t n,
                               bool by_other)
{
    if (n <= FEW) {
        sort_few(halves, n, by_other ? UINT64_MAX : ~(uint64_t)UINT32_MAX);
        return halves;
    }
    uint64_t counts[DIGITS][VALUES];
    memset(counts, 0, sizeof counts);
    for (uint64_t i = 0; i < n; i++) {
        graph_yield(i);
        uint64_t key = key_of(&halves[i]);
        for (int digit = 0; digit < DIGITS; digit++)
            counts[digit][key >> (8 * digit) & 0xff]++;
    }
    for (int digit = by_other ? 0 : DIGITS / 2; digit < DIGITS; digit++) {
        uint64_t *places = counts[digit], sum = 0;
        if (places[key_of(&halves[0]) >> (8 * digit) & 0xff] == n) continue;
        for (int value = 0; value < VALUES; value++) {
            uint64_t count = places[value];
            places[value] = sum;
            sum += count;
        }
        for (uint64_t i = 0; i < n; i++) {
            graph_yield(i);
            spare[places[key_of(&halves[i]) >> (8 * digit) & 0xff]++] = halves[i];
        }
        struct graph_half *sorted = spare;
        spare = halves;
        halves = sorted;
    }
    return halves;
}

struct half_run halves_run(struct graph_half *halves, uint64_t n)
{
    uint64_t count = 0;
    while (count < n && halves[count].node == halves[0].node)
        count++;
    return (struct half_run){halves, count};
}

struct graph_half *halves_find(struct half_run run, uint32_t other)
{
    struct graph_half *first = run.halves;
    uint64_t count = run.count;
    while (count > 1) {
        uint64_t middle = count / 2;
        if (first[middle - 1].other < other) first += middle;
        count -= middle;
    }
    return count && first->other == other ? first : NULL;
}
