/* What each owner has, and its quota. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/heap/accounts.h"
#include "daemon/heap/heap.h"

#define MIB (UINT64_C(1) << 20)

static struct heap *make(uint64_t bytes_max)
{
    struct heap *h = NULL;
    cr_assert_eq(heap_create(bytes_max, &h), STATUS_OK);
    return h;
}

static struct heap_block take(struct heap *h, uint64_t bytes, uint32_t owner)
{
    struct heap_block b = {0};
    cr_assert_eq(heap_take(h, bytes, owner, &b), STATUS_OK);
    return b;
}

Test(heap_owners, what_each_has_is_counted)
{
    struct heap *h = make(64 * MIB);
    struct heap_block a = take(h, 3 * MIB, 1), b = take(h, 1, 2), c = take(h, MIB, 1);
    struct heap_block nobody = take(h, MIB, 0);
    cr_expect_eq(heap_owner_bytes(h, 1), 4 * MIB);
    cr_expect_eq(heap_owner_bytes(h, 2), 4096);
    cr_expect_eq(heap_owner_bytes(h, 3), 0);
    cr_expect_eq(heap_owner_bytes(h, 0), 0);
    heap_give(h, &a);
    heap_release(h, &b);
    cr_expect_eq(heap_owner_bytes(h, 1), MIB, "what is cached is nobody's");
    cr_expect_eq(heap_owner_bytes(h, 2), 0);
    /* The cached 3 MiB hold what was asked, and no more is charged. */
    b = take(h, 2 * MIB + 1, 1);
    cr_expect_eq(b.bytes, 3 * MIB);
    cr_expect_eq(heap_owner_bytes(h, 1), 3 * MIB + 4096);
    heap_give(h, &b);
    heap_give(h, &c);
    heap_give(h, &nobody);
    cr_expect_eq(heap_owner_bytes(h, 1), 0);
    heap_destroy(h);
}

Test(heap_owners, a_quota_refuses_its_owner_alone)
{
    struct heap *h = make(64 * MIB);
    struct heap_block none = {0};
    struct failure f = {0};
    cr_assert_eq(heap_quota(h, 1, 4 * MIB), STATUS_OK);
    struct heap_block a = take(h, 3 * MIB, 1);
    enum status st = heap_take(h, MIB + 1, 1, &none);
    cr_expect_eq(st, STATUS_PERMISSION_DENIED);
    cr_expect_eq(heap_take_fresh(h, MIB + 1, 1, &none), STATUS_PERMISSION_DENIED);
    cr_expect_null(none.data);
    cr_expect_eq(heap_owner_bytes(h, 1), 3 * MIB);
    cr_expect_eq(heap_refuse(h, st, 1, "the new rows", &f), STATUS_RESOURCE_EXHAUSTED);
    cr_expect_eq(f.detail, DETAIL_QUOTA);
    cr_expect_str_eq(f.text, "no memory for the new rows: the space's quota of 4194304 bytes "
                             "(quotas.host_mib) is reached");

    struct heap_block b = take(h, 8 * MIB, 2), c = take(h, MIB, 1);
    cr_expect_eq(heap_take(h, 1, 1, &none), STATUS_PERMISSION_DENIED);
    struct heap_block heard = {0};
    cr_assert_eq(heap_take_past_quota(h, MIB, 1, &heard), STATUS_OK);
    cr_expect_eq(heap_owner_bytes(h, 1), 5 * MIB);
    heap_give(h, &c);
    cr_expect_eq(heap_take(h, 1, 1, &none), STATUS_PERMISSION_DENIED, "4 of 4 MiB are in use");
    heap_give(h, &heard);
    c = take(h, MIB, 1);
    heap_give(h, &a);
    heap_give(h, &b);
    heap_give(h, &c);
    heap_destroy(h);
}

Test(heap_owners, what_stays_leaves_something_to_requests)
{
    struct heap *h = make(64 * MIB);
    struct heap_block rows = {0}, none = {0};
    cr_assert_eq(heap_quota(h, 1, 16 * MIB), STATUS_OK);
    cr_assert_eq(heap_take_fresh(h, 15 * MIB + 1, 1, &none), STATUS_PERMISSION_DENIED);
    cr_assert_eq(heap_take_fresh(h, 15 * MIB, 1, &rows), STATUS_OK);
    struct heap_block b = take(h, MIB, 1);
    heap_give(h, &rows);
    heap_give(h, &b);
    heap_destroy(h);
}

Test(heap_owners, a_quota_may_change_and_end)
{
    struct heap *h = make(64 * MIB);
    struct heap_block none = {0};
    struct heap_block a = take(h, 3 * MIB, 1);
    cr_assert_eq(heap_quota(h, 1, MIB), STATUS_OK);
    cr_expect_eq(heap_take(h, 1, 1, &none), STATUS_PERMISSION_DENIED, "what is there stays");
    cr_assert_eq(heap_quota(h, 1, 3 * MIB + 4096), STATUS_OK);
    cr_assert_eq(heap_owner_bytes_max(h, 1), 3 * MIB + 4096);
    cr_assert_eq(heap_owner_bytes_max(h, 2), 64 * MIB, "another has none");
    struct heap_block b = take(h, 1, 1);
    cr_assert_eq(heap_quota(h, 1, 100 * MIB), STATUS_OK);
    cr_assert_eq(heap_owner_bytes_max(h, 1), 64 * MIB);
    cr_assert_eq(heap_quota(h, 1, 0), STATUS_OK);
    struct heap_block c = take(h, 20 * MIB, 1);
    heap_give(h, &a);
    heap_give(h, &b);
    heap_give(h, &c);
    cr_assert_eq(heap_quota(h, 7, 0), STATUS_OK, "nothing to forget is fine");
    heap_destroy(h);
}

