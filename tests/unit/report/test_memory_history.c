/* The daemon's pools of memory, and the ring of their looks. */
#include "daemon/report/memory_history.h"

#include <criterion/criterion.h>
#include <string.h>

static struct memory_history h;
static struct report_sources from;

static void open_house(void)
{
    cr_assert_eq(heap_create(UINT64_C(64) << 20, &from.heap), STATUS_OK);
    from.now_ns = 1000;
}

static void keep(uint32_t looks)
{
    for (uint32_t i = 0; i < looks; i++) {
        from.now_ns += 100;
        memory_history_keep(&h, &from, 100);
        cr_assert_eq(h.next_ns, from.now_ns + 100);
    }
}

/* As if the last look had seen so many cards. */
static void add_cards(uint32_t cards)
{
    for (uint32_t i = 0; i < 2 * cards; i++)
        h.kept[h.count++ % POOLS_KEPT] =
            (struct wire_pool){.number = h.looks,
                               .kind = i % 2 ? WIRE_POOL_REPLICAS : WIRE_POOL_REQUESTS,
                               .card = i / 2};
}

/* Reads all pages; returns how many pools there are, newest first, in whole looks. */
static uint64_t read_all(uint64_t cards, uint64_t *oldest)
{
    struct wire_pools page = {0};
    uint64_t all = 0, before = 0;
    *oldest = UINT64_MAX;
    do {
        memory_history_page(&h, &from, before, &page);
        for (size_t i = 0; i < page.count; i++, all++) {
            const struct wire_pool *p = &page.pools[i];
            if (p->kind != WIRE_POOL_HOST) {
                cr_assert_eq(p->number, *oldest, "within a look");
                continue;
            }
            cr_assert_lt(p->number, *oldest, "each look is told once");
            *oldest = p->number;
            bool now = p->number == h.looks + 1;
            cr_assert(now || i + 2 * cards < page.count, "a look is whole");
        }
        cr_assert(!page.next || (page.count && page.next < (before ? before : UINT64_MAX)));
        before = page.next;
    } while (before);
    return all;
}

Test(memory_history, says_what_the_heap_has)
{
    struct heap_block a, b;
    struct wire_pool pools[POOLS_A_LOOK_MAX];
    open_house();
    cr_assert_eq(heap_take(from.heap, 100000, 1, &a), STATUS_OK);
    cr_assert_eq(heap_take(from.heap, 70000, 1, &b), STATUS_OK);
    heap_give(from.heap, &a);
    cr_assert_eq(memory_pools(&from, pools), 1);
    cr_assert(pools[0].kind == WIRE_POOL_HOST && pools[0].seen_ns == 1000);
    cr_assert_eq(pools[0].used_bytes, 73728);
    cr_assert_eq(pools[0].asked_bytes, 73728);
    cr_assert_eq(pools[0].kept_bytes, 102400);
    cr_assert_eq(pools[0].free_bytes, (UINT64_C(64) << 20) - 73728);
    cr_assert_eq(pools[0].largest_bytes, pools[0].free_bytes);
    heap_give(from.heap, &b);
    /* The block that is used again is larger than what is asked for. */
    cr_assert_eq(heap_take(from.heap, 80000, 1, &a), STATUS_OK);
    memory_pools(&from, pools);
    cr_assert_eq(pools[0].asked_bytes, 81920);
    cr_assert(pools[0].used_bytes == 102400 || pools[0].used_bytes == 81920);
    heap_give(from.heap, &a);
    memory_pools(&from, pools);
    cr_assert(pools[0].asked_bytes == 0 && pools[0].used_bytes == 0);
    heap_destroy(from.heap);
}

Test(memory_history, keeps_looks_and_tells_them_page_by_page)
{
    uint64_t oldest;
    open_house();
    cr_assert_eq(read_all(0, &oldest), 1, "what is now, though nobody looked");
    keep(5);
    cr_assert_eq(read_all(0, &oldest), 6);
    cr_assert_eq(oldest, 1);
    struct wire_pools page;
    memory_history_page(&h, &from, 3, &page);
    cr_assert(page.count == 2 && page.pools[0].number == 2 && page.pools[1].number == 1);
    cr_assert(page.pools[0].seen_ns == 1200 && page.pools[1].seen_ns == 1100);
    keep(POOLS_KEPT + 100);
    cr_assert_eq(read_all(0, &oldest), POOLS_KEPT + 1);
    cr_assert_eq(oldest, 106);
    heap_destroy(from.heap);
}

Test(memory_history, a_look_is_whole_or_not_told)
{
    enum { CARDS = 16, EACH = 1 + 2 * CARDS };
    uint64_t oldest;
    open_house();
    for (int i = 0; i < 200; i++) {
        keep(1);
        add_cards(CARDS);
    }
    /* 124 looks fit, and four pools of a further one, which is not told. */
    cr_assert_eq(read_all(CARDS, &oldest), 1 + POOLS_KEPT / EACH * EACH);
    cr_assert_eq(oldest, 200 - POOLS_KEPT / EACH + 1);
    heap_destroy(from.heap);
}
