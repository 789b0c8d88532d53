/* Memory outside of the heap: it counts as blocks do, and leaves nothing behind. */
#include "daemon/heap/outside.h"

#include <criterion/criterion.h>

#include "daemon/base/fault.h"

#define MIB (UINT64_C(1) << 20)

static struct heap *make_heap(uint64_t bytes)
{
    struct heap *h;
    cr_assert_eq(heap_create(bytes, &h), STATUS_OK);
    return h;
}

Test(outside, counts_towards_the_bound)
{
    struct heap *h = make_heap(8 * MIB);
    struct outside o = {.heap = h, .owner = 3}, p = {.heap = h, .owner = 4};
    struct heap_block b;
    cr_assert_eq(outside_count(&o, 5 * MIB), STATUS_OK);
    cr_assert_eq(heap_usage(h).bytes_used, 5 * MIB);
    cr_assert_eq(heap_usage(h).bytes_outside, 5 * MIB);
    cr_assert_eq(heap_owner_bytes(h, 3), 5 * MIB);
    cr_assert_eq(heap_take(h, 4 * MIB, 3, &b), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(outside_count(&p, 4 * MIB), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(p.bytes, 0);
    cr_assert_eq(outside_count(&o, 2 * MIB), STATUS_OK);
    cr_assert_eq(outside_count(&p, 6 * MIB), STATUS_OK);
    cr_assert_eq(outside_count(&p, 6 * MIB + 1), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(p.bytes, 6 * MIB);
    outside_end(&o);
    outside_end(&o);
    outside_end(&p);
    cr_assert_eq(heap_usage(h).bytes_used, 0);
    cr_assert_eq(heap_usage(h).bytes_outside, 0);
    cr_assert_eq(heap_usage(h).bytes_peak, 8 * MIB);
    cr_assert_eq(heap_owner_bytes(h, 4), 0);
    heap_destroy(h);
}

Test(outside, leaves_a_part_of_a_quota_to_requests)
{
    struct heap *h = make_heap(64 * MIB);
    struct outside o = {.heap = h, .owner = 3};
    struct failure f;
    cr_assert_eq(heap_quota(h, 3, 16 * MIB), STATUS_OK);
    cr_assert_eq(outside_count(&o, 16 * MIB), STATUS_PERMISSION_DENIED);
    cr_assert_eq(heap_refuse(h, STATUS_PERMISSION_DENIED, 3, "ids", &f), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(outside_count(&o, 15 * MIB), STATUS_OK);
    outside_end(&o);
    heap_destroy(h);
}

/* Cached blocks make room; what is reserved for small blocks is there for owner 0 alone. */
Test(outside, makes_room_and_leaves_the_reserve)
{
    struct heap *h = make_heap(8 * MIB);
    struct outside o = {.heap = h, .owner = 3}, nobodys = {.heap = h};
    struct heap_block b;
    heap_reserve(h, MIB, 65536);
    cr_assert_eq(heap_take(h, 4 * MIB, 3, &b), STATUS_OK);
    heap_give(h, &b);
    cr_assert_eq(heap_usage(h).bytes_cached, 4 * MIB);
    cr_assert_eq(outside_count(&o, 6 * MIB), STATUS_OK);
    cr_assert_leq(heap_usage(h).bytes_cached, MIB);
    cr_assert_eq(outside_count(&o, 7 * MIB + 1), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(outside_count(&o, 7 * MIB), STATUS_OK);
    cr_assert_eq(outside_count(&nobodys, 4096), STATUS_OK);
    outside_end(&nobodys);
    outside_end(&o);
    heap_destroy(h);
}

struct store_of_spares {
    struct outside spare;
    uint32_t asked_of;
};

static bool spare_all(void *owner, uint32_t space, uint64_t bytes)
{
    struct store_of_spares *s = owner;
    s->asked_of = space;
    bool any = s->spare.bytes > 0 && bytes > 0;
    outside_end(&s->spare);
    return any;
}

Test(outside, asks_for_what_can_be_spared)
{
    struct heap *h = make_heap(8 * MIB);
    struct store_of_spares s = {.spare = {.heap = h, .owner = 3}, .asked_of = 9};
    struct outside o = {.heap = h, .owner = 3};
    cr_assert_eq(outside_count(&s.spare, 4 * MIB), STATUS_OK);
    heap_on_shortage(h, spare_all, &s);
    cr_assert_eq(outside_count(&o, 8 * MIB), STATUS_OK);
    cr_assert_eq(s.asked_of, 0);
    outside_end(&o);
    cr_assert_eq(outside_count(&s.spare, 4 * MIB), STATUS_OK);
    cr_assert_eq(heap_quota(h, 3, 6 * MIB), STATUS_OK);
    cr_assert_eq(outside_count(&o, 3 * MIB), STATUS_OK);
    cr_assert_eq(s.asked_of, 3);
    outside_end(&o);
    heap_destroy(h);
}

Test(outside, nothing_without_a_heap_or_after_a_fault)
{
    struct outside none = {0};
    cr_assert_eq(outside_count(&none, MIB), STATUS_OK);
    cr_assert_eq(none.bytes, 0);
    outside_end(&none);
    struct heap *h = make_heap(8 * MIB);
    struct outside o = {.heap = h, .owner = 1};
    fault_arm(1);
    cr_assert_eq(outside_count(&o, MIB), STATUS_RESOURCE_EXHAUSTED);
    fault_arm(0);
    cr_assert_eq(heap_usage(h).bytes_used, 0);
    heap_destroy(h);
}