Test(heap_owners, what_is_lent_comes_beyond_the_quota)
{
    struct heap *h = make(64 * MIB);
    struct heap_block none = {0};
    cr_assert_eq(heap_quota(h, 1, 2 * MIB), STATUS_OK);
    struct heap_block a = take(h, 2 * MIB, 1);
    cr_expect_eq(heap_fits(h, 1, 1), STATUS_PERMISSION_DENIED);
    heap_lend(h, 1, MIB);
    heap_lend(h, 1, MIB);
    heap_lend(h, 9, MIB);
    cr_expect_eq(heap_fits(h, 2 * MIB, 1), STATUS_OK);
    struct heap_block b = take(h, 2 * MIB, 1);
    cr_expect_eq(heap_take(h, 1, 1, &none), STATUS_PERMISSION_DENIED);
    heap_lend_end(h, 1, MIB);
    heap_give(h, &a);
    cr_expect_eq(heap_take(h, 2 * MIB, 1, &none), STATUS_PERMISSION_DENIED);
    heap_lend_end(h, 1, MIB);
    heap_lend_end(h, 1, MIB);
    heap_lend_end(h, 9, MIB);
    heap_lend_end(h, 8, MIB);
    heap_give(h, &b);
    a = take(h, 2 * MIB, 1);
    cr_expect_eq(heap_take(h, 1, 1, &none), STATUS_PERMISSION_DENIED);
    heap_give(h, &a);
    heap_destroy(h);
}

Test(heap_owners, the_bound_of_all_is_another_error_and_charges_nothing)
{
    struct heap *h = make(8 * MIB);
    struct heap_block a = take(h, 7 * MIB, 1), none = {0};
    struct failure f = {0};
    cr_assert_eq(heap_quota(h, 2, 4 * MIB), STATUS_OK);
    enum status st = heap_take(h, 2 * MIB, 2, &none);
    cr_expect_eq(st, STATUS_RESOURCE_EXHAUSTED);
    cr_expect_eq(heap_owner_bytes(h, 2), 0);
    cr_expect_eq(heap_refuse(h, st, 2, "a reply", &f), STATUS_RESOURCE_EXHAUSTED);
    cr_expect_eq(f.detail, DETAIL_MEMORY);
    cr_expect_str_eq(f.text, "no memory for a reply: the daemon's memory bound is reached");
    heap_give(h, &a);
    a = take(h, 4 * MIB, 2);
    heap_give(h, &a);
    heap_destroy(h);
}

Test(heap_owners, the_nth_failure_charges_nothing)
{
    for (uint32_t nth = 1;; nth++) {
        struct heap *h = make(8 * MIB);
        struct heap_block b = {0};
        fault_arm(nth);
        enum status first = heap_quota(h, 1, 2 * MIB);
        enum status second = heap_take(h, MIB, 1, &b);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_expect_eq(first || second, fired);
        cr_expect_eq(heap_owner_bytes(h, 1), second ? 0 : MIB);
        heap_give(h, &b);
        heap_destroy(h);
        if (!fired) break;
        cr_assert_lt(nth, 10);
    }
}

/* ---- threads ---- */

struct racer {
    struct heap *heap;
    _Atomic uint64_t held; /* by all */
};

enum { ROUNDS = 20000, QUOTA_PAGES = 8 };

static void *race(void *arg)
{
    struct racer *r = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct heap_block b = {0};
        if (heap_take(r->heap, (uint64_t)(1 + i % 4) * 4096, 5, &b)) continue;
        uint64_t pages = (uint64_t)(1 + i % 4);
        cr_assert_leq(atomic_fetch_add(&r->held, pages) + pages, QUOTA_PAGES);
        atomic_fetch_sub(&r->held, pages);
        heap_give(r->heap, &b);
    }
    return NULL;
}

Test(heap_owners, threads_together_stay_within_a_quota)
{
    struct racer r = {.heap = make(64 * MIB)};
    pthread_t threads[4];
    cr_assert_eq(heap_quota(r.heap, 5, QUOTA_PAGES * 4096), STATUS_OK);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, race, &r);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(heap_owner_bytes(r.heap, 5), 0);
    heap_destroy(r.heap);
}

/* ---- the table ---- */

