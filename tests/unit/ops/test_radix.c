/* Sorting by keys, and memory in pieces. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/arena.h"
#include "daemon/ops/radix.h"

/* ---------------------------------------------------------------- radix */

static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *seed ^ *seed >> 29;
}

static void expect_sorted(uint64_t count, uint64_t mask, uint32_t shift, uint64_t seed)
{
    struct radix_item *items = malloc((count + 1) * sizeof *items);
    struct radix_item *room = malloc((count + 1) * sizeof *room);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        items[i] = (struct radix_item){(draw(&seed) & mask) << shift, (uint32_t)i};
        sum += items[i].key * 31 + i;
    }
    const struct radix_item *sorted = radix_sort(items, room, count);
    cr_assert(sorted == items || sorted == room);
    for (uint64_t i = 0; i < count; i++) {
        sum -= sorted[i].key * 31 + sorted[i].value;
        if (i == 0) continue;
        cr_assert_leq(sorted[i - 1].key, sorted[i].key);
        if (sorted[i - 1].key == sorted[i].key)
            cr_assert_lt(sorted[i - 1].value, sorted[i].value, "equal keys keep their order");
    }
    cr_assert_eq(sum, 0, "the same items");
    free(items);
    free(room);
}

Test(radix, sorts_and_keeps_the_order_of_equal_keys)
{
    const uint64_t counts[] = {0, 1, 2, 3, 47, 48, 49, 50, 1000, 70000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        expect_sorted(counts[i], UINT64_MAX, 0, i);
        expect_sorted(counts[i], 0xff, 0, i);
        expect_sorted(counts[i], 0x3ffff, 40, i);
        expect_sorted(counts[i], 1, 63, i);
        expect_sorted(counts[i], 0, 0, i);
    }
}

Test(radix, leaves_what_is_sorted)
{
    struct radix_item items[200], room[200];
    for (uint32_t i = 0; i < 200; i++)
        items[i] = (struct radix_item){i / 2 * UINT64_C(0x1000000001), i};
    const struct radix_item *sorted = radix_sort(items, room, 200);
    cr_assert_eq(sorted, items);
    for (uint32_t i = 0; i < 200; i++)
        cr_assert_eq(items[i].value, i);
}

/* ---------------------------------------------------------------- arena */

Test(arena, pieces_are_apart_and_aligned)
{
    struct heap *heap;
    struct arena a;
    char *pieces[300];
    cr_assert_eq(heap_create(UINT64_C(1) << 28, &heap), STATUS_OK);
    arena_init(&a, heap, 1);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 300; i++) {
            pieces[i] = arena_take(&a, i * 37);
            cr_assert_not_null(pieces[i]);
            cr_assert_eq((uintptr_t)pieces[i] % 64, 0);
            memset(pieces[i], (int)(i + round), i * 37);
        }
        for (uint32_t i = 0; i < 300; i++)
            for (uint32_t at = 0; at < i * 37; at++)
                cr_assert_eq((unsigned char)pieces[i][at], (unsigned char)(i + round));
        arena_clear(&a);
        cr_assert_leq(heap_usage(heap).blocks, 1, "one block stays");
    }
    arena_finish(&a);
    cr_assert_eq(heap_usage(heap).blocks, 0);
    arena_finish(&a);
    heap_destroy(heap);
}

Test(arena, says_why_there_is_no_more)
{
    struct heap *heap;
    struct arena a;
    cr_assert_eq(heap_create(UINT64_C(1) << 28, &heap), STATUS_OK);
    cr_assert_eq(heap_quota(heap, 7, 1 << 20), STATUS_OK);
    arena_init(&a, heap, 7);
    char *small = arena_take(&a, 1000);
    memset(small, 5, 1000);
    cr_assert_null(arena_take(&a, 8 << 20));
    cr_assert_eq(a.refused, STATUS_PERMISSION_DENIED);
    cr_assert_null(arena_take(&a, UINT64_MAX));
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(small[i], 5, "what was taken stays");
    cr_assert_not_null(arena_take(&a, 1000));
    arena_finish(&a);
    arena_init(&a, heap, 8);
    cr_assert_null(arena_take(&a, UINT64_C(1) << 30));
    cr_assert_eq(a.refused, STATUS_RESOURCE_EXHAUSTED);
    arena_finish(&a);
    cr_assert_eq(heap_usage(heap).blocks, 0);
    heap_destroy(heap);
}

/* A sort that is stopped gives all items, in whatever order; one that is not sorts. */
Test(radix, until_it_is_stopped)
{
    enum { COUNT = 5000 };
    static struct radix_item items[COUNT], room[COUNT];
    static unsigned seen[COUNT];
    for (int stopped = 0; stopped < 2; stopped++) {
        const atomic_bool stop = stopped;
        for (uint32_t i = 0; i < COUNT; i++)
            items[i] = (struct radix_item){i * UINT64_C(0x9e3779b97f4a7c15), i};
        const struct radix_item *got = radix_sort_until(items, room, COUNT, &stop);
        for (uint32_t i = 0; i < COUNT; i++) {
            cr_assert_eq(got[i].key, got[i].value * UINT64_C(0x9e3779b97f4a7c15));
            cr_assert_eq(seen[got[i].value]++, (unsigned)stopped);
            if (i && !stopped) cr_assert_lt(got[i - 1].key, got[i].key);
        }
    }
}