/* Against a naive model: owners come and go, so that places are shared and holes are closed. */
Test(accounts, a_walk_against_a_model)
{
    enum { OWNERS = 300 };
    static uint64_t model[OWNERS + 1];
    struct accounts a = {0};
    uint32_t seed = 7;
    uint64_t count = 0, peak = 0;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t owner = 1 + (seed >> 8) % (i / 50000 % 2 ? 30 : OWNERS);
        if (seed >> 31) {
            struct account *made = account_make(&a, owner);
            cr_assert_not_null(made);
            cr_assert_eq(made->bytes_used, model[owner]);
            count += !model[owner];
            model[owner] = made->bytes_used = 1 + seed % 9;
        } else if (model[owner]) {
            struct account *found = account_find(&a, owner);
            cr_assert_not_null(found);
            cr_assert_eq(found->bytes_used, model[owner]);
            model[owner] = found->bytes_used = 0;
            account_settle(&a, found);
            count--;
        } else {
            cr_assert_null(account_find(&a, owner));
        }
        cr_assert_eq(a.count, count);
        if (count > peak) peak = count;
    }
    cr_expect_gt(peak, 100);
    cr_expect_leq(a.places, 1024);
    for (uint32_t owner = 1; owner <= OWNERS; owner++) {
        const struct account *found = account_find(&a, owner);
        cr_assert_eq(found ? found->bytes_used : 0, model[owner], "owner %u", owner);
    }
    accounts_finish(&a);
}

/* ---------------------------------------------------------------- blocks that have begun */

Test(heap_owners, a_block_that_begins_counts_as_it_grows)
{
    struct heap *h = make(64 * MIB);
    struct heap_block b = {0};
    cr_assert_eq(heap_take_begun(h, 40 * MIB, 1, 1, &b), STATUS_OK);
    cr_expect_eq(heap_usage(h).bytes_used, 4096);
    cr_expect_eq(heap_owner_bytes(h, 1), 4096);
    void *place = b.data;
    for (uint64_t mib = 1; mib <= 40; mib++) {
        cr_assert_eq(heap_grow(h, &b, mib * MIB), STATUS_OK);
        cr_expect(b.data == place && b.bytes == mib * MIB);
        cr_expect_eq(heap_usage(h).bytes_used, mib * MIB);
        cr_expect_eq(heap_owner_bytes(h, 1), mib * MIB);
        memset((char *)b.data + (mib - 1) * MIB, (int)mib, MIB);
    }
    cr_assert_eq(heap_grow(h, &b, MIB), STATUS_OK, "it does not shrink");
    cr_expect_eq(b.bytes, 40 * MIB);
    heap_give(h, &b);
    cr_expect_eq(heap_usage(h).bytes_used, 0);
    cr_expect_eq(heap_owner_bytes(h, 1), 0);
    /* Of another owner's cached block nothing is seen, neither at first nor when it grows. */
    cr_assert_eq(heap_take_begun(h, 40 * MIB, MIB, 2, &b), STATUS_OK);
    cr_assert_eq(heap_grow(h, &b, 40 * MIB), STATUS_OK);
    for (uint64_t i = 0; i < 40 * MIB; i += 4096)
        cr_assert_eq(((char *)b.data)[i], 0);
    heap_release(h, &b);
    heap_destroy(h);
}

Test(heap_owners, growing_meets_the_bounds_and_leaves_the_block)
{
    struct heap *h = make(16 * MIB);
    struct heap_block a = {0}, b = {0}, c = {0};
    cr_assert_eq(heap_quota(h, 1, 6 * MIB), STATUS_OK);
    cr_assert_eq(heap_take_begun(h, 12 * MIB, MIB, 1, &a), STATUS_OK);
    cr_expect_eq(heap_grow(h, &a, 7 * MIB), STATUS_PERMISSION_DENIED);
    cr_expect_eq(heap_fits(h, 5 * MIB + 1, 1), STATUS_PERMISSION_DENIED);
    cr_expect_eq(heap_fits(h, 5 * MIB, 1), STATUS_OK);
    cr_expect(a.bytes == MIB && heap_owner_bytes(h, 1) == MIB);
    cr_assert_eq(heap_take_begun(h, 16 * MIB, MIB, 2, &b), STATUS_OK);
    cr_expect_eq(heap_fits(h, 14 * MIB + 1, 3), STATUS_RESOURCE_EXHAUSTED);
    cr_expect_eq(heap_grow(h, &b, 15 * MIB + 4096), STATUS_RESOURCE_EXHAUSTED);
    cr_expect(b.bytes == MIB && heap_owner_bytes(h, 2) == MIB);
    cr_expect_eq(heap_usage(h).bytes_used, 2 * MIB);
    cr_assert_eq(heap_grow(h, &b, 15 * MIB), STATUS_OK);
    cr_expect_eq(heap_take_begun(h, 17 * MIB, 1, 3, &c), STATUS_RESOURCE_EXHAUSTED);
    fault_arm(1);
    cr_expect_eq(heap_grow(h, &a, 2 * MIB), STATUS_RESOURCE_EXHAUSTED);
    fault_arm(0);
    heap_give(h, &b);
    cr_assert_eq(heap_grow(h, &a, 6 * MIB), STATUS_OK, "what is cached makes room");
    heap_give(h, &a);
    cr_expect_eq(heap_usage(h).bytes_used, 0);
    heap_quota(h, 1, 0);
    heap_destroy(h);
}
